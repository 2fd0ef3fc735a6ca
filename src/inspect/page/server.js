// What is asked of the program, and when.
//
// One request at a time. The answer says how long to wait until the next one, so that the program
// spends less than 1 % of a core on this page. A page that is hidden asks for nothing.

const server = {
  page: Math.floor(Math.random() * 2 ** 48),
  cursor: "",
  eachPoll: false,
  tasks: () => ({}),
  onAnswer: () => {},
  onGone: () => {},
  onStatus: () => {},

  timer: 0,
  asking: false,
  again: false,
  failures: 0,
  goneSince: 0,
  wait: 500,
  last: null,
};

// The longest wait between two tries while the program does not answer, in milliseconds.
const RETRY_MAX = 5000;
// How long an answer may take.
const PATIENCE = 20000;

function query() {
  const parameters = new URLSearchParams({ page: server.page, ...server.tasks() });
  // A snapshot has told everything at once.
  if (server.last?.live ?? true) parameters.set("events", server.cursor);
  if (server.eachPoll) parameters.set("each_poll", "1");
  return `/state?${parameters}`;
}

async function request(path, options = {}) {
  const answer = await fetch(path, {
    ...options,
    headers: { "x-ws-inspect": TOKEN },
    signal: AbortSignal.timeout(PATIENCE),
    cache: "no-store",
  });
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  return answer.json();
}

// Asks now, or right after the request that is under way.
async function ask() {
  clearTimeout(server.timer);
  if (server.asking) {
    server.again = true;
    return;
  }
  server.asking = true;
  try {
    const state = await request(query());
    const before = server.last;
    if (before?.live && (before.pid !== state.pid || before.began_ms + 2000 < state.began_ms)) {
      // Another process answers: it has another token, and maybe another page.
      location.reload();
      return;
    }
    server.failures = 0;
    server.goneSince = 0;
    server.wait = state.wait ?? 0;
    if (state.events) server.cursor = state.events.cursor;
    server.last = state;
    server.onAnswer(state);
  } catch (error) {
    server.failures += 1;
    server.goneSince ||= Date.now();
    server.wait = Math.min(500 * 2 ** Math.min(server.failures, 9), RETRY_MAX);
    server.onGone(error);
  }
  server.asking = false;
  server.onStatus();
  if (server.again) {
    server.again = false;
    ask();
  } else if (!document.hidden && (server.failures > 0 || server.last?.live)) {
    server.timer = setTimeout(ask, server.wait);
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) ask();
});
