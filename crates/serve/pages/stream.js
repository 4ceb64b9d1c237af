// Server-sent events, fetched: unlike EventSource, fetch can show a token.

import { address, Problem, problemOf } from "./api.js";

/** After so much silence, comments included, a stream is taken for dead. The server breaks it each 15 s. */
const SILENCE_MS = 40_000;
const WAIT_MIN_S = 1;
const WAIT_MAX_S = 30;

/** Takes the text of a stream apart: gives the data of each event to `onData`. */
export function parser(onData) {
  let rest = "";
  /** @type {string[]} */
  let data = [];
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n/);
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line === "" && data.length > 0) {
        onData(data.join("\n"));
        data = [];
      } else if (line.startsWith("data:")) {
        data.push(line.slice(5).replace(/^ /, ""));
      }
    }
  };
}

/**
 * Follows the events at a path, for as long as the page is open: after each end it connects again,
 * later and later as long as that fails.
 *
 * `token()` is the token to show, or null. `onStatus` gets each status, `onAlive` is called when
 * anything was heard, `onLost` with the problem when the connection is lost. When a token is needed,
 * what `onDenied` does is awaited.
 */
export async function follow(path, { token, onStatus, onAlive, onLost, onDenied }) {
  let failures = 0;
  const heard = () => {
    failures = 0;
    onAlive();
  };
  for (;;) {
    let problem;
    try {
      await once(path, token(), onStatus, heard);
      problem = new Problem("offline", "The server closed the connection.");
    } catch (error) {
      problem = problemOf(error);
    }
    if (problem.kind === "denied") {
      await onDenied();
      continue;
    }
    const seconds = Math.max(problem.wait ?? 0, Math.min(WAIT_MIN_S * 2 ** failures, WAIT_MAX_S));
    failures += 1;
    onLost(problem);
    // Watchers that lost the same server do not come back all at once.
    await new Promise((resolve) => setTimeout(resolve, seconds * (800 + 400 * Math.random())));
  }
}

async function once(path, token, onStatus, onAlive) {
  const silence = new AbortController();
  /** @type {number | undefined} */
  let timer;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silence.abort(new Problem("offline", "The server fell silent.")), SILENCE_MS);
  };
  /** @type {Record<string, string>} */
  const headers = { Accept: "text/event-stream" };
  if (token !== null) headers.Authorization = `Bearer ${token}`;
  alive();
  try {
    const response = await fetch(address(path), { headers, signal: silence.signal, cache: "no-store" });
    if (!response.ok) throw await Problem.of(response);
    const feed = parser((data) => onStatus(JSON.parse(data)));
    const body = /** @type {ReadableStream<any>} */ (response.body);
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      onAlive();
      feed(value);
    }
  } finally {
    clearTimeout(timer);
  }
}
