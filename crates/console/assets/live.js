// Updates the list of the newest checks by server-sent events.
"use strict";

(() => {
  const live = document.querySelector("[data-events]");
  if (!live || !window.EventSource) return;

  const part = (name) => live.querySelector(`[data-${name}]`);
  const [state, pause, empty, table, rows] = ["state", "pause", "empty", "table", "rows"].map(part);
  const maxRows = Number(live.dataset.maxRows);
  // Minimum interval of announcements to screen readers.
  const announceIntervalMs = 10000;
  const count = { new: 0, change: 0 };
  let source = null;
  let announcedAt = 0;
  let timer = null;

  const setStatus = (text, tone) => {
    state.textContent = text;
    live.dataset.tone = tone;
  };

  const plural = (number, one, many) => (number === 1 ? `1 ${one}` : `${number} ${many}`);

  const announce = () => {
    timer = null;
    if (!source) return;
    const parts = [];
    if (count.new > 0) parts.push(plural(count.new, "new check", "new checks"));
    if (count.change > 0) parts.push(plural(count.change, "change", "changes"));
    count.new = count.change = 0;
    announcedAt = Date.now();
    setStatus(parts.length > 0 ? `Live. ${parts.join(", ")}.` : "Live.", "on");
  };

  const scheduleAnnouncement = () => {
    if (timer === null) timer = setTimeout(announce, Math.max(0, announcedAt + announceIntervalMs - Date.now()));
  };

  const parseRows = (data) => {
    const template = document.createElement("template");
    template.innerHTML = data;
    return [...template.content.querySelectorAll("tr")];
  };

  const updateTable = () => {
    while (rows.rows.length > maxRows) rows.rows[rows.rows.length - 1].remove();
    empty.hidden = rows.rows.length > 0;
    table.hidden = rows.rows.length === 0;
  };

  const putRow = (row) => {
    const old = document.getElementById(row.id);
    const hadFocus = old !== null && old.contains(document.activeElement);
    if (old !== null) old.remove();
    row.classList.add("fresh");
    rows.prepend(row);
    if (hadFocus) row.querySelector("a").focus({ preventScroll: true });
  };

  const showSnapshot = (data) => {
    const focused = document.activeElement && document.activeElement.closest("[data-rows] tr");
    rows.replaceChildren(...parseRows(data));
    const restored = focused && document.getElementById(focused.id);
    if (restored) restored.querySelector("a").focus({ preventScroll: true });
    updateTable();
  };

  const stop = (text, tone) => {
    if (source) source.close();
    source = null;
    clearTimeout(timer);
    timer = null;
    pause.textContent = "Resume";
    setStatus(text, tone);
  };

  const follow = () => {
    setStatus("Connecting…", "off");
    pause.textContent = "Pause";
    source = new EventSource(live.dataset.events);
    source.addEventListener("present", (event) => {
      showSnapshot(event.data);
      setStatus("Live.", "on");
    });
    for (const kind of ["new", "change"]) {
      source.addEventListener(kind, (event) => {
        parseRows(event.data).forEach(putRow);
        updateTable();
        count[kind] += 1;
        scheduleAnnouncement();
      });
    }
    source.addEventListener("missed", (event) => {
      setStatus(`${plural(Number(event.data), "change was", "changes were")} skipped because there were too many.`, "on");
    });
    source.addEventListener("ended", () => {
      stop("Your session has ended. Reload the page to sign in.", "off");
    });
    source.addEventListener("replaced", () => {
      stop("Stopped: you have opened too many live views.", "off");
    });
    source.addEventListener("error", () => {
      if (!source) return;
      if (source.readyState === EventSource.CLOSED) {
        stop("Stopped. Your session has ended, or too many live views are open.", "off");
      } else {
        setStatus("Connection lost. Reconnecting…", "off");
      }
    });
  };

  pause.addEventListener("click", () => {
    if (source) stop("Paused.", "off");
    else follow();
  });
  // A page in the back/forward cache must not hold a subscription.
  window.addEventListener("pagehide", () => source && stop("Paused.", "off"));
  window.addEventListener("pageshow", (event) => event.persisted && !source && follow());
  pause.hidden = false;
  follow();
})();
