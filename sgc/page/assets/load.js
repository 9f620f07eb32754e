// The chart above the timeline: how many calls are queued, in prefill, in decode at each moment.

const time = data.timeline;
const STAGES = ["decode", "prefill", "queued", "call"];

// [stage, start, end] of all that counts; a call without stages counts as one.
function loadParts() {
  const found = [];
  for (const row of time.rows) {
    for (const track of row.tracks) {
      for (const slice of track.slices) addStages(found, slice);
    }
  }
  return found;
}

function addStages(found, slice) {
  const before = found.length;
  for (let at = 9; at < slice.length; at += 3) {
    const name = time.words[slice[at]] === "forced" && !hasDecode(slice) ? "decode" : time.words[slice[at]];
    const stage = STAGES.indexOf(name);
    if (stage >= 0) found.push([stage, slice[at + 1], slice[at + 1] + slice[at + 2]]);
  }
  const isCall = time.words[slice[3]] !== "tool";
  if (found.length === before && isCall) found.push([3, slice[0], slice[0] + slice[1]]);
}

function hasDecode(slice) {
  for (let at = 9; at < slice.length; at += 3) if (time.words[slice[at]] === "decode") return true;
  return false;
}

// Mean number at once in each of `bins` between two times, by stage: differences at the ends,
// summed up, so that a part costs the same whatever its length.
function meanLoad(parts, from, to, bins) {
  const step = (to - from) / bins;
  const sums = STAGES.map(() => new Float64Array(bins + 2));
  for (const [stage, start, end] of parts) {
    if (end <= from || start >= to) continue;
    addRamp(sums[stage], (Math.max(start, from) - from) / step, 1);
    addRamp(sums[stage], (Math.min(end, to) - from) / step, -1);
  }
  return sums.map(summed);
}

// A step of height `sign` at place `at`, in bins: the bin that it falls into gets its share.
function addRamp(differences, at, sign) {
  const bin = Math.min(Math.floor(at), differences.length - 2);
  const share = bin + 1 - at;
  differences[bin] += sign * share;
  differences[bin + 1] += sign * (1 - share);
}

function summed(differences) {
  const means = new Float64Array(differences.length - 2);
  let level = 0;
  for (let bin = 0; bin < means.length; bin++) {
    level += differences[bin];
    means[bin] = level;
  }
  return means;
}

function drawLoad(canvas, parts, from, to, gutter) {
  const { context, width, height } = sharp(canvas, canvas.clientHeight);
  const bins = Math.max(1, Math.floor((width - gutter) / 2));
  const means = meanLoad(parts, from, to, bins);
  let most = 0;
  for (let bin = 0; bin < bins; bin++) most = Math.max(most, means.reduce((sum, stage) => sum + stage[bin], 0));
  const room = height - 16;
  for (let bin = 0; most > 0 && bin < bins; bin++) {
    let base = height;
    means.forEach((stage, at) => {
      const size = stage[bin] / most * room;
      context.fillStyle = cssColour(`--t-${STAGES[at]}`);
      if (size > 0.05) context.fillRect(gutter + bin * 2, base - size, 2, size);
      base -= size;
    });
  }
  context.fillStyle = cssColour("--dim");
  context.font = "11px system-ui, sans-serif";
  context.fillText("calls", 10, 14);
  context.fillText(`most ${most < 10 ? most.toFixed(1) : count(most)}`, 10, 30);
}

// A canvas at the resolution of the screen; drawing is in CSS pixels.
function sharp(canvas, height) {
  const width = canvas.clientWidth, ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
