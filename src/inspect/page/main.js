// What the page does when it begins, at each answer, and at a key.

const KEYS = [
  ["/", "search"], ["↓ ↑", "the next task, the one before (in the table)"],
  ["Page Home End", "far away in the table"], ["Esc", "close what is open"],
  ["space", "stop the timeline, let it go on"], ["+ −", "show less time, more time"],
  ["← →", "move in time (the timeline is chosen)"],
  ["wheel", "zoom (it is chosen, or with Ctrl)"],
  ["End", "back to now (it is chosen)"], ["?", "this"],
];
const WORDS = [
  ["P", "a worker's queues and clock; tasks run on a thread that has one"],
  ["awake", "the thread of the P runs tasks or searches for some"],
  ["long poll", "a poll of 1 ms or more, as the monitor saw it"],
  ["blocking call", "the task announced that it blocks; another thread works meanwhile"],
  ["steal", "the P took tasks from another one's queue"],
  ["stall", "a poll so long that it was reported"],
];

function showStatus() {
  const { last } = server;
  const pill = $("status");
  const gone = server.failures > 0;
  const paused = timeline.to !== null && timeline.live;
  let [name, text] = ["live", "live"];
  if (gone) [name, text] = ["gone", "no answer"];
  else if (!last) [name, text] = ["", "connecting"];
  else if (!last.live) [name, text] = ["held", "snapshot"];
  else if (paused) [name, text] = ["held", "timeline stopped"];
  pill.className = `pill ${name}`;
  say(pill, text);
  // A single failure may be an answer that was cut off.
  $("gone").hidden = server.failures < 2;
  if (gone) {
    const seconds = Math.round((Date.now() - server.goneSince) / 1000);
    say($("gone-since"), `For ${time(Math.max(1, seconds) * 1e9)} now.`);
  }
}

function showAnswer(state) {
  say($("program"), state.program);
  document.title = `${state.program} · ws`;
  const at = new Date(state.began_ms + state.now / 1e6);
  say($("about"), state.live
    ? `process ${state.pid}, up ${time(Math.max(1, Math.floor(state.now / 1e9)) * 1e9)}`
    : `${state.pid ? `process ${state.pid}, ` : ""}${at.toLocaleString()}`);
  $("snapshot").hidden = !state.live;
  server.folder = state.folder;
  showTiles(state);
  showEvents(state);
  showReports(state);
  showHistograms(state);
  showTasks(state);
  finishMove();
  showCounters(state);
  if (!state.live && timeline.to === null) wholeSnapshot(state);
}

// A snapshot does not move: all of it is shown.
function wholeSnapshot(state) {
  const begin = timeline.lanes.begin ?? 0;
  timeline.span = SPANS.find((span) => span >= state.now - begin) ?? SPANS.at(-1);
  timeline.to = state.now;
  $("pause").hidden = true;
  say($("zoom"), time(timeline.span));
  draw();
}

let toastTimer = 0;
function toast(text) {
  const box = $("toast");
  box.hidden = false;
  say(box, text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { box.hidden = true; }, 6000);
}

async function takeSnapshot() {
  const button = $("snapshot");
  button.disabled = true;
  try {
    const { written } = await request("/snapshot", { method: "POST" });
    const why = server.folder
      ? "The program writes none now: the last one was a moment ago. "
      : "The program has no folder for snapshots. ";
    toast(`${written ? "The program writes one into its folder. " : why}A copy is downloaded.`);
    $("perfetto").click();
  } catch (error) {
    toast(`There is no snapshot: ${error.message}`);
  }
  button.disabled = false;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readColors();
  draw();
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // Without storage the choice holds for this visit.
  }
}

function startTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let stored = null;
  try {
    stored = localStorage.getItem("theme");
  } catch { /* as above */ }
  if (stored) document.documentElement.dataset.theme = stored;
  const now = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
  $("theme").addEventListener("click", () => setTheme(now() === "dark" ? "light" : "dark"));
  dark.addEventListener("change", () => {
    readColors();
    draw();
  });
}

function describe(list, entries) {
  $(list).replaceChildren(...entries.flatMap(([word, text]) =>
    [el("dt", {}, word), el("dd", {}, text)]));
}

function pageKeys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target;
  const writes = target.matches("input, select, textarea") && target.type !== "checkbox";
  if (writes || $("help").open) return;
  const onButton = target.matches("button, a, summary, input");
  if (event.key === "/") {
    $("search").focus();
    $("search").select();
  } else if (event.key === "?") $("help").showModal();
  else if (event.key === "Escape" && table.chosen !== null) unchoose();
  else if (event.key === " " && (onButton || target === $("table"))) return;
  else if (["+", "=", "-", " "].includes(event.key)) timelineKeys(event);
  else return;
  event.preventDefault();
}

server.tasks = tableQuery;
server.onAnswer = showAnswer;
server.onStatus = showStatus;
timeline.onTask = (task) => searchFor(String(task));

startTheme();
startTimeline();
startTasks();
describe("keys", KEYS);
describe("words", WORDS);
document.addEventListener("keydown", pageKeys);
$("help-open").addEventListener("click", () => $("help").showModal());
$("snapshot").addEventListener("click", takeSnapshot);
$("each-poll").addEventListener("change", (event) => {
  server.eachPoll = event.target.checked;
  ask();
});
$("counters").addEventListener("toggle", () => server.last && showCounters(server.last));
ask();
