// Draws the page's charts and switches its theme. Colours come from the style sheet, so a theme needs no new drawing.
"use strict";
const told = JSON.parse(document.getElementById("charts").textContent);
let drawn = 0;

function draw() {
  const turn = ++drawn;
  for (const [name, chart] of Object.entries(told.charts)) {
    const place = document.getElementById(`chart-${name}`);
    const room = place.clientWidth;
    const narrow = room < 560;
    // Labels and axes stand beside the drawing: `room` is what both may take together.
    const labels = Math.min(narrow ? 110 : 240, 8 * told.longest + 12);
    const width = Math.max(room - (name === "blocks" || name === "latency" ? 58 : labels + 24), 120);
    const spec = structuredClone(chart);
    if (spec.spec) spec.spec.width = width; else spec.width = width;
    const config = structuredClone(told.config);
    config.axis.labelLimit = labels;
    if (narrow) config.legend.columns = 2;
    // Warnings tell of contenders without void blocks; errors still show.
    vegaEmbed(place, spec, { config, renderer: "svg", actions: false, logLevel: 1 })
      .then((view) => {
        if (turn !== drawn) { view.finalize(); return; }
        place.dataset.drawn = "yes";
      });
  }
}

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
