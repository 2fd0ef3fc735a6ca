// What is known of the fields of a task: title, width, how it is written, what it means.
// A field that is not here is shown under its own name.

const KINDS = {
  number: { number: true, write: count },
  time: { number: true, write: time },
  text: { write: (text) => text },
  mono: { mono: true, write: (text) => text },
};

const COLUMNS = {
  id: { title: "id", kind: "number", write: String, width: "84px",
    help: "Its number. A later task has a higher one." },
  name: { title: "task", kind: "text", width: "minmax(150px, 1.3fr)",
    help: "Its name, if the program gave it one." },
  state: { title: "state", kind: "text", width: "104px",
    help: "idle: it waits to be woken. queued: it waits for a worker. running: a worker polls it." },
  age: { title: "age", kind: "time", width: "108px", help: "Time since it was spawned." },
  idle_for: { title: "idle for", kind: "time", width: "108px",
    help: "Time since its last poll ended." },
  busy: { title: "busy", kind: "time", width: "96px", help: "Time in all of its polls." },
  polls: { title: "polls", kind: "number", width: "88px", help: "How often it was polled." },
  wakes: { title: "wakes", kind: "number", width: "88px", help: "How often it was woken." },
  moves: { title: "moves", kind: "number", width: "84px",
    help: "How often it went from one worker to another." },
  longest_poll: { title: "longest poll", kind: "time", width: "116px",
    help: "The longest of its polls." },
  longest_wake: { title: "wake to poll", kind: "time", width: "116px",
    help: "The longest time between a wake and the poll that followed." },
  parent: { title: "parent", kind: "number", write: String, width: "84px",
    help: "The task that spawned it." },
  waits_for: { title: "waits for", kind: "mono", width: "minmax(160px, 1.4fr)",
    help: "What its last poll ended at: the innermost future.",
    write: (text) => text.trimEnd().split("\n").at(-1).trim() },
  where: { title: "spawned at", kind: "mono", width: "minmax(200px, 1.6fr)",
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
      width: "minmax(90px, auto)",
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
