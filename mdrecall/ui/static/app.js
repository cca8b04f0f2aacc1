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

// Parts of a page that take longer are loaded after it is shown: an element says from where by data-load.
for (const place of document.querySelectorAll("[data-load]")) {
  fetch(place.dataset.load).then(async (reply) => { if (reply.ok) place.innerHTML = await reply.text(); }).catch(() => {});
}

// A note: the first cited line is brought into view, also if it has no anchor of its own.
if (!location.hash || !document.getElementById(location.hash.slice(1)))
  document.querySelector("mark.cited")?.scrollIntoView({ block: "center" });
