// The table of tasks. The program sorts and filters; here are the rows that are on the screen, and
// a few above and below. A table of 100,000 rows has some 60 elements.

const table = {
  sort: "age",
  down: true,
  state: "",
  search: "",
  keys: [],
  rows: [], // from `offset` on
  offset: 0,
  matched: 0,
  total: 0,
  chosen: null, // the id of a task
  at: 0, // its row
  timer: 0,
  seen: new Set(), // fields that some row had
};

// Rows above and below those on the screen, so that a short scroll has something to show.
const SPARE = 15;
// Browsers allow no taller element; rows beyond it are reached by search and sort.
const TALL = 30e6;

const narrow = matchMedia("(max-width: 640px)");
const rowHeight = () => (narrow.matches ? 58 : 30);
const rowsOnScreen = () => Math.ceil(($("table").clientHeight || 600) / rowHeight());

function firstRow() {
  return Math.max(0, Math.floor($("table").scrollTop / rowHeight()) - SPARE);
}

// What the program is asked for.
function tableQuery() {
  return {
    sort: table.sort,
    down: table.down ? 1 : 0,
    state: table.state,
    search: table.search,
    offset: firstRow(),
    limit: rowsOnScreen() + 2 * SPARE,
  };
}

function remember() {
  const { sort, down, state, search } = table;
  const text = new URLSearchParams({ sort, down: down ? 1 : 0, state, search });
  history.replaceState(null, "", `#${text}`);
}

function recall() {
  const text = new URLSearchParams(location.hash.slice(1));
  if (!text.has("sort")) return;
  table.sort = text.get("sort");
  table.down = text.get("down") === "1";
  table.state = text.get("state") ?? "";
  table.search = text.get("search") ?? "";
  $("search").value = table.search;
}

// Something else is wanted: from the first row on.
function wanted(change) {
  Object.assign(table, change);
  $("table").scrollTop = 0;
  table.at = 0;
  remember();
  head();
  ask();
}

function sortBy(key) {
  const { number } = column(key);
  if (table.sort === key) wanted({ down: !table.down });
  else wanted({ sort: key, down: Boolean(number) && key !== "id" });
}

function searchFor(text) {
  $("search").value = text;
  wanted({ search: text });
}

// The fields that are there: those of which some row had a value.
function shownKeys() {
  return ordered(table.keys.filter((key) =>
    table.seen.has(key) || key === "name" || key === table.sort));
}

function head() {
  const keys = shownKeys();
  // The same for each row: rows are grids of their own.
  const widths = keys.map((key) => {
    const { min, grow } = column(key);
    return grow > 0 ? `minmax(0, ${grow}fr)` : `${min}px`;
  });
  const least = keys.reduce((all, key) => all + column(key).min, 0);
  $("table").style.setProperty("--columns", widths.join(" "));
  $("table").style.setProperty("--least", `${least}px`);
  const cells = keys.map((key) => {
    const { title, help, number } = column(key);
    const sorted = key !== table.sort ? null : table.down ? "descending" : "ascending";
    const button = el("button", { type: "button", title: help, onclick: () => sortBy(key) }, title);
    return el("div", { class: number ? "cell number" : "cell", role: "columnheader",
      "aria-sort": sorted, "data-key": key }, button);
  });
  const had = document.activeElement?.closest?.("#head [data-key]")?.dataset.key;
  $("head").replaceChildren(...cells);
  if (had) $("head").querySelector(`[data-key="${CSS.escape(had)}"] button`)?.focus();
  const options = keys.map((key) => el("option", { value: key }, column(key).title));
  $("sort").replaceChildren(...options);
  $("sort").value = table.sort;
  $("table").setAttribute("aria-colcount", keys.length);
}

function cell(row, key) {
  const { write, number, mono } = column(key);
  const value = row[key];
  const classes = ["cell", number && "number", mono && "mono"].filter(Boolean);
  const attributes = { role: "gridcell", "data-key": key };
  if (key === table.sort && !["name", "state", "where", "id"].includes(key)) {
    attributes["data-sorted"] = "";
  }
  if (key === "name" && value === undefined) {
    // Without a name, the place says most.
    classes.push("quiet");
    return el("div", { ...attributes, class: classes.join(" ") }, `task ${row.id}`);
  }
  if (value === undefined) classes.push("none");
  const text = value === undefined ? "–" : write(value);
  const content = key === "state" ? el("span", { class: `state ${value}` }, text) : text;
  const title = typeof value === "string" ? value : null;
  return el("div", { ...attributes, class: classes.join(" "), title }, content);
}

function rows() {
  const space = $("space");
  const height = rowHeight();
  const keys = shownKeys();
  space.style.height = `${Math.min(table.matched * height, TALL)}px`;
  const elements = table.rows.map((row, i) => {
    const index = table.offset + i;
    const chosen = row.id === table.chosen;
    if (chosen) table.at = index;
    const element = el("div", {
      class: "row", role: "row", id: `row-${row.id}`, "aria-rowindex": index + 2,
      "aria-selected": String(chosen), onclick: () => choose(row.id, index),
    }, ...keys.map((key) => cell(row, key)));
    element.style.top = `${index * height}px`;
    return element;
  });
  space.replaceChildren(...elements);
  const box = $("table");
  box.setAttribute("aria-rowcount", table.matched + 1);
  const active = table.rows.find((row) => row.id === table.chosen);
  if (active) box.setAttribute("aria-activedescendant", `row-${active.id}`);
  else box.removeAttribute("aria-activedescendant");
  box.hidden = table.matched === 0;
  const empty = $("empty");
  empty.hidden = table.matched > 0;
  say(empty, table.total === 0 ? "No task is alive." : "No task is like that.");
}

function choose(id, index) {
  table.chosen = id;
  table.at = index;
  rows();
  detail();
}

// All fields of the chosen task.
function detail() {
  const box = $("detail");
  const row = table.rows.find((it) => it.id === table.chosen);
  if (!row) {
    // It may only be out of sight, or it has ended.
    box.hidden = table.chosen === null;
    const note = box.querySelector(".note");
    if (note) say(note, "It has ended, or is not among the rows on the screen.");
    return;
  }
  const keys = ordered(Object.keys(row)).filter((key) => key !== "waits_for");
  const fields = keys.flatMap((key) => {
    const { title, write, help } = column(key);
    return [el("dt", { title: help }, title), el("dd", {}, write(row[key]))];
  });
  const close = el("button", { class: "icon close", type: "button", "aria-label": "Close",
    onclick: unchoose }, "×");
  const tree = row.waits_for;
  box.replaceChildren(
    close,
    el("strong", {}, row.name ? `${row.name} (task ${row.id})` : `task ${row.id}`),
    el("span", { class: "note quiet" }, ""),
    el("dl", { class: "fields" }, ...fields),
    ...(tree ? [el("div", { class: "quiet" }, "It waits for:"), el("pre", {}, tree)] : []),
  );
  box.hidden = false;
}

function unchoose() {
  table.chosen = null;
  // A row that is still on its way is not chosen when it comes.
  delete table.moving;
  $("detail").hidden = true;
  rows();
  $("table").focus();
}

function chips(states) {
  const names = ["", "running", "queued", "idle"];
  const all = [...new Set([...names, ...Object.keys(states)])];
  const buttons = all.map((state) => {
    const n = state === "" ? table.total : states[state] ?? 0;
    return el("button", { type: "button", "aria-pressed": String(table.state === state),
      "data-state": state, onclick: () => wanted({ state }) }, state || "all",
      el("b", {}, count(n)));
  });
  keepFocus($("states"), buttons, "state");
}

// Shows buttons anew, with the focus where it was.
function keepFocus(box, buttons, data) {
  const active = document.activeElement;
  const had = box.contains(active) ? active.dataset[data] : undefined;
  box.replaceChildren(...buttons);
  if (had !== undefined) buttons.find((button) => button.dataset[data] === had)?.focus();
}

// Where most tasks were spawned: only if that tells something.
function places(list) {
  const box = $("places");
  const isChosen = (place) => place.toLowerCase() === table.search.toLowerCase();
  const much = list.filter(([place, n]) => n > 1 || isChosen(place));
  box.hidden = list.length < 2 || much.length === 0;
  const buttons = much.map(([place, n]) => {
    const pressed = isChosen(place);
    return el("button", { type: "button", title: `Tasks that were spawned at ${place}`,
      "aria-pressed": String(pressed), "data-place": place,
      onclick: () => searchFor(pressed ? "" : place) },
      place.replace(/^.*\/(?=[^/]*\/[^/]*$)/, "…/"), el("b", {}, count(n)));
  });
  keepFocus(box, buttons, "place");
}

function showTasks({ tasks, now }) {
  if (!tasks) return;
  Object.assign(table, {
    keys: tasks.keys, rows: tasks.rows, offset: tasks.offset,
    matched: tasks.matched, total: tasks.total,
  });
  const before = table.seen.size;
  for (const row of tasks.rows) for (const key of Object.keys(row)) table.seen.add(key);
  if (table.seen.size !== before || $("head").childElementCount === 0) head();
  say($("tasks-count"), table.matched === table.total
    ? count(table.total) : `${count(table.matched)} of ${count(table.total)}`);
  chips(tasks.states);
  places(tasks.places);
  rows();
  detail();
}

function moveTo(index) {
  const box = $("table");
  const last = table.matched - 1;
  const at = Math.max(0, Math.min(last, index));
  const height = rowHeight();
  const headHeight = $("head").offsetHeight;
  const top = at * height;
  if (top < box.scrollTop) box.scrollTop = top;
  const room = box.clientHeight - headHeight - height;
  if (top > box.scrollTop + room) box.scrollTop = top - room;
  table.at = at;
  const row = table.rows[at - table.offset];
  if (row) choose(row.id, at);
  else table.moving = at;
}

function tableKeys(event) {
  if (event.target !== $("table") || event.ctrlKey || event.metaKey || event.altKey) return;
  const page = Math.max(1, rowsOnScreen() - 3);
  const at = table.chosen === null ? -1 : table.at;
  const to = {
    ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page,
    Home: 0, End: table.matched - 1,
  }[event.key];
  if (to !== undefined) moveTo(to);
  else if (event.key === "Escape" && table.chosen !== null) unchoose();
  else return;
  event.preventDefault();
}

function startTasks() {
  recall();
  const search = $("search");
  search.addEventListener("input", () => {
    clearTimeout(table.timer);
    table.timer = setTimeout(() => wanted({ search: search.value.trim() }), 150);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") $("table").focus();
    else if (event.key === "Escape" && search.value !== "") searchFor("");
    else return;
    event.preventDefault();
  });
  $("sort").addEventListener("change", (event) => sortBy(event.target.value));
  const box = $("table");
  let waits = false;
  box.addEventListener("scroll", () => {
    const first = Math.floor(box.scrollTop / rowHeight());
    const end = table.offset + table.rows.length;
    const isAbove = first < table.offset;
    const isBelow = first + rowsOnScreen() > end && end < table.matched;
    if (waits || !isAbove && !isBelow) return;
    waits = true;
    setTimeout(() => {
      waits = false;
      ask();
    }, 60);
  }, { passive: true });
  box.addEventListener("keydown", tableKeys);
  narrow.addEventListener("change", () => ask());
}

// After an answer: a key that asked for a row out of sight chooses it now.
function finishMove() {
  const at = table.moving;
  const row = at === undefined ? undefined : table.rows[at - table.offset];
  if (!row) return;
  delete table.moving;
  choose(row.id, at);
}
