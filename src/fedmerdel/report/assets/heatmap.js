"use strict";
// The heatmap: cells from the page's data, by what the controls say. All texts are set as text.
const heat = JSON.parse(document.getElementById("heat-data").textContent);
const table = document.getElementById("heat");
const controls = document.getElementById("heat-controls");
const told = document.getElementById("heat-told");
const MOST_NUMBERS = 40; // columns that leave room for a number in each cell
const HINT = told.textContent;
let clusterOrder = heat.orders.size.slice();

const percent = (share, digits = 1) => (100 * share).toFixed(digits) + " %";
const nameOf = (k) => heat.clusters[k].name || "cluster " + heat.clusters[k].number;

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function mixed(stops, at) {
  const place = Math.min(Math.max(at, 0), 1) * (stops.length - 1);
  const first = Math.min(Math.floor(place), stops.length - 2);
  const channels = (stop) => [1, 3, 5].map((i) => parseInt(stop.slice(i, i + 2), 16));
  const [a, b] = [channels(stops[first]), channels(stops[first + 1])];
  return a.map((x, i) => Math.round(x + (b[i] - x) * (place - first)));
}

// Black or white, whichever stands out more: by relative luminance, as WCAG has it.
function ink(channels) {
  const [red, green, blue] = channels.map((x) => x / 255)
    .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.179 ? "#fff" : "#000";
}

const measures = {
  prevalence: {
    colour: (x) => mixed(heat.shareStops, x),
    text: (x) => (x >= 0.005 ? (100 * x).toFixed(0) : ""),
    ends: ["0 %", "100 %"], stops: heat.shareStops,
  },
  ratio: { // twice as often is as far from white as half as often; eight times is the end
    colour: (x) => mixed(heat.ratioStops, 0.5 + Math.log2(Math.max(x, 1e-9)) / 6),
    text: (x) => (x >= 9.95 ? x.toFixed(0) : x.toFixed(1)),
    ends: ["1/8 or less", "8 or more"], stops: heat.ratioStops,
  },
  exclusivity: {
    colour: (x) => mixed(heat.shareStops, x),
    text: (x) => (x >= 0.005 ? (100 * x).toFixed(0) : ""),
    ends: ["0 %", "100 %"], stops: heat.shareStops,
  },
};

function chosenColumns() {
  const wanted = document.getElementById("column-search").value.trim().toLowerCase();
  const by = document.getElementById("column-order").value;
  const most = document.getElementById("column-count").value;
  const all = heat.columns.map((column, at) => ({ ...column, at }));
  const found = all.filter((column) =>
    (column.label + " " + column.variable).toLowerCase().includes(wanted));
  const share = (column) => column.overall ?? -1; // measured nowhere: last
  if (by === "prevalent") found.sort((a, b) => share(b) - share(a) || a.at - b.at);
  if (by === "distinguishing") found.sort((a, b) => b.information - a.information || a.at - b.at);
  return most === "all" ? found : found.slice(0, Number(most));
}

function draw() {
  const measure = controls.elements.measure.value;
  const way = measures[measure];
  const columns = chosenColumns();
  const head = element("tr");
  head.append(element("th", "cluster", { scope: "col" }));
  for (const column of columns) {
    const turned = element("th", "", { scope: "col", class: "turned", title: column.label });
    turned.append(element("span", column.label));
    head.append(turned);
  }
  head.append(element("th", "rows", { scope: "col", class: "rows" }));
  const body = element("tbody");
  clusterOrder.forEach((k, line) => body.append(drawLine(k, line, columns, measure, way)));
  const thead = element("thead");
  thead.append(head);
  table.replaceChildren(table.caption, thead, body);
  const first = body.querySelector("td.cell");
  if (first) first.tabIndex = 0;
  drawScale(way);
  told.textContent = columns.length ? HINT : "No condition has this in its name.";
}

function textOf(value, way) {
  return value === null ? "–" : way.text(value);
}

function drawLine(k, line, columns, measure, way) {
  const row = element("tr", "", { "data-cluster": heat.clusters[k].number });
  const header = element("th", "", { scope: "row" });
  header.append(...nameCell(k, line));
  row.append(header);
  for (const column of columns) {
    const value = heat.measures[measure][k][column.at];
    const cell = element("td", columns.length <= MOST_NUMBERS ? textOf(value, way) : "",
      { class: value === null ? "cell unmeasured" : "cell", tabindex: "-1" });
    if (value !== null) {
      const colour = way.colour(value);
      cell.style.background = `rgb(${colour.join(",")})`;
      cell.style.color = ink(colour);
    }
    cell.heat = [k, column.at];
    row.append(cell);
  }
  row.append(element("td", heat.clusters[k].rows.toLocaleString("en"), { class: "rows" }));
  return row;
}

function drawScale(way) {
  const bar = element("i");
  bar.style.background = `linear-gradient(to right, ${way.stops.join(", ")})`;
  const parts = [element("span", way.ends[0]), bar, element("span", way.ends[1])];
  if (heat.unmeasured) {
    parts.push(element("i", "", { class: "unmeasured" }), element("span", "not measured"));
  }
  document.getElementById("heat-scale").replaceChildren(...parts);
}

function nameCell(k, line) {
  const number = heat.clusters[k].number;
  if (!document.getElementById("save-names")) return [element("span", nameOf(k))];
  const input = element("input", "", {
    class: "name", maxlength: "80", value: nameOf(k), "aria-label": `Name of cluster ${number}`,
  });
  input.addEventListener("change", () => rename(k, input));
  const move = (step, sign, text) => {
    const button = element("button", sign, { type: "button", class: "move", "aria-label": text });
    button.addEventListener("click", () => moveLine(line, step));
    return button;
  };
  return [
    input, move(-1, "↑", `Move cluster ${number} up`), move(1, "↓", `Move cluster ${number} down`),
  ];
}

function moveLine(line, step) {
  const other = line + step;
  if (other < 0 || other >= clusterOrder.length) return;
  const moved = clusterOrder[line];
  clusterOrder.splice(line, 1);
  clusterOrder.splice(other, 0, moved);
  draw();
  arrange();
  // The button under the finger stays the one of the cluster that moved.
  table.tBodies[0].rows[other].querySelectorAll("button.move")[step < 0 ? 0 : 1].focus();
}

function tell(cell) {
  const [k, at] = cell.heat;
  const column = heat.columns[at];
  if (heat.measures.prevalence[k][at] === null) {
    const elsewhere = column.overall === null ? "nor in any other cluster"
      : `where it was, ${percent(column.overall)}`;
    told.textContent = `${nameOf(k)}, ${column.label}: not measured (${elsewhere})`;
    return;
  }
  told.textContent = `${nameOf(k)}, ${column.label}: prevalence ` +
    `${percent(heat.measures.prevalence[k][at])} (all rows ${percent(column.overall)}), ` +
    `observed / expected ${heat.measures.ratio[k][at].toFixed(2)}, ` +
    `exclusivity ${percent(heat.measures.exclusivity[k][at])}`;
}

function walk(event) {
  const cell = event.target.closest("td.cell");
  const steps = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  if (!cell || !(event.key in steps)) return;
  event.preventDefault();
  const [down, right] = steps[event.key];
  const rows = table.tBodies[0].rows;
  const next = rows[cell.parentNode.sectionRowIndex + down]?.cells[cell.cellIndex + right];
  if (!next?.classList.contains("cell")) return;
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

table.addEventListener("keydown", walk);
for (const kind of ["mouseover", "focusin"]) {
  table.addEventListener(kind, (event) => {
    const cell = event.target.closest("td.cell");
    if (cell) tell(cell);
  });
}
controls.addEventListener("submit", (event) => event.preventDefault());
controls.addEventListener("input", (event) => {
  if (event.target.id === "cluster-order") {
    clusterOrder = heat.orders[event.target.value].slice();
    arrange();
  }
  draw();
});
