// The timeline: a canvas with a lane for each P, which moves.
//
// It shows the time up to the last answer but one, so that its right edge is known and it moves
// evenly. It draws at most 30 times a second, and nothing while it is paused or hidden. For people
// who want less motion it moves with each answer only.

const timeline = {
  lanes: new Lanes(),
  span: 10e9, // ns that are shown
  to: null, // the right edge, if it does not move
  now: 0, // the program's clock at the last answer
  heard: 0, // when that was, by this page's clock
  lag: 500e6,
  hover: null,
  boxes: [], // what was drawn, for the pointer
  began: 0,
  live: true,
  onTask: () => {},
};

const SPANS = [1e6, 2e6, 5e6, 1e7, 2e7, 5e7, 1e8, 2e8, 5e8, 1e9, 2e9, 5e9, 1e10, 2e10, 3e10, 6e10];
const LANE = 26, GAP = 5, LEFT = 74, AXIS = 20, SPAN_ROW = 14, SPAN_ROWS = 6;

const LEGEND = [
  ["awake", "awake"], ["sleep", "asleep"], ["poll", "poll", "each poll"],
  ["long", "long poll"], ["block", "blocking call"], ["span", "span"],
  ["unknown", "not kept", "hatch"],
  ["steal", "steal", "tick"], ["mark", "mark", "tick"], ["stall", "stall", "tick"],
];

let colors = {};
function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["card", "line", "text", "quiet", "awake", "poll", "block", "long", "stall",
    "sleep", "unknown", "steal", "mark", "span", "accent"];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`)]));
  colors.mono = style.getPropertyValue("--mono");
}

function legend() {
  $("legend").replaceChildren(...LEGEND.map(([color, text, note]) => {
    const patch = el("i", { class: note === "tick" ? "tick" : "" });
    patch.style.background = note !== "hatch" ? `var(--${color})`
      : "repeating-linear-gradient(135deg, var(--quiet) 0 1px, var(--unknown) 1px 4px)";
    if (color === "sleep") patch.style.borderColor = "var(--line-strong)";
    const title = { "each poll": "Needs the level full: tick “each poll”",
      hatch: "More happened than was told to this page" }[note];
    return el("li", { title }, patch, text);
  }));
}

// The right edge of what is shown.
function edge() {
  if (timeline.to !== null) return timeline.to;
  // A window that is shorter than the time between two answers shows the newest of it, at rest:
  // if much happens, only the last of it is told.
  if (!timeline.live || timeline.span < timeline.lag) return timeline.now;
  const since = reducedMotion.matches ? 0 : (performance.now() - timeline.heard) * 1e6;
  return timeline.now - timeline.lag + Math.min(since, timeline.lag);
}

function setPaused(paused) {
  timeline.to = paused ? edge() : null;
  const button = $("pause");
  button.setAttribute("aria-pressed", String(paused));
  say(button, paused ? "Go on" : "Pause");
  server.onStatus();
  draw();
}

function zoom(steps, around = 1) {
  const place = SPANS.findIndex((span) => span >= timeline.span);
  const span = SPANS[Math.max(0, Math.min(SPANS.length - 1, place + steps))];
  if (timeline.to !== null) timeline.to += (span - timeline.span) * (1 - around);
  timeline.span = span;
  say($("zoom"), time(span));
  draw();
}

function pan(part) {
  const to = edge() + part * timeline.span;
  if (timeline.to === null) setPaused(true);
  timeline.to = Math.min(Math.max(to, (timeline.lanes.begin ?? 0)), timeline.now);
  draw();
}

function draw() {
  const canvas = $("timeline");
  const width = canvas.clientWidth;
  if (width === 0) return;
  const { lanes } = timeline;
  const to = edge(), from = to - timeline.span;
  const shown = lanes.shown(from, to, 30e9);
  const spans = lanes.spanRows(from, to, SPAN_ROWS);
  const spanHeight = spans.count > 0 ? spans.count * SPAN_ROW + 8 : 0;
  const height = Math.max(1, shown.length) * (LANE + GAP) + spanHeight + AXIS;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = `12px ${colors.mono}`;
  pen.textBaseline = "middle";
  const x = (at) => LEFT + (at - from) / timeline.span * (width - LEFT);
  timeline.boxes = [];
  const box = (begin, end, y, tall, color, about) => {
    const left = Math.max(LEFT, x(begin)), right = Math.min(width, x(end));
    if (right < LEFT || left > width || right < left) return;
    pen.fillStyle = color;
    const wide = Math.max(right - left, 1);
    // What is narrower than a pixel is as faint as it is short: many of them look as they should.
    pen.globalAlpha = Math.max(0.12, Math.min(1, right - left));
    if (wide > 5) {
      pen.beginPath();
      pen.roundRect(left, y, wide, tall, 2);
      pen.fill();
    } else pen.fillRect(left, y, wide, tall);
    pen.globalAlpha = 1;
    if (about) timeline.boxes.push({ left: left - 2, right: left + wide + 2, y, tall, ...about });
  };

  axis(pen, from, to, x, width, height);
  let y = 0;
  const spoken = [];
  for (const lane of shown) {
    drawLane(pen, lane, y, from, to, x, width, box);
    const busy = lanes.busy(lane, from, to);
    // The lane of a simulated host has its name, and no time in which it is busy.
    const part = busy === null || timeline.hosts ? "" : `${Math.round(busy * 100)} %`;
    pen.fillStyle = colors.text;
    pen.textAlign = "left";
    const host = timeline.hosts?.[lane.index];
    pen.fillText(host ?? `P ${lane.index}`, 2, y + LANE / 2 + 1, LEFT - 10);
    pen.fillStyle = colors.quiet;
    pen.textAlign = "right";
    pen.fillText(part, LEFT - 8, y + LANE / 2 + 1);
    if (part) spoken.push(`P ${lane.index} was awake for ${part} of it`);
    y += LANE + GAP;
  }
  drawSpans(pen, spans, y + 2, from, to, x, width, box);
  const label = `Timeline of the last ${time(timeline.span)}: ${spoken.join(", ")}`;
  if (timeline.to !== null || !timeline.spokenAt || Date.now() - timeline.spokenAt > 5000) {
    canvas.setAttribute("aria-label", label);
    timeline.spokenAt = Date.now();
  }
}

function drawLane(pen, lane, y, from, to, x, width, box) {
  pen.fillStyle = colors.unknown;
  pen.fillRect(LEFT, y, width - LEFT, LANE);
  const since = Math.max(from, lane.since ?? to);
  box(since, to, y, LANE, colors.sleep, null);
  const open = Object.values(lane.open).filter(Boolean).map((slice) => ({ ...slice, to }));
  const shown = [...lane.slices, ...open].filter((it) => it.to >= from && it.from <= to);
  const about = {
    awake: (it) => ["awake", it], poll: (it) => ["poll", it],
    long: (it) => ["long poll", it], block: (it) => ["blocking call", it],
  };
  for (const [kind, inset] of [["awake", 0], ["block", 0], ["poll", 5], ["long", 5]]) {
    for (const it of shown) {
      if (it.kind !== kind) continue;
      const [what] = about[kind](it);
      box(it.from, it.to, y + inset, LANE - 2 * inset, colors[kind], { what, it });
    }
  }
  for (const gap of lane.gaps) {
    if (gap.to < from || gap.from > to) continue;
    box(gap.from, gap.to, y, LANE, colors.unknown, null);
    box(gap.from, gap.to, y, LANE, hatch(pen),
      { what: "not known: more happened than was kept", it: gap });
  }
  const before = { steal: -9, mark: -9, stall: -9, block: -9 };
  for (const tick of lane.ticks) {
    if (tick.at < from || tick.at > to) continue;
    const left = x(tick.at);
    pen.fillStyle = colors[tick.color];
    const thin = tick.color === "steal" || tick.color === "block";
    const wide = thin ? 1.5 : 2.5;
    if (left - before[tick.color] >= 1) {
      const top = thin ? LANE - 9 : -1;
      pen.fillRect(left - wide / 2, y + top, wide, LANE + 1 - top);
      before[tick.color] = left;
    }
    if (!thin) {
      pen.beginPath();
      pen.arc(left, y + 3, 3.5, 0, 7);
      pen.fill();
    }
    timeline.boxes.push({
      left: left - 4, right: left + 4, y, tall: LANE, what: tick.text,
      it: { from: tick.at, to: null, task: tick.task },
    });
  }
}

function drawSpans(pen, spans, y, from, to, x, width, box) {
  if (spans.count === 0) return;
  pen.fillStyle = colors.quiet;
  pen.textAlign = "left";
  pen.fillText("spans", 2, y + SPAN_ROW / 2);
  pen.font = `11px ${colors.mono}`;
  for (const span of spans.rows) {
    const top = y + span.row * SPAN_ROW;
    const end = span.to ?? to;
    box(span.from, end, top, SPAN_ROW - 2, colors.span, { what: span.name, it: span });
    const left = Math.max(LEFT, x(span.from)), wide = Math.min(width, x(end)) - left;
    if (wide > 12 + 6.7 * span.name.length) {
      pen.fillStyle = colors.text;
      pen.fillText(span.name, left + 5, top + SPAN_ROW / 2 - 0.5);
    }
  }
}

// The pattern of what is not known.
function hatch(pen) {
  if (colors.hatch) return colors.hatch;
  const tile = new OffscreenCanvas(6, 6);
  const line = tile.getContext("2d");
  line.strokeStyle = colors.quiet;
  line.globalAlpha = 0.45;
  for (const shift of [-6, 0, 6]) {
    line.moveTo(shift, 6);
    line.lineTo(shift + 6, 0);
  }
  line.stroke();
  colors.hatch = pen.createPattern(tile, "repeat");
  return colors.hatch;
}

// Lines at round times, with the clock on the wall below them.
function axis(pen, from, to, x, width, height) {
  const most = Math.max(2, (width - LEFT) / 120);
  const step = SPANS.concat([3e11, 6e11]).find((it) => timeline.span / it <= most);
  pen.fillStyle = colors.quiet;
  pen.strokeStyle = colors.line;
  pen.textAlign = "center";
  pen.font = `11px ${colors.mono}`;
  const shift = (timeline.began % 60000) * 1e6;
  for (let at = Math.ceil((from + shift) / step) * step - shift; at <= to; at += step) {
    const left = Math.round(x(at)) + 0.5;
    if (left < LEFT) continue;
    pen.beginPath();
    pen.moveTo(left, 0);
    pen.lineTo(left, height - AXIS + 3);
    pen.stroke();
    if (left > LEFT + 34 && left < width - 36) {
      pen.fillText(moment(timeline.began, at, step < 1e9), left, height - 8);
    }
  }
  pen.font = `12px ${colors.mono}`;
}

// --- the pointer and the keys ---

function boxAt(event) {
  const { offsetX: px, offsetY: py } = event;
  return timeline.boxes.findLast((box) =>
    px >= box.left && px <= box.right && py >= box.y && py <= box.y + box.tall);
}

function showTip(event) {
  const box = boxAt(event);
  const tip = $("tip");
  tip.hidden = !box;
  if (!box) return;
  const { it } = box;
  const lines = [box.what];
  if (it.task) lines.push(timeline.lanes.label(it.task));
  if (it.to) lines.push(`for ${time(it.to - it.from)}`);
  lines.push(`at ${moment(timeline.began, it.from, true)}`);
  tip.textContent = lines.join("\n");
  const room = $("timeline").clientWidth - tip.offsetWidth - 4;
  tip.style.left = `${Math.max(0, Math.min(event.offsetX + 12, room))}px`;
  tip.style.top = `${event.offsetY + 16}px`;
}

function timelineKeys(event) {
  const steps = { "+": -1, "=": -1, "-": 1, ArrowLeft: -0.2, ArrowRight: 0.2 };
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.key === " ") setPaused(timeline.to === null);
  else if (event.key === "End") setPaused(false);
  else if (event.key.startsWith("Arrow") && event.key in steps) pan(steps[event.key]);
  else if (event.key in steps) zoom(steps[event.key]);
  else return false;
  return true;
}

function startTimeline() {
  const canvas = $("timeline");
  readColors();
  legend();
  let drag = null;
  canvas.addEventListener("pointermove", (event) => {
    if (drag !== null && Math.abs(event.offsetX - drag) > 3) {
      pan((drag - event.offsetX) / (canvas.clientWidth - LEFT));
      drag = event.offsetX;
      canvas.dataset.dragged = "yes";
    } else showTip(event);
  });
  canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; });
  canvas.addEventListener("pointerdown", (event) => {
    drag = event.offsetX;
    delete canvas.dataset.dragged;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    drag = null;
    const task = boxAt(event)?.it.task;
    if (task && !canvas.dataset.dragged) timeline.onTask(task);
  });
  canvas.addEventListener("wheel", (event) => {
    // A page that scrolls must not stop at the canvas: it zooms when it was chosen.
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    const around = (event.offsetX - LEFT) / (canvas.clientWidth - LEFT);
    zoom(event.deltaY > 0 ? 1 : -1, Math.max(0, Math.min(1, around)));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (timelineKeys(event)) event.preventDefault();
  });
  $("zoom-in").addEventListener("click", () => zoom(-1));
  $("zoom-out").addEventListener("click", () => zoom(1));
  $("pause").addEventListener("click", () => setPaused(timeline.to === null));
  new ResizeObserver(draw).observe(canvas);
  let drawn = 0;
  const frame = (at) => {
    const moves = timeline.live && timeline.to === null && !server.goneSince;
    if (moves && !reducedMotion.matches && at - drawn > 32) {
      drawn = at;
      draw();
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}

function showEvents(state) {
  timeline.began = state.began_ms;
  timeline.live = state.live;
  timeline.hosts = state.lanes;
  timeline.now = state.now;
  timeline.heard = performance.now();
  timeline.lag = (server.wait + 60) * 1e6;
  const { events } = state;
  if (events) {
    timeline.lanes.add(events.list, events.gaps, state.names, state.metrics.workers, state.now);
    if (state.live) timeline.lanes.prune(Math.min(edge(), timeline.to ?? edge()) - 70e9);
  }
  const box = $("each-poll-box");
  box.hidden = !state.live;
  const refused = server.eachPoll && state.level !== "full";
  const words = {
    off: "nothing is recorded",
    sparse: "recorded: what is rare or long",
    full: "recorded: each spawn, wake and poll",
  };
  say($("timeline-note"), refused ? "this runtime has no recorder" : words[state.level] ?? "");
  if (reducedMotion.matches || !state.live) draw();
}
