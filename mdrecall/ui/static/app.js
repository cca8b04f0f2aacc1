"use strict";
// Small conveniences; every page can be read without them.

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
