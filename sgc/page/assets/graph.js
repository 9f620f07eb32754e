// The picture: drawn once, scrolled by the browser, zoomed by the size of its element.

const graph = data.graph;
const view = $("graph");
const svg = drawn("svg", {
  viewBox: `0 0 ${graph.width} ${graph.height}`, role: "img", "aria-label": `graph of ${data.program}`,
});
const itemElements = [];
const edgesOf = data.nodes.map(() => []);
const SCALES = { least: 0.01, most: 4, far: 0.3 };
let scale = 1;

function marker(id) {
  const arrow = drawn("path", { d: "M0 0.5 L8 4 L0 7.5 z" });
  return drawn("marker", {
    id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto",
    markerUnits: "userSpaceOnUse",
  }, arrow);
}

function rectangle(x, y, width, height, radius, kind) {
  return drawn("rect", { x, y, width, height, rx: radius, class: kind });
}

function label(text, x, y, kind) {
  return drawn("text", { x, y, class: kind }, text);
}

function drawItem(item, number) {
  const [x, y, width, height] = item.at;
  const group = drawn("g", { class: `item ${item.kind}`, "data-node": number });
  group.append(rectangle(x, y, width, height, 4));
  const costs = costsOf[number].length;
  item.lines.forEach((line, at) => {
    const isCost = at >= item.lines.length - costs;
    const isDetail = at > 0 && (item.kind === "call" || item.kind === "tool");
    const kind = isCost ? "cost" : isDetail ? "detail" : null;
    group.append(label(line, x + graph.pad, y + graph.pad + 9 + at * graph.line, kind));
  });
  return group;
}

function drawEdge([kind, text, source, target, ...points]) {
  const path = drawn("path", { class: `edge ${kind}` });
  const corners = [];
  for (let i = 0; i < points.length; i += 2) corners.push(`${points[i]} ${points[i + 1]}`);
  path.setAttribute("d", `M${corners.join(" L")}`);
  if (source >= 0) edgesOf[source].push(path);
  if (target >= 0) edgesOf[target].push(path);
  svg.append(path);
  if (text) svg.append(label(text, points[points.length - 2] - 24, points[points.length - 1] - 6, "arm"));
}

function drawGraph() {
  svg.append(drawn("defs", {}, marker("head"), marker("head-data"), marker("head-lit")));
  for (const [kind, x, y, width, height, title] of graph.areas) {
    svg.append(rectangle(x, y, width, height, kind === "frame" ? 4 : 6, kind));
    if (kind === "frame") svg.append(label(title, x + 5, y + 11, "role"));
    else svg.append(label(title, x + 12, y + graph.title - 4, "title"));
  }
  graph.paths.forEach(drawEdge);
  graph.items.forEach((item, number) => itemElements.push(drawItem(item, number)));
  svg.append(...itemElements);
  view.append(svg);
}

// -- zooming

// `x` and `y`, from the panel's corner, stay where they are in the picture.
function setScale(wanted, x = view.clientWidth / 2, y = view.clientHeight / 2) {
  const before = corner(), old = scale;
  scale = Math.min(SCALES.most, Math.max(SCALES.least, wanted));
  svg.setAttribute("width", graph.width * scale);
  svg.setAttribute("height", graph.height * scale);
  svg.classList.toggle("far", scale < SCALES.far);
  const after = corner();
  view.scrollLeft += after.x + (x - before.x) * scale / old - x;
  view.scrollTop += after.y + (y - before.y) * scale / old - y;
  $("zoom-one").textContent = `${Math.round(scale * 100)} %`;
}

// Where the picture begins, from the panel's corner.
function corner() {
  const inner = svg.getBoundingClientRect(), outer = view.getBoundingClientRect();
  return { x: inner.left - outer.left, y: inner.top - outer.top };
}

function fitScale() {
  return Math.min(1, (view.clientWidth - 2) / graph.width, (view.clientHeight - 2) / graph.height);
}

function startScale() {
  return Math.min(1, Math.max(0.6, (view.clientWidth - 18) / graph.width));
}

view.addEventListener("wheel", (event) => {
  if (!event.ctrlKey && !event.metaKey) return; // the browser scrolls
  event.preventDefault();
  const box = view.getBoundingClientRect();
  setScale(scale * Math.exp(-event.deltaY / 200), event.clientX - box.left, event.clientY - box.top);
}, { passive: false });

$("zoom-in").onclick = () => setScale(scale * 1.3);
$("zoom-out").onclick = () => setScale(scale / 1.3);
$("zoom-one").onclick = () => setScale(1);
$("zoom-fit").onclick = () => setScale(fitScale());

// -- dragging with the mouse, pinching with two fingers; one finger scrolls natively

const fingers = new Map();
let drag = null;
let dragged = -1000; // when the last drag ended: the click that ends it chooses nothing
view.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "touch") fingers.set(event.pointerId, [event.clientX, event.clientY]);
  else if (event.button === 0) drag = { x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop, moved: false };
});
addEventListener("pointermove", (event) => {
  if (drag) {
    const x = event.clientX - drag.x, y = event.clientY - drag.y;
    drag.moved = drag.moved || Math.abs(x) + Math.abs(y) > 4;
    view.classList.toggle("dragging", drag.moved);
    if (drag.moved) view.scrollTo(drag.left - x, drag.top - y);
  } else if (fingers.has(event.pointerId)) pinch(event);
});
function pinch(event) {
  const before = spread();
  fingers.set(event.pointerId, [event.clientX, event.clientY]);
  const after = spread();
  if (!before || !after) return;
  const box = view.getBoundingClientRect();
  setScale(scale * after.size / before.size, after.x - box.left, after.y - box.top);
}
function spread() {
  if (fingers.size !== 2) return null;
  const [[x, y], [u, v]] = fingers.values();
  return { size: Math.max(1, Math.hypot(x - u, y - v)), x: (x + u) / 2, y: (y + v) / 2 };
}
function release(event) {
  fingers.delete(event.pointerId);
  if (!drag) return;
  if (drag.moved) dragged = event.timeStamp;
  drag = null;
  view.classList.remove("dragging");
}
addEventListener("pointerup", release);
addEventListener("pointercancel", release);

// -- choosing and hovering

function nodeAt(event) {
  const group = event.target.closest && event.target.closest("[data-node]");
  return group ? Number(group.dataset.node) : -1;
}
view.addEventListener("click", (event) => {
  if (event.timeStamp - dragged > 100) choose(nodeAt(event), false);
});
view.addEventListener("pointermove", (event) => {
  const node = drag && drag.moved ? -1 : nodeAt(event);
  if (node < 0) return hideTip();
  showTip(event.clientX, event.clientY, ...nodeTip(node));
});
view.addEventListener("pointerleave", hideTip);

let litEdges = [];
on("choose", (node, show) => {
  itemElements.forEach((group, at) => group.classList.toggle("chosen", at === node));
  litEdges.forEach((edge) => edge.classList.remove("lit"));
  litEdges = node < 0 ? [] : edgesOf[node];
  litEdges.forEach((edge) => edge.classList.add("lit"));
  if (node >= 0 && show) bringIntoView(node);
});

function bringIntoView(node) {
  if (scale < 0.5) setScale(1);
  const [x, y, width, height] = graph.items[node].at;
  view.scrollTo((x + width / 2) * scale - view.clientWidth / 2, (y + Math.min(height, 200) / 2) * scale - view.clientHeight / 2);
}

on("search", (found) => {
  itemElements.forEach((group, at) => group.classList.toggle("dimmed", found !== null && !found.has(at)));
});

// -- colour by costs

const METRICS = {
  "nothing": null,
  "calls": (row) => row.actual ? row.actual.calls : top(row.calls),
  "computed prompt": (row) => row.actual
    ? row.actual.prompt_tokens - row.actual.cached_tokens
    : top(row.prompt_tokens) - top(row.cached_tokens),
  "output": (row) => row.actual ? row.actual.output_tokens : top(row.output_tokens),
  "time": (row) => (row.actual ? row.actual.run_seconds ?? 0 : row.seconds ? top(row.seconds) : 0),
};

function top([low, high]) {
  return high === null ? low : high;
}

function colourBy(metric) {
  svg.querySelectorAll(".heat").forEach((heat) => heat.remove());
  if (!metric) return;
  const values = data.costs.map(metric);
  const most = Math.max(...values, 0);
  if (most <= 0) return;
  itemElements.forEach((group, number) => {
    const share = costsOf[number].reduce((sum, at) => sum + values[at], 0) / most;
    if (share <= 0) return;
    const [x, y, width, height] = graph.items[number].at;
    const heat = rectangle(x, y, width, height, 4, "heat");
    heat.setAttribute("fill-opacity", (0.08 + 0.5 * Math.min(1, share)).toFixed(3));
    group.children[0].after(heat);
  });
}

function offerColours() {
  const ran = data.costs.some((row) => row.actual);
  $("graph-hint").hidden = false;
  $("graph-hint").textContent = `in the nodes: ×calls · prompt ${data.unit} in · generated ones out, ${ran ? "as run" : "as planned"}`;
  const known = Object.entries(METRICS).filter(([, metric]) => !metric || data.costs.some((row) => metric(row) > 0));
  $("colour-label").hidden = known.length < 2;
  $("colour").append(...known.map(([name]) => element("option", { value: name }, name)));
  $("colour").onchange = (event) => colourBy(METRICS[event.target.value]);
}
