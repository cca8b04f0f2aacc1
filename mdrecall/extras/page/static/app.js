"use strict";
// Small conveniences; every page can be read without them.

const gone = "The page is not reachable. Is mdrecall still running?";
async function fetchPage(url, options) {
  const reply = await fetch(url, options);
  return [reply.ok, new DOMParser().parseFromString(await reply.text(), "text/html")];
}

// Parts of another page that are shown in a place of this one: those in details when they are opened.
async function load(place, url, options) {
  try {
    const [isDone, page] = await fetchPage(url, options);
    place.replaceChildren(...page.querySelector(isDone ? "[data-part]" : "main")?.childNodes ?? []);
    return true;
  } catch (error) {
    if (error.name !== "AbortError") place.textContent = gone;
  }
}
function loadOnce(place) {
  load(place, place.dataset.load);
  delete place.dataset.load;
}
document.addEventListener("toggle", (event) => {
  const place = event.target.open && event.target.querySelector("[data-load]");
  if (place) loadOnce(place);
}, true);
for (const place of document.querySelectorAll("[data-load]:not(details *)")) loadOnce(place);

// Results while typing. Each key asks again, and gives up what was asked before.
const searching = document.querySelector("form[data-live]");
if (searching) {
  const results = document.getElementById("results");
  let waiting = 0;
  let asked = null;
  const ask = async () => {
    asked?.abort();
    asked = new AbortController();
    const params = new URLSearchParams([...new FormData(searching)].filter(([, value]) => value));
    const url = `${location.pathname}?${params}`;
    if (await load(results, url, { signal: asked.signal })) {
      results.dataset.query = params.get("q") ?? "";
      history.replaceState(null, "", url);
    }
  };
  // Long enough to wait for a second letter of a fast typist, too short to be noticed.
  searching.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 35); });
  searching.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); ask(); });
}

// Keys: / goes to the search field. From there the arrows move among titles, and in the calendar among days, which
// Tab therefore passes over.
for (const day of [...document.querySelectorAll(".month a")].slice(1)) day.tabIndex = -1;
document.addEventListener("keydown", (event) => {
  const field = document.getElementById("q");
  if (event.key === "/" && field && !event.target.matches("input, textarea")) {
    event.preventDefault();
    field.focus();
    field.select();
  }
  const isDay = event.target.matches(".month a");
  const step = { ArrowDown: 1, ArrowUp: -1, ArrowRight: isDay && 1, ArrowLeft: isDay && -1 }[event.key];
  const stops = [...document.querySelectorAll(isDay ? ".month a" : "#q, a.title")];
  const next = stops.indexOf(event.target) < 0 ? null : stops[stops.indexOf(event.target) + step];
  if (!step || !next) return;
  event.preventDefault();
  next.focus();
});

// A note: the first cited line is brought into view, also if it has no anchor of its own.
if (!location.hash || !document.getElementById(location.hash.slice(1)))
  document.querySelector("mark.cited")?.scrollIntoView({ block: "center" });

// Tasks: a tick is sent without leaving the page; what the answer shows stands in its place.
document.addEventListener("submit", async (event) => {
  const replaced = event.target.dataset.replace;
  if (!replaced || !event.submitter) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(event.target, event.submitter));
  const main = document.querySelector("main");
  try {
    const [isDone, page] = await fetchPage(event.target.action, { method: "POST", body });
    const place = isDone ? replaced : "main";
    document.querySelector(place).replaceWith(page.querySelector(place));
    (document.querySelector(`.task[value="${body.get("line")}"]`) ?? document.querySelector("main")).focus();
  } catch {
    main.prepend(Object.assign(document.createElement("p"), { className: "problem", role: "alert", textContent: gone }));
  }
});

// Editing: the text as it will be shown beside the form, where there is room for both.
const editor = document.querySelector("[data-preview]");
if (editor && matchMedia("(min-width: 70rem)").matches) {
  const form = editor.closest("form");
  const shown = Object.assign(document.createElement("div"), { className: "note preview", role: "region", tabIndex: 0 });
  shown.ariaLabel = "Preview";
  editor.append(shown);
  let waiting = 0;
  const show = async () => {
    try {
      const body = new URLSearchParams(new FormData(form));
      const reply = await fetch(editor.dataset.preview, { method: "POST", body });
      if (reply.ok) shown.innerHTML = await reply.text();
    } catch { /* Saving says what is wrong. */ }
  };
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 250); });
  show();
}

// A text that was changed is not lost by a slip: the browser asks before it leaves the page.
for (const field of document.querySelectorAll("textarea[data-guard]")) {
  const ask = (event) => { if (field.value !== field.defaultValue) event.preventDefault(); };
  addEventListener("beforeunload", ask);
  field.form.addEventListener("submit", () => removeEventListener("beforeunload", ask));
}
