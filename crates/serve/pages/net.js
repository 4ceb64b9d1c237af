// Fetches what pages ask for, and says in words for people what went wrong.

// The pages may live below any path: everything is found from where this file is.
const ROOT = new URL("../", import.meta.url);
const PATIENCE_MS = 20_000;

/**
 * Where something of the server is, such as `/api/table`.
 * @param {string} path
 */
export const address = (path) => new URL(path.replace(/^\/+/, ""), ROOT);

/** Why there is no answer. */
export class Problem extends Error {
  /**
   * `kind`: "offline" nobody answers; "missing" there is no table yet; "busy" too many questions;
   * "denied" a token is needed; "refused" the question is wrong; "failed" anything else.
   * `wait`: after how many seconds asking again may help; null if it will not.
   * @param {string} kind
   * @param {string} message
   * @param {number | null} wait
   */
  constructor(kind, message, wait = null) {
    super(message);
    this.kind = kind;
    this.wait = wait;
  }

  /**
   * What an answer that is no success means.
   * @param {Response} response
   */
  static async of(response) {
    const reason = await reasonIn(response);
    const seconds = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
    const later = Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 1), 60);
    switch (response.status) {
      case 401:
      case 403:
        return new Problem("denied", "This needs a token of the coordinator.");
      case 429:
        return new Problem("busy", "The server was asked too much at once.", later ?? 2);
      case 503:
        return reason?.includes("no finished table")
          ? new Problem("missing", "There is no finished table here yet.", later ?? 10)
          : new Problem("busy", "The server is busy.", later ?? 2);
      case 404:
        // Our server says what is not there.
        if (reason === null) return new Problem("failed", `A file is missing here: ${response.url}`);
    }
    return response.status < 500
      ? new Problem("refused", reason ?? `The server refused this (${response.status}).`)
      : new Problem("failed", `The server failed: ${reason ?? response.status}.`);
  }
}

async function reasonIn(response) {
  try {
    const { error } = await response.json();
    return typeof error === "string" ? error : null;
  } catch {
    // A body that is not JSON has no reason for people: the status says what is known.
    return null;
  }
}

/** The problem that an error of `fetch` is. */
export function problemOf(error) {
  if (error instanceof Problem) return error;
  if (error.name === "TimeoutError") return new Problem("offline", "The server does not answer.", 5);
  if (error instanceof SyntaxError) return new Problem("failed", "The server gives something else than the file that belongs here.");
  if (error instanceof TypeError) return new Problem("offline", "The server cannot be reached.", 5);
  return new Problem("failed", `This failed: ${error.message}.`);
}

/**
 * What `read` makes of the answer at a path. Throws a Problem.
 * @template T
 * @param {string} path
 * @param {(response: Response) => Promise<T>} read
 */
export async function fetched(path, read, accept = "*/*") {
  try {
    const response = await fetch(address(path), { headers: { Accept: accept }, signal: AbortSignal.timeout(PATIENCE_MS) });
    if (!response.ok) throw await Problem.of(response);
    return await read(response);
  } catch (error) {
    throw problemOf(error);
  }
}

/**
 * The JSON at a path. Throws a Problem.
 * @param {string} path
 * @returns {Promise<any>}
 */
export const ask = (path) => fetched(path, (response) => response.json(), "application/json");

/** Asks once for each key, as long as that succeeds. Keeps the last ones. */
export function keeper(most, question) {
  const kept = new Map();
  return (key, ...rest) => {
    const answer = kept.get(key) ?? question(key, ...rest);
    kept.delete(key);
    kept.set(key, answer);
    if (kept.size > most) kept.delete(kept.keys().next().value);
    answer.catch(() => kept.delete(key));
    return answer;
  };
}
