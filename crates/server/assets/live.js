// Keeps the list of the newest checks up to date by server-sent events. Without this script the list stays as it was
// when the page was loaded.
"use strict";

(() => {
  const live = document.querySelector("[data-events]");
  if (!live || !window.EventSource) return;

  const part = (name) => live.querySelector(`[data-${name}]`);
  const [state, pause, empty, table, rows] = ["state", "pause", "empty", "table", "rows"].map(part);
  const most = Number(live.dataset.most);
  // A screen reader is told what happened, and not more often than this.
  const quietFor = 10000;
  const count = { new: 0, change: 0 };
  let source = null;
  let spokenAt = 0;
  let timer = null;

  const say = (text, tone) => {
    state.textContent = text;
    live.dataset.tone = tone;
  };

  const several = (number, one, many) => (number === 1 ? `1 ${one}` : `${number} ${many}`);

  const report = () => {
    timer = null;
    if (!source) return;
    const told = [];
    if (count.new > 0) told.push(several(count.new, "new check", "new checks"));
    if (count.change > 0) told.push(several(count.change, "change", "changes"));
    count.new = count.change = 0;
    spokenAt = Date.now();
    say(told.length > 0 ? `Live. ${told.join(", ")}.` : "Live.", "on");
  };

  const reportSoon = () => {
    if (timer === null) timer = setTimeout(report, Math.max(0, spokenAt + quietFor - Date.now()));
  };

  const parsed = (data) => {
    const template = document.createElement("template");
    template.innerHTML = data;
    return [...template.content.querySelectorAll("tr")];
  };

  const settle = () => {
    while (rows.rows.length > most) rows.rows[rows.rows.length - 1].remove();
    empty.hidden = rows.rows.length > 0;
    table.hidden = rows.rows.length === 0;
  };

  const put = (row) => {
    const old = document.getElementById(row.id);
    const hadFocus = old !== null && old.contains(document.activeElement);
    if (old !== null) old.remove();
    row.classList.add("fresh");
    rows.prepend(row);
    if (hadFocus) row.querySelector("a").focus({ preventScroll: true });
  };

  const present = (data) => {
    const focused = document.activeElement && document.activeElement.closest("[data-rows] tr");
    rows.replaceChildren(...parsed(data));
    const again = focused && document.getElementById(focused.id);
    if (again) again.querySelector("a").focus({ preventScroll: true });
    settle();
  };

  const stop = (text, tone) => {
    if (source) source.close();
    source = null;
    clearTimeout(timer);
    timer = null;
    pause.textContent = "Resume";
    say(text, tone);
  };

  const follow = () => {
    say("Connecting…", "off");
    pause.textContent = "Pause";
    source = new EventSource(live.dataset.events);
    source.addEventListener("present", (event) => {
      present(event.data);
      say("Live.", "on");
    });
    for (const kind of ["new", "change"]) {
      source.addEventListener(kind, (event) => {
        parsed(event.data).forEach(put);
        settle();
        count[kind] += 1;
        reportSoon();
      });
    }
    source.addEventListener("missed", (event) => {
      say(`${several(Number(event.data), "change was", "changes were")} skipped: too many came at once.`, "on");
    });
    source.addEventListener("ended", () => {
      stop("Your session has ended. Load the page again to sign in.", "off");
    });
    source.addEventListener("replaced", () => {
      stop("Not live: you have opened others since.", "off");
    });
    source.addEventListener("error", () => {
      if (!source) return;
      if (source.readyState === EventSource.CLOSED) {
        stop("Not live. Your session has ended, or too many windows are open.", "off");
      } else {
        say("The connection was lost. Trying again…", "off");
      }
    });
  };

  pause.addEventListener("click", () => {
    if (source) stop("Paused.", "off");
    else follow();
  });
  // A page that goes must not keep its place.
  window.addEventListener("pagehide", () => source && stop("Paused.", "off"));
  window.addEventListener("pageshow", (event) => event.persisted && !source && follow());
  pause.hidden = false;
  follow();
})();
