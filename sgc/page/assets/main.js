// The head of the page, search, and the start.

$("kind").textContent = data.kind;
$("program").textContent = data.program;
$("signature").textContent = data.signature;
$("signature").title = data.signature;

function drawFigures() {
  for (const figure of data.figures) {
    $("figures").append(element("div", {},
      element("dt", {}, figure.label),
      element("dd", {}, figure.planned ?? "",
        figure.actual ? element("div", { class: "ran" }, `ran: ${figure.actual}`) : null,
        figure.note ? element("div", { class: "sub" }, figure.note) : null)));
  }
}

function drawNotes() {
  for (const [row, why] of data.failures || []) $("notes").append(element("p", {}, `row ${row}: ${why}`));
  if (data.moreFailures) $("notes").append(element("p", {}, `${count(data.moreFailures)} more rows with nodes that cannot be computed`));
  if (data.unit === "words") $("notes").append(element("p", {}, "Counted in words, roles as ChatML; --model M counts that model's tokens."));
}

// -- search

const haystacks = data.nodes.map((node) => [node.op, node.graph, node.path, node.name, node.label, node.text ?? "", node.source].join(" ").toLowerCase());
let found = [];
function search() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  found = words.length ? haystacks.flatMap((text, at) => (words.every((word) => text.includes(word)) ? [at] : [])) : [];
  $("matches").textContent = words.length ? count(found.length) : "";
  tell("search", words.length ? new Set(found) : null);
}
$("search").addEventListener("input", search);
$("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !found.length) return;
  choose(found[(found.indexOf(chosen) + 1) % found.length]);
});
addEventListener("keydown", (event) => {
  const isTyping = event.target.matches && event.target.matches("input, select");
  if (event.key === "/" && !isTyping) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape" && !isTyping) choose(-1, false);
});

// -- light and dark

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "☀" : "☾";
  tell("theme");
}
$("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
prefersDark.addEventListener("change", () => setTheme(prefersDark.matches ? "dark" : "light"));

setTheme(prefersDark.matches ? "dark" : "light");
drawFigures();
drawNotes();
drawGraph();
setScale(startScale());
view.scrollTo(0, 0);
if (isExplain) offerColours();
drawTable();
showDetails(-1);
drawTimeline();
addEventListener("resize", redraw);
