// Keeps an open page true. Without this script every page works; it is then as old as its last load.
"use strict";
(() => {
  const sign = document.getElementById("live");
  const address = document.body.dataset.live;
  if (!sign || !address || !("EventSource" in window)) return;

  let lost = null, timer = null, loading = false;

  const say = (text, bad) => { sign.textContent = text; sign.classList.toggle("lost", bad); };
  const clock = (when) => when.toISOString().slice(11, 19) + " UTC";
  const fail = (what) => { lost = lost || new Date(); say(`${what} since ${clock(lost)}: this page is as it was then`, true); };
  const well = () => { lost = null; say("live", false); };

  // Nobody loses what they are typing, or the place that they are reading.
  const filled = (field) => field.type === "checkbox" || field.type === "radio"
    ? field.checked !== field.defaultChecked : field.value !== field.defaultValue;
  const busy = () => {
    const here = document.activeElement;
    return (here && here.matches("main input:not([type=checkbox]), main textarea, main select"))
      || [...document.querySelectorAll("main input, main textarea")].some(filled) || !getSelection().isCollapsed;
  };

  const load = async () => {
    timer = null;
    if (loading || document.hidden) return;
    if (busy()) { say("changed: load the page again to see it", false); later(); return; }
    loading = true;
    try {
      const answer = await fetch(location.href, { redirect: "manual" });
      if (!answer.ok) { fail(answer.type === "opaqueredirect" || answer.status === 401 ? "signed out" : "no answer"); return; }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = document.querySelector("main"), fresh = page.querySelector("main");
      if (busy() || !fresh) return;
      const open = [...main.querySelectorAll("details")].map((each) => each.open);
      fresh.querySelectorAll("details").forEach((each, at) => { each.open = Boolean(open[at]); });
      const focused = document.activeElement, links = [...main.querySelectorAll("a, button, summary, [tabindex]")];
      const at = links.indexOf(focused);
      main.replaceChildren(...fresh.childNodes);
      if (at >= 0) [...main.querySelectorAll("a, button, summary, [tabindex]")][at]?.focus({ preventScroll: true });
      document.title = page.title;
      well();
    } catch { fail("connection lost"); } finally { loading = false; }
  };

  const later = () => { timer = timer || setTimeout(load, 2000); };

  // What is slow to read may be shown as it was, while it is read again: look once more when that is over.
  let second = null;
  const changed = () => { later(); clearTimeout(second); second = setTimeout(load, 7000); };

  const events = new EventSource(address);
  events.addEventListener("open", () => { if (lost) later(); else well(); });
  events.addEventListener("changed", changed);
  events.addEventListener("beat", () => { if (lost) later(); });
  events.addEventListener("away", () => fail("the database is away"));
  events.addEventListener("signed-out", () => { events.close(); fail("signed out"); });
  events.onerror = () => fail("connection lost");
  document.addEventListener("visibilitychange", () => { if (!document.hidden) later(); });
  addEventListener("pagehide", () => events.close());
})();
