// Data, elements and what the parts of the page tell each other.

const data = JSON.parse(document.getElementById("data").textContent);
const isExplain = data.kind === "explain";
const $ = (id) => document.getElementById(id);

// Text children become text nodes: nothing from a program is ever read as markup.
function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function drawn(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function count(number) {
  return grouped.format(number);
}

function bounds([low, high], show = count) {
  if (high === null) return `${show(low)} or more`;
  return low === high ? show(low) : `${show(low)}–${show(high)}`;
}

function seconds(value) {
  if (value === 0) return "0 s";
  if (value < 1e-3) return `${(value * 1e6).toPrecision(3)} µs`;
  if (value < 1) return `${(value * 1e3).toPrecision(3)} ms`;
  return value < 100 ? `${value.toPrecision(3)} s` : `${count(value)} s`;
}

// Listeners by what happens: `choose` (number of a node, whether to bring it into view), `search`
// (a set of nodes or null), `theme`.
const listeners = { choose: [], search: [], theme: [] };
const on = (what, listener) => listeners[what].push(listener);
const tell = (what, ...facts) => listeners[what].forEach((listener) => listener(...facts));

let chosen = -1;
function choose(node, show = true) {
  chosen = node;
  tell("choose", node, show);
}

const tip = $("tip");
function showTip(x, y, ...children) {
  tip.replaceChildren(...children);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const left = x + 14 + box.width > innerWidth ? Math.max(4, x - 14 - box.width) : x + 14;
  const top = y + 14 + box.height > innerHeight ? Math.max(4, y - 14 - box.height) : y + 14;
  tip.style.left = `${left}px`;
  tip.style.top = `${top}px`;
}
function hideTip() {
  tip.hidden = true;
}

function cssColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Rows of costs by the number of the node that they count.
const costsOf = data.nodes.map(() => []);
(data.costs || []).forEach((row, at) => row.nodes.forEach((node) => costsOf[node].push(at)));
