// Draws the page's charts and switches its theme. Colours come from the style sheet, so a theme needs no new drawing.
"use strict";
const told = JSON.parse(document.getElementById("charts").textContent);
const turns = new Map();

function draw() {
  const whole = document.querySelector("main").clientWidth;
  for (const [name, chart] of Object.entries(told.charts)) {
    const place = document.getElementById(`chart-${name}`);
    // In a folded section a chart has no width yet: it is drawn for the whole page, and again when it is unfolded.
    const room = place.clientWidth || whole;
    if (turns.get(name)?.room === room) continue;
    const turn = { room };
    turns.set(name, turn);
    const narrow = room < 560;
    // Labels and axes stand beside the drawing: `room` is what both may take together.
    // The limit is for an axis of numbers, too: names of one letter must not cut "100k" short.
    const labels = Math.max(Math.min(narrow ? 110 : 240, 8 * told.longest + 12), 64);
    // Of a race of several columns "c2-blocks" is the second one's "blocks".
    const kind = name.replace(/^c\d+-/, "");
    const after = kind === "pairs" ? 112 : 0;
    const width = Math.max(room - after - (["blocks", "latency", "columns"].includes(kind) ? 58 : labels + 24), 90);
    const spec = structuredClone(chart);
    if (spec.spec) spec.spec.width = width; else spec.width = width;
    const config = structuredClone(told.config);
    config.axis.labelLimit = labels;
    if (narrow) config.legend.columns = 2;
    // Warnings tell of contenders without void blocks; errors still show.
    vegaEmbed(place, spec, { config, renderer: "svg", actions: false, logLevel: 1 })
      .then((view) => {
        if (turns.get(name) !== turn) { view.finalize(); return; }
        place.dataset.drawn = "yes";
      });
  }
}

// A link into a folded section unfolds it; paper gets everything.
function unfold() {
  if (!location.hash) return;
  const place = document.getElementById(location.hash.slice(1));
  for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
  const own = place?.querySelector(":scope > details");
  if (own) own.open = true;
  place?.scrollIntoView();
}
addEventListener("hashchange", unfold);
document.querySelectorAll('a[href^="#"]').forEach((link) => link.addEventListener("click", () => setTimeout(unfold)));
document.addEventListener("toggle", () => draw(), true);
addEventListener("beforeprint", () => { for (const one of document.querySelectorAll("details")) one.open = true; });
unfold();

for (const button of document.querySelectorAll("[data-set-theme]")) {
  button.addEventListener("click", () => {
    const theme = button.dataset.setTheme;
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    for (const other of document.querySelectorAll("[data-set-theme]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  });
}

let last = 0;
let later = 0;
addEventListener("resize", () => {
  clearTimeout(later);
  later = setTimeout(() => {
    if (document.body.clientWidth !== last) { last = document.body.clientWidth; draw(); }
  }, 150);
});
last = document.body.clientWidth;
draw();
