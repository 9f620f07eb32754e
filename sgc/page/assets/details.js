// What is known of the chosen node.

const details = $("details");
const COSTS = [
  ["calls", "calls"], ["prompt_tokens", "prompt"], ["cached_tokens", "cached"],
  ["output_tokens", "output"],
];

function nodeTip(number) {
  const node = data.nodes[number];
  const lines = [element("b", {}, `${node.op} ${node.name}`.trim()), element("div", { class: "mono" }, node.label)];
  if (node.source) lines.push(element("div", { class: "hint" }, `${node.path} · ${node.source}`));
  for (const at of costsOf[number]) lines.push(element("div", {}, costLine(data.costs[at])));
  return lines;
}

function costLine(row) {
  const planned = row.calls ? COSTS.map(([key, name]) => `${name} ${bounds(row[key])}`).join(", ") : "not planned";
  if (!row.actual) return planned;
  return `${COSTS.map(([key, name]) => `${name} ${count(row.actual[key])}`).join(", ")} (planned: ${planned})`;
}

function costTable(row) {
  const ran = row.actual;
  const head = element("tr", {}, element("th"), element("th", {}, "planned"), ran ? element("th", {}, "actual") : null);
  const line = (name, planned, actual) => element("tr", {}, element("th", {}, name),
    element("td", {}, planned), ran ? element("td", {}, actual ?? "") : null);
  const rows = COSTS.map(([key, name]) => line(name, row[key] ? bounds(row[key]) : "", ran && count(ran[key])));
  if (row.shareable_tokens !== undefined) rows.push(line("shareable", count(row.shareable_tokens)));
  if (row.longest_request) rows.push(line("longest call", bounds(row.longest_request)));
  if (row.readers) rows.push(line("prompts that share", count(row.readers)));
  if (row.seconds || (ran && ran.run_seconds)) rows.push(line("part of the run", row.seconds ? bounds(row.seconds, seconds) : "", ran && ran.run_seconds !== undefined ? seconds(ran.run_seconds) : ""));
  if (ran && ran.seconds) {
    ["waiting", "prefill", "decode"].forEach((name, at) => rows.push(line(`${name}, added up`, "", seconds(ran.seconds[at]))));
  }
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

function showDetails(number) {
  if (number < 0) {
    const hint = `Choose a node, in the picture or in the table, to see its source${isExplain ? ", text and costs" : " and text"}.`;
    return details.replaceChildren(element("p", { class: "empty" }, hint));
  }
  const node = data.nodes[number];
  const parts = [
    element("span", { class: "badge" }, node.op),
    element("p", { class: "name" }, node.name || node.label || node.path),
    element("p", { class: "where" }, `${node.graph}: ${node.path}`),
  ];
  if (node.source) parts.push(element("h3", {}, "source"), element("p", { class: "where" }, node.source));
  const written = data.sources[node.source];
  if (written !== undefined) parts.push(element("pre", {}, written.trim()));
  if (node.text !== undefined) parts.push(element("h3", {}, "text"), element("pre", {}, node.text));
  if (node.facts) parts.push(element("h3", {}, "known before a run"), ...node.facts.map((fact) => element("p", {}, fact)));
  for (const at of costsOf[number]) {
    const row = data.costs[at];
    const others = row.nodes.length - 1;
    const shared = others ? ` of this and ${others} other ${others === 1 ? "node" : "nodes"}` : "";
    parts.push(element("h3", {}, `costs${shared} (${data.unit})`), costTable(row));
  }
  parts.push(element("h3", {}, "node"), element("pre", {}, node.line));
  details.replaceChildren(...parts);
  details.scrollTop = 0;
}
on("choose", showDetails);
