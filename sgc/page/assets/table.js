// Nodes, or rows of costs, as a table that a click on a column's head sorts.

// A column: title, text of a row, what it is sorted by, the actual value below the planned one.
const pair = (key) => ({
  text: (row) => (row[key] ? bounds(row[key]) : ""),
  order: (row) => (row.actual ? row.actual[key] : row[key] ? row[key][1] ?? Infinity : -1),
  ran: (row) => (row.actual ? count(row.actual[key]) : null),
  outside: (row) => row.actual && (!row.actual.outside || row.actual.outside.includes(key)),
});
const text = (read, wide = false) => ({ text: read, order: read, left: true, wide });
const COLUMNS = isExplain ? [
  { title: "node", ...text((row) => `${row.program}: ${row.node}`) },
  { title: "variable", ...text((row) => row.name) },
  { title: "source", ...text((row) => shortPlace(row.source || "")) },
  { title: "calls", ...pair("calls") },
  { title: "prompt", ...pair("prompt_tokens") },
  { title: "shareable", text: (row) => (row.shareable_tokens === undefined ? "" : count(row.shareable_tokens)), order: (row) => row.shareable_tokens ?? -1 },
  { title: "cached", ...pair("cached_tokens") },
  { title: "output", ...pair("output_tokens") },
  {
    title: "longest call",
    text: (row) => (row.longest_request ? bounds(row.longest_request) : ""),
    order: (row) => (row.longest_request ? row.longest_request[1] ?? Infinity : -1),
  },
  {
    title: "hit rate",
    text: (row) => (row.hit_rate ? bounds(row.hit_rate, percent) : ""),
    order: (row) => ranRate(row) ?? (row.hit_rate ? row.hit_rate[1] : -1),
    ran: (row) => (ranRate(row) === null ? null : percent(ranRate(row))),
  },
  ...data.models.map((model) => ({
    title: `money, ${model}`,
    text: (row) => (row.money ? bounds(row.money[model], money) : ""),
    order: (row) => (row.money ? row.money[model][1] ?? Infinity : -1),
  })),
  ...(data.costs.some((row) => row.seconds || ranSeconds(row) !== null) ? [{
    title: "time",
    text: (row) => (row.seconds ? bounds(row.seconds, seconds) : ""),
    order: (row) => ranSeconds(row) ?? (row.seconds ? row.seconds[1] ?? Infinity : -1),
    ran: (row) => (ranSeconds(row) === null ? null : seconds(ranSeconds(row))),
  }] : []),
] : [
  { title: "node", ...text((row) => `${row.graph}: ${row.path}`) },
  { title: "op", ...text((row) => row.op) },
  { title: "variable", ...text((row) => row.name) },
  { title: "what", ...text((row) => row.label, true) },
  { title: "source", ...text((row) => shortPlace(row.source)) },
];

function ranSeconds(row) {
  return row.actual ? row.actual.run_seconds ?? null : null;
}

function ranRate(row) {
  return row.actual && row.actual.prompt_tokens ? row.actual.cached_tokens / row.actual.prompt_tokens : null;
}

function percent(rate) {
  return `${(100 * rate).toFixed(1)} %`;
}

function money(amount) {
  return amount.toFixed(amount >= 0.01 || !amount ? 4 : 6);
}

function shortPlace(place) {
  return place.split("/").pop();
}

const entries = (isExplain ? data.costs : data.nodes).map((row, at) => {
  const nodes = isExplain ? row.nodes : [at];
  const cells = COLUMNS.map((column, index) => tableCell(column, row, index === 0));
  return { row, at, nodes, element: element("tr", { "data-row": at }, ...cells) };
});
let sorted = { column: -1, down: true };

function tableCell(column, row, isFirst) {
  const kind = [column.left ? "left" : "", column.wide ? "wide" : ""].join(" ").trim();
  const shown = column.text(row);
  const cell = element("td", { class: kind || null }, isFirst ? element("button", { type: "button" }, shown) : shown);
  const ran = column.ran && column.ran(row);
  if (ran !== null && ran !== undefined) {
    const outside = column.outside && column.outside(row);
    cell.append(element("span", { class: outside ? "ran outside" : "ran", title: outside ? "outside of what was planned" : "actual" }, ran));
  }
  return cell;
}

function sortBy(index) {
  const column = COLUMNS[index];
  sorted = { column: index, down: sorted.column === index ? !sorted.down : !column.left };
  const collator = new Intl.Collator("en", { numeric: true });
  const compare = column.left
    ? (a, b) => collator.compare(column.order(a.row), column.order(b.row))
    : (a, b) => column.order(a.row) - column.order(b.row) || 0; // Infinity - Infinity is no number
  entries.sort((a, b) => (sorted.down ? -1 : 1) * compare(a, b) || a.at - b.at);
  body.append(...entries.map((entry) => entry.element));
  heads.forEach((head, at) => {
    head.setAttribute("aria-sort", at !== index ? "none" : sorted.down ? "descending" : "ascending");
    head.querySelector("i").textContent = at !== index ? "" : sorted.down ? " ▾" : " ▴";
  });
}

const heads = COLUMNS.map((column, index) => {
  const button = element("button", { type: "button" }, column.title, element("i"));
  button.onclick = () => sortBy(index);
  return element("th", { scope: "col", class: column.left ? "left" : null, "aria-sort": "none" }, button);
});
const body = element("tbody", {}, ...entries.map((entry) => entry.element));

function drawTable() {
  $("table").append(element("thead", {}, element("tr", {}, ...heads)), body);
  $("table-title").textContent = isExplain ? "Costs by node" : "Nodes";
  const ran = isExplain && data.costs.some((row) => row.actual);
  $("table-hint").textContent = isExplain
    ? `${data.unit}, planned${ran ? "; below it, in colour, what the run took" : ""}` : "";
}

// A row of several nodes goes on to the next of them with each click.
body.addEventListener("click", (event) => {
  const line = event.target.closest("tr");
  const entry = entries.find((found) => found.element === line);
  if (!entry || !entry.nodes.length) return;
  choose(entry.nodes[(entry.nodes.indexOf(chosen) + 1) % entry.nodes.length]);
});

on("choose", (node) => {
  for (const entry of entries) {
    const isChosen = node >= 0 && entry.nodes.includes(node);
    const wasChosen = entry.element.classList.contains("chosen");
    entry.element.classList.toggle("chosen", isChosen);
    if (isChosen && !wasChosen) showRow(entry.element);
  }
});

// Scrolls the table alone; scrollIntoView would move the whole page.
function showRow(line) {
  const box = $("table-scroll"), head = heads[0].offsetHeight;
  if (line.offsetTop < box.scrollTop + head) box.scrollTop = line.offsetTop - head;
  const below = line.offsetTop + line.offsetHeight - box.clientHeight;
  if (below > box.scrollTop) box.scrollTop = below;
}

on("search", (found) => {
  for (const entry of entries) entry.element.hidden = found !== null && !entry.nodes.some((node) => found.has(node));
});
