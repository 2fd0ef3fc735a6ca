// From events to what a timeline draws: for each P a lane with slices and ticks.
//
// An event is a list: time in ns, P plus one (0: none), kind, task, name, and two numbers. What is
// left out at the end is nothing.

// Slices and ticks of a lane that are kept at most.
const KEPT = 60000;

// The monitor begins with its runtime, by a blocking call that never ends. It is shown nowhere.
const MONITOR_BEGINS = 20e6;

// What does not show that the thread was awake before.
const QUIET = new Set(["Park", "Unpark", "Leave", "Block", "Return", "Message"]);

class Lane {
  constructor(index) {
    this.index = index;
    this.slices = []; // { from, to, kind, task }, by their ends
    this.ticks = []; // { at, kind, text, task, color }
    this.open = {}; // by kind: what has begun
    this.since = null; // nothing is known of before
    this.first = null; // its first event that is known
    this.gaps = []; // { from, to }
    this.last = 0;
  }

  begin(kind, at, task) {
    this.open[kind] = { from: at, to: null, kind, task };
  }

  // It ends; if its begin is not known, it began before the first event that is.
  end(kind, at, assumed) {
    const open = this.open[kind];
    delete this.open[kind];
    if (open) this.slices.push({ ...open, to: at });
    else if (assumed && this.first !== null && this.first < at && !this.assumed) {
      this.slices.push({ from: this.first, to: at, kind, task: 0 });
    }
    if (assumed) this.assumed = true;
  }

  // Nothing is known of that time. What was under way was so up to its begin.
  gap(from, to) {
    this.gaps.push({ from, to });
    for (const kind of ["awake", "poll", "block"]) this.end(kind, from, false);
  }

  // Its thread does something, so it is awake.
  acts(at) {
    if (this.open.awake || this.open.block) return;
    this.begin("awake", this.assumed ? at : this.first ?? at, 0);
    this.assumed = true;
  }

  tick(at, kind, text, task, color) {
    this.ticks.push({ at, kind, text, task, color });
  }

  prune(before) {
    for (const list of ["slices", "ticks"]) {
      const old = this[list];
      const from = Math.max(0, old.length - KEPT);
      const first = old.findIndex((it, i) => i >= from && (it.to ?? it.at) >= before);
      this[list] = first < 0 ? [] : first === 0 ? old : old.slice(first);
    }
    this.gaps = this.gaps.filter((gap) => gap.to >= before);
  }
}

class Lanes {
  constructor() {
    this.lanes = new Map();
    this.spans = []; // { from, to, name, task }
    this.openSpans = new Map();
    this.names = new Map();
    this.whole = 0;
    this.end = 0;
    this.begin = null;
  }

  lane(index) {
    if (!this.lanes.has(index)) {
      this.lanes.set(index, new Lane(index));
      this.lanes = new Map([...this.lanes].sort(([one], [other]) => one - other));
    }
    return this.lanes.get(index);
  }

  // What a task is called.
  label(task) {
    if (!task) return "";
    const name = this.names.get(String(task));
    return name ? `${name} (task ${task})` : `task ${task}`;
  }

  add(events, gaps, names, workers, now) {
    for (const [id, name] of Object.entries(names ?? {})) this.names.set(id, name);
    if (this.names.size > 50000) this.names.clear();
    for (let index = 0; index < workers; index++) this.lane(index);
    for (const [p, until] of gaps) {
      if (p === 0) continue;
      const lane = this.lane(p - 1);
      if (lane.since === null) lane.since = until;
      else if (lane.last < until) lane.gap(lane.last, until);
      lane.first = until;
      lane.assumed = false;
    }
    // A span may begin on one P and end on another: all have to be known.
    this.whole = Math.max(this.whole, ...gaps.map(([, until]) => until));
    for (const [key, open] of this.openSpans) {
      this.openSpans.set(key, open.filter((span) => span.from >= this.whole));
    }
    for (const event of events) this.event(event);
    this.end = Math.max(this.end, now);
    if (this.begin === null) this.begin = events.length > 0 ? events[0][0] : now;
    for (const lane of this.lanes.values()) lane.since ??= this.begin;
  }

  event([at, p, kind, task = 0, name = null, high = 0, low = 0]) {
    this.begin ??= at;
    const lane = p > 0 ? this.lane(p - 1) : null;
    if (lane) {
      lane.since ??= this.begin;
      lane.first ??= at;
      lane.last = at;
      if (!QUIET.has(kind)) lane.acts(at);
    }
    switch (kind) {
      case "Park": case "Leave":
        lane?.end("awake", at, true);
        lane?.end("poll", at, false);
        break;
      case "Unpark":
        lane?.begin("awake", at, 0);
        break;
      case "Named":
        this.names.set(String(task), name);
        break;
      case "Run":
        lane?.begin("poll", at, task);
        break;
      case "Idle": case "Requeue": case "Done":
        lane?.end("poll", at, false);
        break;
      case "Block":
        lane?.end("awake", at, true);
        lane?.begin("block", at, task);
        break;
      case "Return":
        lane?.end("block", at, true);
        if (low === 1) lane?.begin("awake", at, 0);
        break;
      case "LongPoll": {
        const of = this.lane(high);
        of.end("long", at, false);
        if (of.since !== null) of.acts(at - low * 1e5);
        of.begin("long", at - low * 1e5, task);
        break;
      }
      case "LongPollEnd":
        this.lane(low).end("long", at, false);
        break;
      case "Stall":
        this.lane(low).tick(at, kind, "a stall was reported", task, "stall");
        break;
      case "Revoke":
        this.lane(low).tick(at, kind, "its permit went to another thread", 0, "block");
        break;
      case "Steal":
        lane?.tick(at, kind, `stole ${plural(low, "task", "tasks")} from P ${high}`, task, "steal");
        break;
      case "RunNextStolen": case "ParentStolen":
        lane?.tick(at, kind, `stole a task from P ${low}`, task, "steal");
        break;
      case "BranchStolen":
        lane?.tick(at, kind, `stole a branch of a join from P ${low}`, 0, "steal");
        break;
      case "Mark": case "Message":
        (lane ?? this.lane(0)).tick(at, kind, name ?? "mark", task, "mark");
        break;
      case "Log":
        (lane ?? this.lane(0)).tick(at, kind, name ?? "log", task, "mark");
        break;
      case "SpanBegin": {
        if (at < this.whole) break;
        const key = `${task} ${low} ${name}`;
        const open = this.openSpans.get(key) ?? [];
        open.push({ from: at, to: null, name: name ?? "span", task });
        this.openSpans.set(key, open);
        break;
      }
      case "SpanEnd": {
        const span = this.openSpans.get(`${task} ${low} ${name}`)?.pop();
        if (span) this.spans.push({ ...span, to: at });
        break;
      }
    }
  }

  prune(before) {
    for (const lane of this.lanes.values()) lane.prune(before);
    if (this.spans.length > KEPT) this.spans = this.spans.slice(-KEPT);
    this.spans = this.spans.filter((span) => span.to >= before);
    for (const [key, open] of this.openSpans) if (open.length === 0) this.openSpans.delete(key);
  }

  // All spans between two moments, each in a row in which no other one is then.
  spanRows(from, to, most) {
    const open = [...this.openSpans.values()].flat();
    const seen = [...this.spans, ...open]
      .filter((span) => (span.to ?? Infinity) >= from && span.from <= to)
      .sort((one, other) => one.from - other.from);
    const ends = [];
    const rows = [];
    for (const span of seen) {
      let row = ends.findIndex((end) => end <= span.from);
      if (row < 0) row = ends.length;
      if (row >= most) continue;
      ends[row] = span.to ?? Infinity;
      rows.push({ ...span, row });
    }
    return { rows, count: ends.length };
  }

  // The lanes with something between two moments, or `recently` before: others come and go with
  // threads that block.
  shown(begin, to, recently) {
    const from = begin - recently;
    const within = (it) => (it.to ?? it.at ?? to) >= from && (it.from ?? it.at) <= to;
    const isMonitor = (lane) => lane.open.block?.from < MONITOR_BEGINS;
    const all = [...this.lanes.values()].filter((lane) => !isMonitor(lane));
    const some = all.filter((lane) => lane.open.awake?.from <= to || lane.open.poll?.from <= to
      || lane.open.long?.from <= to
      || lane.open.block?.from <= to
      || lane.slices.some(within) || lane.ticks.some(within));
    return some.length > 0 ? some : all.slice(0, 1);
  }

  // What part of the time between two moments a lane was awake; nothing if that is not known.
  busy(lane, from, to) {
    const begin = Math.max(from, lane.since ?? Infinity);
    if (begin >= to) return null;
    const open = lane.open.awake ? [{ ...lane.open.awake, to }] : [];
    let sum = 0;
    for (const slice of [...lane.slices, ...open]) {
      if (slice.kind !== "awake") continue;
      sum += Math.max(0, Math.min(slice.to, to) - Math.max(slice.from, begin));
    }
    const overlap = (gap) => Math.max(0, Math.min(gap.to, to) - Math.max(gap.from, begin));
    const known = lane.gaps.reduce((rest, gap) => rest - overlap(gap), to - begin);
    return known <= 0 ? null : Math.min(1, sum / known);
  }
}
