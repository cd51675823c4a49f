// What pop-up windows and frames have in common.

/** Name of the window or frame, by which the page knows that it may report to the page that opened it. */
export const WINDOW_NAME = 'ringtrue-verify';

/** A pop-up window or frame in which the page opens. */
export interface View {
  window: Window | null;
  load(url: string): void;
  focus(): void;
  close(): void;
}

/** Events that a view reports. */
export interface ViewEvents {
  closed(): void;
  /** The page cannot be shown here. */
  refused(): void;
}

export interface FrameLabels {
  /** Accessible name of the frame. Defaults to `Phone number verification`. */
  label?: string;
  /** Accessible name of the frame's close button. Defaults to `Close`. */
  closeLabel?: string;
}
