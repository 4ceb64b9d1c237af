// The questions of the pages about a table, answered by the server, or, where there are only files, from these.

import { address, ask, keeper } from "./net.js";
import { textOf } from "./rules.js";

export { address, ask, Problem, problemOf } from "./net.js";

const ANSWERS_MAX = 4_096;

/** Reads the files; null if there is a server. */
const files = document.querySelector('meta[name="chomp-files"]') ? await import("./lookup.js") : null;

/** Whether the bytes of the table are compared with their digests on this device; null if a server reads them. */
export const isChecked = files?.isChecked ?? null;

/**
 * Where a page is: "play", "explore".
 * @param {string} name
 */
export const pageAddress = (name) => address(files ? `${name}.html` : name).href;

/** The answer about a position never changes. */
const askOnce = keeper(ANSWERS_MAX, (path, question = ask) => question(path));

/** The size of the table, its counts and its fingerprint. */
export const askTable = () => ask(files ? "data/table.json" : "api/table");

/** The winning first moves of every board that the table covers. */
export const askOpenings = () => ask(files ? "data/openings.json" : "api/openings");

/** How many losing positions there are; the server may still be counting them by cells. */
export const askCounts = () => ask(files ? "data/counts.json" : "api/counts");

/** The answer of the table about a position. */
export const askPosition = (rows) => askOnce(`/api/position/${textOf(rows)}`, files ? () => files.position(rows) : ask);

/** Whether there is a table of Grundy values to ask. */
export const hasValues = async () => !files && (await ask("/")).some(({ tiles }) => tiles);

/** The Grundy value of a position, and the moves to each smaller one. */
export const askValue = (rows) => askOnce(`/api/value/${textOf(rows)}`);

/** The answer about a position of a small game; or about its losing positions, as `losing/20`. */
export const askGame = (game, text) => askOnce(`/api/games/${game}/${text}`);
