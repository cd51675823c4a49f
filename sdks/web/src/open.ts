// Opens the hosted page of a verification, and reports how it ended.
import { openFrame } from './frame.js';
import { openPopup } from './popup.js';
import type { FrameLabels, View, ViewEvents } from './view.js';

/** Where the page opens: in this tab, in a pop-up window, or in a frame over this page. */
export type Mode = 'redirect' | 'popup' | 'frame';

/** Where a verification continues: the `url` that your backend got when it created the verification. */
export type VerificationUrl = string | URL | PromiseLike<string | URL>;

/**
 * What the page reports. It proves nothing: pass it to your backend, which redeems the `code`.
 * The members are the parameters with which the browser would return to the `redirect_url`.
 */
export interface Report {
  verification_id: string;
  reference_id?: string;
  /** For your backend to redeem. Absent if the verification has no `redirect_url`, or after a failure. */
  code?: string;
  /** Why the verification failed, such as `no_match`, `expired` or `given_up`. More may be added. */
  error?: string;
}

/** How it ended. `closed`: the user closed the window or frame, or came back from the redirect. */
export type Result = ({ event: 'verified' } & Report) | ({ event: 'failed' } & Report) | { event: 'closed' };

export interface OpenOptions extends FrameLabels {
  /** While a promise is pending, the window or frame is open and empty: browsers block pop-ups that open later. */
  url: VerificationUrl;
  /** Defaults to `popup`. If the browser blocks the pop-up or the page refuses the frame, it opens in this tab. */
  mode?: Mode;
  onVerified?: (report: Report) => void;
  onFailed?: (report: Report) => void;
  onClosed?: () => void;
}

export interface OpenVerification {
  /** Resolves when the verification has ended here. Rejects if the `url` is invalid, or its promise rejects. */
  readonly result: Promise<Result>;
  /** Brings the pop-up window to the front. */
  focus(): void;
  /** Closes the window or frame, which reports `closed`. */
  close(): void;
}

interface Message extends Report {
  source?: unknown;
  event?: unknown;
}

// The name belongs to one window or frame at a time.
let current: OpenVerification | undefined;

/**
 * Opens the hosted page of a verification. Call it in the handler of a click or tap, or the browser blocks the pop-up.
 */
export function openVerification(options: OpenOptions): OpenVerification {
  current?.close();
  let settle: (result: Result) => void = () => {};
  let fail: (reason: unknown) => void = () => {};
  const result = new Promise<Result>((resolve, reject) => {
    settle = resolve;
    fail = reject;
  });
  let isOver = false;
  let page: URL | undefined;
  let isReady = false;

  const stop = () => {
    isOver = true;
    removeEventListener('message', onMessage);
    removeEventListener('pageshow', onShow);
    view?.close();
    if (current === opened) current = undefined;
  };
  const finish = (result: Result) => {
    if (isOver) return;
    stop();
    settle(result);
    if (result.event === 'closed') options.onClosed?.();
    else {
      const { event, ...report } = result;
      (event === 'verified' ? options.onVerified : options.onFailed)?.(report);
    }
  };
  const close = () => finish({ event: 'closed' });
  const redirect = () => {
    view?.close();
    view = undefined;
    if (page && !isOver) {
      page.searchParams.delete('display');
      location.assign(page.href);
    }
  };
  const onMessage = ({ origin, source, data }: MessageEvent<Message | undefined>) => {
    // Any page can send a message. Only the page in our own window or frame is believed.
    if (origin !== page?.origin || !source || source !== view?.window || data?.source !== 'ringtrue') return;
    const { source: _, event, ...report } = data;
    isReady = true;
    if (event === 'close') close();
    else if (event === 'verified' || event === 'failed') finish({ event, ...report });
  };
  // The user has come back from the redirect, to a page that the browser has kept.
  const onShow = ({ persisted }: PageTransitionEvent) => persisted && close();

  const opened = { result, close, focus: () => view?.focus() };
  const mode = options.mode ?? 'popup';
  const events: ViewEvents = { closed: close, refused: () => isReady || redirect() };
  const open = { popup: openPopup, frame: openFrame, redirect: () => undefined }[mode];
  let view: View | undefined = open(events, options);
  current = opened;
  addEventListener('message', onMessage);
  addEventListener('pageshow', onShow);
  Promise.resolve(options.url)
    .then((url) => {
      page = new URL(url, location.href);
      // Other schemes, such as `javascript:`, would run in this page.
      if (!/^https?:$/.test(page.protocol)) throw new TypeError('The URL of a verification starts with https://');
      if (isOver) return;
      if (!view) return redirect();
      page.searchParams.set('display', mode);
      view.load(page.href);
    })
    .catch((reason) => {
      if (isOver) return;
      stop();
      fail(reason);
    });
  return opened;
}
