"use strict";
// Small conveniences; every page can be read without them.

// The part of another page that this one shows in a place of its own.
const gone = "The page is not reachable. Is mdrecall still running?";
async function fetchPart(url, options) {
  const reply = await fetch(url, options);
  const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  return fresh.querySelector(reply.ok ? "[data-part]" : "main")?.childNodes ?? [];
}
// Parts that are loaded into their places: those in details when they are opened.
async function load(place) {
  const url = place.dataset.load;
  delete place.dataset.load;
  try {
    place.replaceChildren(...await fetchPart(url));
  } catch {
    place.textContent = gone;
  }
}
document.addEventListener("toggle", (event) => {
  const place = event.target.open && event.target.querySelector("[data-load]");
  if (place) load(place);
}, true);
for (const place of document.querySelectorAll("[data-load]:not(details *)")) load(place);

// Results while typing. Each key asks again, and gives up what was asked before.
const searching = document.querySelector("form[data-live]");
if (searching) {
  const results = document.getElementById("results");
  const status = document.getElementById("status");
  let waiting = 0;
  let asked = null;
  const ask = async () => {
    asked?.abort();
    asked = new AbortController();
    const params = new URLSearchParams();
    for (const [name, value] of new FormData(searching)) if (value) params.set(name, value);
    const url = `${location.pathname}${params.size ? "?" : ""}${params}`;
    try {
      results.replaceChildren(...await fetchPart(url, { signal: asked.signal }));
      status.textContent = "";
      results.dataset.query = params.get("q") ?? "";
      history.replaceState(null, "", url);
    } catch (error) {
      if (error.name !== "AbortError") status.textContent = gone;
    }
  };
  // Long enough to wait for a second letter of a fast typist, too short to be noticed.
  searching.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 35); });
  searching.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(waiting); ask(); });
}

// Keys: / goes to the search field, arrows move among results.
document.addEventListener("keydown", (event) => {
  const field = document.getElementById("q");
  const inField = event.target.matches("input, textarea, select");
  if (event.key === "/" && field && !inField) { event.preventDefault(); field.focus(); field.select(); return; }
  if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
  const links = [...document.querySelectorAll(".result .title")];
  if (!links.length || (inField && event.target !== field)) return;
  const next = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
  event.preventDefault();
  (links[next] ?? field)?.focus();
});

// Timeline: the arrow keys move between the days of a calendar, so that Tab need not pass through all of them.
for (const area of document.querySelectorAll("[data-arrows]")) {
  const stops = [...area.querySelectorAll(area.dataset.arrows)];
  stops.forEach((stop, place) => { if (place) stop.setAttribute("tabindex", "-1"); });
  area.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const next = stops[stops.indexOf(event.target.closest(area.dataset.arrows)) + step];
    if (!step || !next) return;
    event.preventDefault();
    stops.forEach((stop) => stop.setAttribute("tabindex", stop === next ? "0" : "-1"));
    next.focus();
  });
}

// A note: the first cited line is brought into view, also if it has no anchor of its own.
if (!location.hash || !document.getElementById(location.hash.slice(1)))
  document.querySelector("mark.cited")?.scrollIntoView({ block: "center" });

// Tasks: a tick is sent without leaving the page; what the answer shows stands in its place.
document.addEventListener("submit", async (event) => {
  const replaced = event.target.dataset.replace;
  if (!replaced || !event.submitter) return;
  event.preventDefault();
  const sent = new URLSearchParams(new FormData(event.target));
  sent.set("line", event.submitter.value);
  const main = document.querySelector("main");
  try {
    const reply = await fetch(event.target.action, { method: "POST", body: sent });
    const fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
    for (const place of reply.ok ? replaced.split(",") : ["main"])
      document.querySelector(place).replaceWith(fresh.querySelector(place));
    (document.querySelector(`.task[value="${sent.get("line")}"]`) ?? document.querySelector("main")).focus();
  } catch {
    const problem = document.createElement("p");
    problem.textContent = "The page is not reachable, so nothing was ticked. Is mdrecall still running?";
    main.prepend(Object.assign(problem, { className: "problem", role: "alert" }));
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
