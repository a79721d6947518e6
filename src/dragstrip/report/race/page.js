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
    // Of a race of several columns "c2-blocks" is the second one's "blocks".
    const kind = name.replace(/^c\d+-/, "");
    const letters = told.longest + (kind === "pairs" ? "against ".length : 0);
    const labels = Math.max(Math.min(narrow ? 110 : 240, 8 * letters + 12), 64);
    const after = kind === "pairs" ? (narrow ? 120 : 150) : 0;
    const width = Math.max(room - after - (["blocks", "latency", "columns", "rate", "times"].includes(kind) ? 58 : labels + 24), 90);
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

// An icicle graph: the nodes are in the order of the tree, and a node's row shows how deep it is.
for (const graph of document.querySelectorAll(".icicle")) {
  const box = graph.parentElement;
  const [tools, said] = [box.previousElementSibling, box.nextElementSibling];
  const [find, out, found] = ["input", "button", "output"].map((kind) => tools.querySelector(kind));
  const nodes = [...graph.children].map((shape) => ({
    shape, x: parseFloat(shape.getAttribute("x")), width: parseFloat(shape.getAttribute("width")),
    row: Number(shape.getAttribute("y")), text: shape.querySelector("title").textContent, calls: [],
  }));
  const above = [];
  for (const node of nodes) {
    while (above.length && above.at(-1).row >= node.row) above.pop();
    node.caller = above.at(-1);
    node.caller?.calls.push(node);
    above.push(node);
  }
  let focused = nodes[0];
  let zoomed = nodes[0];

  const zoom = (to) => {
    zoomed = to;
    const callers = new Set();
    for (let at = to.caller; at; at = at.caller) callers.add(at);
    for (const node of nodes) {
      const inside = node.row >= to.row && node.x >= to.x - 1e-6 && node.x + node.width <= to.x + to.width + 2e-3;
      const [x, width] = callers.has(node) ? [0, 100] : [(node.x - to.x) * 100 / to.width, node.width * 100 / to.width];
      node.shape.setAttribute("x", `${x}%`);
      node.shape.setAttribute("width", `${width}%`);
      node.shape.classList.toggle("above", callers.has(node));
      node.shape.classList.toggle("gone", !inside && !callers.has(node));
    }
  };
  const focus = (to) => {
    if (!to) return;
    focused.shape.setAttribute("tabindex", "-1");
    focused = to;
    to.shape.setAttribute("tabindex", "0");
    to.shape.focus();
  };
  const beside = (by) => {
    const row = nodes.filter((node) => node.row === focused.row && !node.shape.classList.contains("gone"));
    return row[row.indexOf(focused) + by];
  };
  const moves = {
    ArrowDown: () => focus(focused.calls[0]), ArrowUp: () => focus(focused.caller),
    ArrowLeft: () => focus(beside(-1)), ArrowRight: () => focus(beside(1)),
    Enter: () => zoom(focused), " ": () => zoom(focused), Escape: () => zoom(nodes[0]),
  };
  graph.addEventListener("keydown", (event) => {
    if (!moves[event.key]) return;
    event.preventDefault();
    moves[event.key]();
  });
  const of = (event) => nodes.find((node) => node.shape === event.target.closest(".icicle > svg"));
  graph.addEventListener("click", (event) => { const node = of(event); if (node) { focus(node); zoom(node); } });
  for (const kind of ["pointerover", "focusin"]) {
    graph.addEventListener(kind, (event) => { said.textContent = of(event)?.text ?? said.textContent; });
  }
  out.addEventListener("click", () => zoom(nodes[0]));
  find.addEventListener("input", () => {
    const word = find.value.trim().toLowerCase();
    const hits = word ? nodes.filter((node) => node.text.split(";")[0].toLowerCase().includes(word)) : [];
    for (const node of nodes) node.shape.classList.toggle("hit", hits.includes(node));
    graph.classList.toggle("searched", Boolean(word));
    // A function below another hit is part of it.
    const isIn = (node) => { for (let at = node.caller; at; at = at.caller) if (hits.includes(at)) return true; return false; };
    const share = hits.filter((node) => !isIn(node)).reduce((sum, node) => sum + node.width, 0);
    found.textContent = word ? `${hits.length} found, ${share.toFixed(1)} % of the CPU time` : "";
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
