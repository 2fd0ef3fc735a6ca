// What is known of the fields of a task: title, width in pixels and its part of the rest, how it
// is written, what it means.
// A field that is not here is shown under its own name.

const KINDS = {
  number: { number: true, write: count },
  time: { number: true, write: time },
  text: { write: (text) => text },
  mono: { mono: true, write: (text) => text },
};

const COLUMNS = {
  id: { title: "id", kind: "number", write: String, min: 84, grow: 0,
    help: "Its number. A later task has a higher one." },
  name: { title: "task", kind: "text", min: 150, grow: 1.3,
    help: "Its name, if the program gave it one." },
  state: { title: "state", kind: "text", min: 104, grow: 0,
    help: "idle: it waits to be woken. queued: it waits for a worker. running: it is polled." },
  age: { title: "age", kind: "time", min: 108, grow: 0, help: "Time since it was spawned." },
  idle_for: { title: "idle for", kind: "time", min: 108, grow: 0,
    help: "Time since its last poll ended." },
  busy: { title: "busy", kind: "time", min: 96, grow: 0, help: "Time in all of its polls." },
  polls: { title: "polls", kind: "number", min: 88, grow: 0, help: "How often it was polled." },
  wakes: { title: "wakes", kind: "number", min: 88, grow: 0, help: "How often it was woken." },
  moves: { title: "moves", kind: "number", min: 84, grow: 0,
    help: "How often it went from one worker to another." },
  longest_poll: { title: "longest poll", kind: "time", min: 116, grow: 0,
    help: "The longest of its polls." },
  longest_wake: { title: "wake to poll", kind: "time", min: 116, grow: 0,
    help: "The longest time between a wake and the poll that followed." },
  parent: { title: "parent", kind: "number", write: String, min: 84, grow: 0,
    help: "The task that spawned it." },
  waits_for: { title: "waits for", kind: "mono", min: 160, grow: 1.4,
    help: "What its last poll ended at: the innermost future.",
    // The tree is in the details.
    write: (text) => text.trimEnd().split("\n").at(-1).replace(/^[\s│├└─]+/, "") },
  where: { title: "spawned at", kind: "mono", min: 200, grow: 1.6,
    help: "The place in the source." },
};

// The order on the page; others come before `where`.
const ORDER = Object.keys(COLUMNS);

const known = new Map();

function column(key) {
  if (!known.has(key)) {
    const kind = COLUMNS[key]?.kind ?? (key.endsWith("_ns") ? "time" : "auto");
    const auto = {
      write: (value) => (typeof value === "number" ? count(value) : String(value)),
      title: key.replace(/_ns$/, "").replaceAll("_", " "),
      min: 100, grow: 0,
      help: "",
    };
    known.set(key, { key, ...auto, ...KINDS[kind], ...COLUMNS[key] });
  }
  return known.get(key);
}

function ordered(keys) {
  const place = (key) => (ORDER.includes(key) ? ORDER.indexOf(key) : ORDER.length - 1.5);
  return [...keys].sort((one, other) => place(one) - place(other));
}
