// Around the heatmap: names, the order of cards, and the diagram of origins.
let unsaved = false;

function rename(k, input) {
  const number = heat.clusters[k].number;
  const before = nameOf(k);
  // What no file of names may hold: control characters, and ends of lines and paragraphs.
  const wanted = input.value.replace(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+/gu, " ").trim();
  const taken = heat.clusters.some((other, at) => at !== k && nameOf(at) === wanted);
  const others = /^cluster\s+\p{Nd}+$/iu.test(wanted) && wanted !== "cluster " + number;
  if (taken || others) {
    told.textContent = `${wanted} is another cluster's name: choose another.`;
    input.value = nameOf(k);
    return;
  }
  heat.clusters[k].name = wanted === "cluster " + number ? "" : wanted;
  input.value = nameOf(k);
  unsaved = true;
  for (const place of document.querySelectorAll(`[data-name="${number}"]`)) {
    place.textContent = nameOf(k);
    if (place instanceof SVGTextContentElement) shorten(place);
  }
  retell(number, before, nameOf(k));
}

function shorten(place) {
  const letters = Array.from(place.textContent);
  while (letters.length && place.getComputedTextLength() > 214) {
    letters.pop();
    place.textContent = letters.join("") + "…";
  }
}

// What pictures and cells say when asked ends in a name, a colon and numbers.
function retell(number, before, after) {
  const changed = (text) => {
    const at = text.lastIndexOf(before + ":");
    return at < 0 ? text : text.slice(0, at) + after + text.slice(at + before.length);
  };
  for (const title of document.querySelectorAll(`[data-cluster="${number}"] > title`)) {
    title.textContent = changed(title.textContent);
  }
  for (const row of document.querySelectorAll("#site-table tbody tr")) {
    const cell = row.cells[number + 1];
    cell.title = changed(cell.title);
  }
}

function arrange() {
  const cards = document.querySelector(".cards");
  if (!cards) return;
  for (const k of clusterOrder) {
    cards.append(cards.querySelector(`.card[data-cluster="${heat.clusters[k].number}"]`));
  }
}

function saveNames() {
  const quoted = (text) => '"' + text.replaceAll('"', '""') + '"';
  const lines = heat.clusters.map((cluster) => `${cluster.number},${quoted(cluster.name)}`);
  const file = new Blob(["cluster,name\n" + lines.join("\n") + "\n"], { type: "text/csv" });
  const link = element("a", "", { download: "names.csv" });
  link.href = URL.createObjectURL(file);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000); // some browsers begin later
  unsaved = false;
  told.textContent = "Names are in names.csv. To keep them: fedmerdel name MODEL names.csv";
}

function choose(number) {
  const diagram = document.getElementById("diagram");
  const before = diagram.dataset.chosen;
  diagram.dataset.chosen = before === number ? "" : number;
  diagram.classList.toggle("faded", before !== number);
  for (const mark of diagram.querySelectorAll("[data-cluster]")) {
    const chosen = before !== number && mark.dataset.cluster === number;
    mark.classList.toggle("chosen", chosen);
    if (mark.hasAttribute("aria-pressed")) mark.setAttribute("aria-pressed", chosen);
  }
}

document.getElementById("save-names")?.addEventListener("click", saveNames);
for (const block of document.querySelectorAll(".block[tabindex]")) {
  block.setAttribute("role", "button");
  block.setAttribute("aria-pressed", "false");
  block.addEventListener("click", () => choose(block.dataset.cluster));
  block.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    choose(block.dataset.cluster);
  });
}
window.addEventListener("beforeunload", (event) => {
  if (unsaved) event.preventDefault();
});
draw();
