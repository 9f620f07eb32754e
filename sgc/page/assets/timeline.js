// The run: a band a row, a line a stream, a slice a call. Only what is visible is drawn.

const lane = $("timeline");
const slices = $("slices");
const LINE_HEIGHT = 18, AXIS = 20, ROW_GAP = 6;
const LEGEND = [["queued", "queued"], ["prefill", "prefill"], ["decode", "decode"], ["forced", "forced"],
  ["tool", "tool"], ["call", "call, no stages"], ["prepare", "prepare"], ["failed", "failed"]];
let lines = []; // {y, title, row, first, slices}
let shownTime = { from: 0, to: 1 };
let parts = [];

function drawTimeline() {
  if (!time) return;
  $("timeline-section").hidden = false;
  let y = AXIS;
  for (const row of time.rows) {
    row.tracks.forEach((track, at) => {
      lines.push({ y, title: at ? track.title : row.title, row, first: at === 0, slices: track.slices });
      y += LINE_HEIGHT;
    });
    y += ROW_GAP;
  }
  $("spacer").style.height = "0px";
  lane.style.height = `min(52vh, ${Math.max(120, Math.min(y + 4, 420))}px)`;
  slices.dataset.height = y;
  parts = loadParts();
  $("legend").append(...LEGEND.filter(([kind]) => isUsed(kind)).map(([kind, title]) => {
    const mark = element("i");
    mark.style.background = `var(--t-${kind})`;
    return element("span", {}, mark, title);
  }));
  hintTimeline();
  showAll();
}

function isUsed(kind) {
  if (kind === "failed") return time.words.includes("failed");
  if (kind === "call") return parts.some(([stage]) => stage === 3);
  return time.words.includes(kind);
}

function hintTimeline() {
  const said = ["Drag to move, Ctrl and the wheel to zoom, a click chooses the node."];
  if (time.runs > 1) said.push(`The file holds ${time.runs} runs; this is the last one.`);
  if (time.leftOut) said.push(`${count(time.leftOut)} more rows are left out.`);
  $("timeline-hint").textContent = said.join(" ");
}

function gutter() {
  return lane.clientWidth < 600 ? 84 : 150;
}

function setWindow(from, to) {
  const all = Math.max(1, time.span), size = Math.min(all * 1.02, Math.max(10, to - from));
  const start = Math.min(Math.max(from, -0.01 * all), all * 1.01 - size);
  shownTime = { from: start, to: start + size };
  redraw();
}

function showAll() {
  setWindow(-0.01 * time.span, 1.01 * time.span);
}

let due = false;
function redraw() {
  if (due || !time) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    drawSlices();
    drawLoad($("load"), parts, shownTime.from, shownTime.to, gutter());
  });
}

function drawSlices() {
  const height = lane.clientHeight, total = Number(slices.dataset.height);
  $("spacer").style.height = `${Math.max(0, total - height)}px`;
  slices.style.height = `${height}px`;
  const { context, width } = sharp(slices, height);
  const left = gutter(), scaleX = (width - left) / (shownTime.to - shownTime.from), top = lane.scrollTop;
  const named = Object.fromEntries(["text", "dim", "soft", "accent"].map((name) => [name, cssColour(`--${name}`)]));
  const colours = Object.fromEntries(LEGEND.map(([kind]) => [kind, cssColour(`--t-${kind}`)]));
  const paint = { context, left, width, scaleX, colours, ...named };
  context.font = "11px system-ui, sans-serif";
  for (const line of visibleLines(top, height)) drawLine(paint, line, line.y - top);
  context.fillStyle = cssColour("--panel");
  context.fillRect(0, 0, width, AXIS);
  drawAxis(paint, height);
}

function visibleLines(top, height) {
  let low = 0, high = lines.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lines[middle].y + LINE_HEIGHT < top) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < lines.length && lines[end].y < top + height) end++;
  return lines.slice(low, end);
}

function drawAxis({ context, left, width, scaleX, dim, soft }, height) {
  const step = niceStep(90 / scaleX);
  context.fillStyle = dim;
  for (let at = Math.max(0, Math.ceil(shownTime.from / step) * step); at <= shownTime.to; at += step) {
    const x = left + (at - shownTime.from) * scaleX;
    const shown = at === 0 ? "0" : seconds(at / 1e6);
    if (x + 5 + context.measureText(shown).width > width) break;
    context.fillText(shown, x + 3, 13);
    context.fillRect(x, 4, 1, AXIS - 6);
  }
  context.fillStyle = soft;
  context.fillRect(0, AXIS - 1, width, 1);
  context.fillRect(left - 1, 0, 1, height);
}

function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

function drawLine(paint, line, y) {
  const { context, left, width, scaleX } = paint;
  const at = (when) => left + (when - shownTime.from) * scaleX;
  if (line.first) {
    const from = Math.max(left, at(line.row.start)), to = Math.min(width, at(line.row.end));
    context.fillStyle = line.row.error ? paint.colours.failed : paint.soft;
    if (to > from) context.fillRect(from, y - 1, to - from, line.row.error ? 2 : line.row.tracks.length * LINE_HEIGHT);
  }
  let painted = -1;
  for (let i = firstVisible(line.slices); i < line.slices.length && line.slices[i][0] < shownTime.to; i++) {
    const slice = line.slices[i], x = at(slice[0]), end = Math.min(width, at(slice[0] + slice[1]));
    if (end < left || end - painted < 0.5) continue; // nothing of it would be seen
    painted = end;
    drawSlice(paint, slice, x, end, y, at);
  }
  context.fillStyle = line.first ? paint.text : paint.dim;
  context.fillText(fitted(context, line.title, left - 12 - (line.first ? 0 : 10)), line.first ? 8 : 18, y + 12);
}

// The first slice that may reach into the window; slices of a line do not overlap.
function firstVisible(of) {
  let low = 0, high = of.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (of[middle][0] + of[middle][1] < shownTime.from) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

function drawSlice({ context, left, colours, text, accent }, slice, x, end, y, at) {
  const height = LINE_HEIGHT - 3, from = Math.max(left, x), size = Math.max(1, end - from);
  context.fillStyle = time.words[slice[3]] === "tool" ? colours.tool : colours.call;
  if (slice.length > 9) context.fillStyle = colours.prepare;
  context.fillRect(from, y, size, height);
  for (let i = 9; i < slice.length; i += 3) {
    const colour = colours[time.words[slice[i]]];
    const start = Math.max(left, at(slice[i + 1])), stop = Math.min(end, at(slice[i + 1] + slice[i + 2]));
    if (!colour || stop <= start) continue;
    context.fillStyle = colour;
    context.fillRect(start, y, stop - start, height);
  }
  const failed = time.words[slice[4]] === "failed", isChosen = slice[5] >= 0 && slice[5] === chosen;
  if (failed || isChosen) {
    context.fillStyle = failed ? colours.failed : accent;
    context.fillRect(from, y + height, size, 2);
    context.fillRect(from, y - 1, size, 1);
  }
  if (size > 34) {
    context.fillStyle = text;
    context.fillText(fitted(context, time.words[slice[2]], size - 8), from + 4, y + 11);
  }
}

function fitted(context, words, width) {
  if (words.length > 200) words = words.slice(0, 200);
  if (context.measureText(words).width <= width) return words;
  let kept = words.length;
  while (kept > 0 && context.measureText(`${words.slice(0, kept)}…`).width > width) kept = Math.floor(kept * 0.8);
  return kept ? `${words.slice(0, kept)}…` : "";
}

// -- pointing

function sliceAt(event) {
  const box = slices.getBoundingClientRect();
  const x = event.clientX - box.left, y = event.clientY - box.top;
  if (x < gutter() || y < AXIS) return null;
  const line = visibleLines(y + lane.scrollTop - LINE_HEIGHT, LINE_HEIGHT + 1)
    .find((found) => y + lane.scrollTop >= found.y && y + lane.scrollTop < found.y + LINE_HEIGHT);
  if (!line) return null;
  const perPixel = (shownTime.to - shownTime.from) / (box.width - gutter());
  const when = shownTime.from + (x - gutter()) * perPixel;
  for (let i = firstVisible(line.slices); i < line.slices.length; i++) {
    const slice = line.slices[i];
    if (slice[0] - perPixel > when) return null;
    if (when <= slice[0] + slice[1] + perPixel) return { slice, line };
  }
  return null;
}

const COUNTED = ["prompt", "cached", "generated", "forced", "scored"];
function sliceTip({ slice, line }) {
  const [start, duration, name, kind, state, , path, tokens, error] = slice;
  const words = time.words;
  const shown = [
    element("b", {}, `${words[name]} (${words[kind]})`),
    element("div", {}, `${line.row.title}, ${words[path]}, ${words[state]}`),
    element("div", {}, `${seconds(duration / 1e6)} from ${seconds(start / 1e6)} on`),
  ];
  for (let i = 9; i < slice.length && i < 9 + 3 * 12; i += 3) shown.push(element("div", { class: "hint" }, `${words[slice[i]]} ${seconds(slice[i + 2] / 1e6)}`));
  if (tokens.length) shown.push(element("div", {}, tokens.map((number, at) => `${COUNTED[at]} ${count(number)}`).join(", ")));
  if (error >= 0) shown.push(element("div", { class: "bad" }, words[error]));
  return shown;
}

let pull = null;
const touches = new Map();
lane.addEventListener("pointerdown", (event) => {
  touches.set(event.pointerId, event.clientX);
  if (event.pointerType === "mouse" && event.button !== 0) return;
  pull = { x: event.clientX, y: event.clientY, top: lane.scrollTop, window: shownTime, moved: false };
});
addEventListener("pointermove", (event) => {
  if (!pull) return;
  if (touches.size === 2) return stretch(event);
  const x = event.clientX - pull.x, y = event.clientY - pull.y;
  pull.moved = pull.moved || Math.abs(x) + Math.abs(y) > 4;
  if (!pull.moved) return;
  lane.classList.add("dragging");
  const shift = x * (pull.window.to - pull.window.from) / (lane.clientWidth - gutter());
  if (event.pointerType === "mouse") lane.scrollTop = pull.top - y;
  setWindow(pull.window.from - shift, pull.window.to - shift);
});
function stretch(event) {
  const before = Math.abs([...touches.values()].reduce((a, b) => a - b));
  touches.set(event.pointerId, event.clientX);
  const after = Math.abs([...touches.values()].reduce((a, b) => a - b));
  zoomTime(Math.max(1, before) / Math.max(1, after), event.clientX);
}
function letGo(event) {
  touches.delete(event.pointerId);
  if (!pull) return;
  const found = pull.moved || event.type === "pointercancel" ? null : sliceAt(event);
  pull = null;
  lane.classList.remove("dragging");
  if (found && found.slice[5] >= 0) choose(found.slice[5]);
}
addEventListener("pointerup", letGo);
addEventListener("pointercancel", letGo);

lane.addEventListener("pointermove", (event) => {
  const found = pull && pull.moved ? null : sliceAt(event);
  lane.style.cursor = found ? "pointer" : "";
  if (found) showTip(event.clientX, event.clientY, ...sliceTip(found));
  else hideTip();
});
lane.addEventListener("pointerleave", hideTip);
lane.addEventListener("scroll", redraw);
lane.addEventListener("wheel", (event) => {
  const across = event.shiftKey ? event.deltaY : event.deltaX;
  if (event.ctrlKey || event.metaKey) zoomTime(Math.exp(event.deltaY / 200), event.clientX);
  else if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) moveTime(across / 400);
  else return; // the browser scrolls
  event.preventDefault();
}, { passive: false });
lane.addEventListener("keydown", (event) => {
  const act = { ArrowLeft: () => moveTime(-0.2), ArrowRight: () => moveTime(0.2), "+": () => zoomTime(1 / 1.4), "-": () => zoomTime(1.4) }[event.key];
  if (!act || event.ctrlKey || event.metaKey) return;
  act();
  event.preventDefault();
});

function zoomTime(factor, x) {
  const box = lane.getBoundingClientRect();
  const share = x === undefined ? 0.5 : Math.min(1, Math.max(0, (x - box.left - gutter()) / (box.width - gutter())));
  const size = shownTime.to - shownTime.from, at = shownTime.from + share * size;
  setWindow(at - share * size * factor, at + (1 - share) * size * factor);
}
function moveTime(share) {
  const shift = share * (shownTime.to - shownTime.from);
  setWindow(shownTime.from + shift, shownTime.to + shift);
}
$("time-in").onclick = () => zoomTime(1 / 1.6);
$("time-out").onclick = () => zoomTime(1.6);
$("time-all").onclick = showAll;
on("choose", redraw);
on("theme", redraw);
