"use strict";
// Small conveniences; every page can be read without them.

// A part of a page that is loaded into its place: for details when they are opened.
async function load(place) {
  const url = place.dataset.load;
  delete place.dataset.load;
  try {
    const reply = await fetch(url);
    place.innerHTML = await reply.text();
  } catch {
    place.textContent = "The page is not reachable. Is mdrecall still running?";
  }
}
document.addEventListener("toggle", (event) => {
  const place = event.target.open && event.target.querySelector("[data-load]");
  if (place) load(place);
}, true);
for (const place of document.querySelectorAll("[data-load]:not(details *)")) load(place);

// Results while typing. Each key asks again, and gives up what was asked before.
const searching = document.querySelector("form[data-results]");
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
    try {
      const reply = await fetch(`${searching.dataset.results}?${params}`, { signal: asked.signal });
      results.innerHTML = await reply.text();
      status.textContent = "";
      results.dataset.query = params.get("q") ?? "";
      history.replaceState(null, "", params.size ? `?${params}` : location.pathname);
    } catch (error) {
      if (error.name !== "AbortError") status.textContent = "The page is not reachable. Is mdrecall still running?";
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

// Map: the label below it names the note that the pointer or the focus is on.
for (const label of document.querySelectorAll("[data-label]")) {
  const map = label.previousElementSibling;
  const tell = (event) => {
    const link = event.target.closest("a");
    if (!link) return;
    const path = new URL(link.href.baseVal, location).searchParams.get("path");
    label.textContent = link.getAttribute("aria-label") + " \u00b7 " + path;
  };
  map.addEventListener("mouseover", tell);
  map.addEventListener("focusin", tell);
}

// A note: the first cited line is brought into view, also if it has no anchor of its own.
if (!location.hash || !document.getElementById(location.hash.slice(1)))
  document.querySelector("mark.cited")?.scrollIntoView({ block: "center" });

// A text that was changed is not lost by a slip: the browser asks before it leaves the page.
for (const field of document.querySelectorAll("textarea[data-guard]")) {
  const ask = (event) => { if (field.value !== field.defaultValue) event.preventDefault(); };
  addEventListener("beforeunload", ask);
  field.form.addEventListener("submit", () => removeEventListener("beforeunload", ask));
}
