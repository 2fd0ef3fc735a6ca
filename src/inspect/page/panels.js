// Numbers, stalls, lost tasks, histograms and counters. Each part is there if its data is.

// Answers of which a number's curve is made.
const CURVE = 60;

const tiles = { before: null, curves: new Map() };

// --- the numbers at the top ---

function sum(metrics, key) {
  return metrics.processors.reduce((all, p) => all + (p[key] ?? 0), 0);
}

function showTiles(state) {
  const { metrics, now } = state;
  const { before } = tiles;
  const seconds = before ? (now - before.now) / 1e9 : 0;
  const rate = (key) => {
    if (!before || seconds <= 0) return null;
    return Math.max(0, sum(metrics, key) - sum(before.metrics, key)) / seconds;
  };
  const busy = metrics.workers - metrics.free_permits;
  const queued = metrics.global_queue + metrics.ordered_queue
    + sum(metrics, "local_queue") + sum(metrics, "own_ordered_queue");
  const all = [
    ["tasks", "live_tasks", count(metrics.live_tasks), "", metrics.live_tasks],
    ["busy workers", "busy", String(busy), ` of ${metrics.workers}`, busy],
    ["in queues", "queued", count(queued), "", queued],
  ];
  if (state.live) {
    for (const [name, key] of [["polls", "polls"], ["steals", "steals"], ["sleeps", "parks"]]) {
      const n = rate(key);
      all.push([name, key, n === null ? "–" : short(n), n === null ? "" : " /s", n ?? 0]);
    }
  } else {
    all.push(["polls", "polls", short(sum(metrics, "polls")), "", 0]);
    all.push(["steals", "steals", short(sum(metrics, "steals")), "", 0]);
  }
  const box = $("tiles");
  for (const [name, key, value, unit, number] of all) {
    let tile = box.querySelector(`[data-key="${key}"]`);
    if (!tile) {
      tile = el("div", { class: "tile", "data-key": key },
        el("span", { class: "name" }, name),
        el("span", { class: "value" }, el("span"), el("small")));
      if (state.live) tile.append(curveElement());
      box.append(tile);
    }
    const [digits, small] = tile.querySelector(".value").children;
    say(digits, value);
    say(small, unit);
    if (state.live) curve(tile, key, number);
  }
  tiles.before = { metrics, now };
}

const SVG = "http://www.w3.org/2000/svg";

function curveElement() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 100 26");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const shape of ["polygon", "polyline"]) {
    const line = document.createElementNS(SVG, shape);
    line.setAttribute("vector-effect", "non-scaling-stroke");
    svg.append(line);
  }
  return svg;
}

function curve(tile, key, value) {
  const values = tiles.curves.get(key) ?? [];
  values.push(value);
  if (values.length > CURVE) values.shift();
  tiles.curves.set(key, values);
  if (values.length < 2) return;
  const most = Math.max(...values, 1e-9);
  const points = values.map((it, i) => {
    const x = 100 - (values.length - 1 - i) * 100 / (CURVE - 1);
    return `${x.toFixed(2)},${(25 - it / most * 21).toFixed(2)}`;
  });
  const first = points[0].split(",")[0];
  const [area, line] = tile.querySelector("svg").children;
  area.setAttribute("points", `${first},26 ${points.join(" ")} 100,26`);
  line.setAttribute("points", points.join(" "));
}

// --- stalls and lost tasks ---

function stallWords({ kind, phase, for: lasted, cpu }) {
  const over = phase === "ended";
  const words = {
    blocked: over ? "blocked its thread" : "blocks its thread",
    computing: over ? "computed" : "computes",
    descheduled: over ? "waited for a core" : "waits for a core",
  };
  const used = cpu === undefined ? "" : `, ${time(cpu)} of it on a core`;
  return ` ${words[kind] ?? kind} for ${time(lasted)}${used}`;
}

function taskButton(row) {
  const name = row.name ? `${row.name} (task ${row.id})` : `task ${row.id}`;
  return el("button", { type: "button", title: "Find it in the table",
    onclick: () => searchFor(String(row.id)) }, name);
}

// A list that is shown anew only if something in it has changed: what is open stays open.
function report(section, list, rows, item) {
  $(section).hidden = !rows || rows.length === 0;
  const text = JSON.stringify(rows ?? []);
  if ($(list).dataset.text === text) return;
  $(list).dataset.text = text;
  $(list).replaceChildren(...(rows ?? []).map(item));
}

function showReports(state) {
  const newest = state.stalls?.toSorted((one, other) => other.began - one.began);
  report("stalls", "stalls-list", newest, (stall) => el("li", { class: stall.phase },
    el("span", { class: "place" }, moment(state.began_ms, stall.began, true)),
    el("span", { class: "words" }, taskButton(stall), stallWords(stall)),
    el("span", { class: "place" }, stall.where),
    stall.stack
      ? el("details", {}, el("summary", {}, "stack"), el("pre", {}, stall.stack)) : null));
  report("lost", "lost-list", state.lost, (task) => el("li", {},
    el("span", { class: "place" }, `${time(task.age)} old`),
    el("span", { class: "words" }, taskButton(task)),
    el("span", { class: "place" }, task.where),
    task.waits_for ? el("pre", {}, task.waits_for) : null));
}

// --- histograms ---

const HISTOGRAMS = {
  poll: "A poll", wake: "From a wake to the poll", steal: "From a steal to the poll",
};

function quantile(pairs, part) {
  const all = pairs.reduce((n, [, count]) => n + count, 0);
  let left = all * part;
  for (const [bound, n] of pairs) {
    left -= n;
    if (left <= 0) return bound;
  }
  return pairs.at(-1)?.[0] ?? 0;
}

function showHistograms({ metrics }) {
  const all = Object.entries(metrics.histograms ?? {})
    .filter(([, pairs]) => pairs.some(([, n]) => n > 0));
  $("histograms").hidden = all.length === 0;
  $("histograms-list").replaceChildren(...all.map(([key, pairs]) => {
    const first = pairs.findIndex(([, n]) => n > 0);
    const last = pairs.findLastIndex(([, n]) => n > 0);
    const shown = pairs.slice(Math.max(0, first - 1), last + 2);
    const most = Math.max(...shown.map(([, n]) => n));
    const bars = shown.map(([bound, n]) => {
      const bar = el("i", { title: `up to ${time(bound)}: ${count(n)}` });
      bar.style.height = `${n === 0 ? 0 : Math.max(2, n / most * 100)}%`;
      return bar;
    });
    const [half, most99] = [quantile(pairs, 0.5), quantile(pairs, 0.99)];
    const words = `half within ${time(half)}, 99 % within ${time(most99)}`;
    const name = HISTOGRAMS[key] ?? key.replaceAll("_", " ");
    return el("figure", { class: "histogram", role: "img", "aria-label": `${name}: ${words}` },
      el("figcaption", {}, el("strong", {}, name), " ", el("span", { class: "quiet" }, words)),
      el("div", { class: "bars" }, ...bars),
      el("div", { class: "axis" }, el("span", {}, time(shown[0][0])),
        el("span", {}, time(shown.at(-1)[0]))));
  }));
}

// --- counters ---

function showCounters({ metrics }) {
  if (!$("counters").open) return;
  const numbers = Object.entries(metrics).filter(([, value]) => typeof value === "number");
  const words = (key) => key.replaceAll("_", " ");
  $("numbers").replaceChildren(...numbers.map(([key, value]) =>
    el("div", {}, el("span", {}, words(key)), count(value))));
  const keys = Object.keys(metrics.processors[0] ?? {});
  const head = el("tr", {}, el("th", { scope: "col" }, "P"),
    ...keys.map((key) => el("th", { scope: "col" }, words(key))));
  const rows = metrics.processors.map((p, index) => el("tr", {},
    el("th", { scope: "row" }, String(index)), ...keys.map((key) => el("td", {}, count(p[key])))));
  $("processors").replaceChildren(el("thead", {}, head), el("tbody", {}, ...rows));
}
