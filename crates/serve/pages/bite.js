// The One bite page: a bar whose winning bite has to be found, why there is one, and where it is on every bar.

import { askOpenings, askPosition } from "./api.js";
import { Board, CHOMP_BOARD, skull } from "./board.js";
import { byId, cellName, copy, count, drawn, element, listed, Notice, pause, persist, say, tableFacts, tellTable } from "./dom.js";
import { drawMap, withMirrors } from "./map.js";
import { has, movesOf, nameOf, rectangle, same, take, takes } from "./rules.js";
import { SOLVED_BITS, valueOf } from "./solve.js";

/** @typedef {import("./rules.js").Move} Move */
/** @typedef {{ rows: number, columns: number, day: number | null }} Bar a bar, and the day that has it, if one has */
/** @typedef {{ bite: Move, reply: Move | null, wins: boolean }} Try a bite; the winning reply, unless there is none */

const DAY_MS = 86_400_000;
/** Smaller bars are solved by trying all, square ones and those of two rows by a rule. */
const SQUARES_MIN = 20;
const [SIDE_MIN, SIDE_MAX, SIDES_MAX] = [3, 11, 20];
/** How long a wrong bite is looked at, and the reply to it. */
const [BITE_MS, REPLY_MS, STEP_MS] = [700, 2_200, 2_600];
const [MISS, HIT] = ["🟫", "🍫"];

const notice = new Notice(byId("notice"));
const LAYOUT = { ...CHOMP_BOARD, words: (rows, square) => CHOMP_BOARD.words(rows, square).replace("cell", "square") };
const board = new Board(byId("board"), { label: "The bar", layout: LAYOUT, onMove: bite, onAim: tellAim });

/** @type {Bar} */
let bar;
/** @type {Try[]} */
let tries = [];
/** Counts the bars that were shown: an answer about an earlier one is dropped. */
let shown = 0;
/** False while a bite waits for its answer or is shown. */
let isAnswered = true;
/** @type {any[]} */
let openings = [];
/** The bars whose winning bite the map keeps to itself. @type {Bar[]} */
let secrets = [];
/** Whether the map shows values. */
let isValued = false;

// --- The bars -------------------------------------------------------------------------------------

const sizes = Array.from({ length: SIDE_MAX + 1 }, (_, side) => side).slice(SIDE_MIN);
/** The bars of days, each as long as it is high or longer. */
const BARS = sizes.flatMap((rows) =>
  sizes.filter((columns) => columns > rows && rows + columns <= SIDES_MAX && rows * columns >= SQUARES_MIN).map((columns) => [rows, columns]));

const today = () => Math.floor(Date.now() / DAY_MS);

/**
 * Numbers below 1 that look random, and are the same for the same seed everywhere.
 * @param {number} seed
 */
function numbersOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * The bar of a day. Each comes once before any comes again, in an order that is another one each time.
 * @param {number} day
 * @returns {Bar}
 */
function barOf(day) {
  const random = numbersOf(Math.floor(day / BARS.length));
  const order = BARS.map((sides) => ({ sides, key: random(), isTurned: random() < 0.5 })).sort((a, b) => a.key - b.key);
  const { sides, isTurned } = order[day % BARS.length];
  const [rows, columns] = isTurned ? sides.toReversed() : sides;
  return { rows, columns, day };
}

const isSame = (a, b) => a.rows === b.rows && a.columns === b.columns;
const isMirror = (a, b) => a.rows === b.columns && a.columns === b.rows;
const startOf = ({ rows, columns }) => rectangle(rows, columns);
const nameOfBar = (one) => nameOf(startOf(one));
const textOfBar = ({ rows, columns }) => `${rows}x${columns}`;

const DATE = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeZone: "UTC" });
const dateOf = (day) => DATE.format(day * DAY_MS);

/** Another bar, of those that the table here has. */
function anotherBar(most) {
  const sides = BARS.filter(([rows, columns]) => rows + columns <= most && rows * columns !== bar.rows * bar.columns);
  const [rows, columns] = sides[Math.floor(Math.random() * sides.length)] ?? [2, 3];
  return Math.random() < 0.5 ? { rows, columns } : { rows: columns, columns: rows };
}

/** The bar in the address: that of a link, that of a day, or that of today. */
function fromAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const day = fields.get("day");
  const ofDay = barOf(day !== null && /^\d{1,6}$/.test(day) ? Number(day) : today());
  const [, rows, columns] = (/^(\d{1,2})x(\d{1,2})$/.exec(fields.get("board") ?? "") ?? []).map(Number);
  const linked = { rows, columns, day: null };
  const isBar = rows >= 1 && columns >= 1 && rows + columns >= 3 && rows + columns <= SIDES_MAX;
  show(isBar && !isSame(linked, ofDay) ? linked : ofDay);
  if (fields.has("board") && !isBar) notice.tell("This link holds no bar that can be bitten here, so this is today’s.");
}

/** Shows a bar, with the bites that were tried if it is the one of the day. */
function show(next) {
  shown += 1;
  bar = next;
  tries = bar.day === null ? [] : stored(bar);
  isAnswered = true;
  notice.hide();
  say(byId("bar-title"), `${bar.day === null ? "A bar" : bar.day === today() ? `Today’s bar, ${dateOf(bar.day)}` : `The bar of ${dateOf(bar.day)}`}: ${nameOfBar(bar)}`);
  byId("today").disabled = bar.day === today();
  tellState();
  draw();
  showMap();
}

// --- What is kept ---------------------------------------------------------------------------------

const keyOf = (one) => `chomp-bite-${one.day}-${textOfBar(one)}`;

/** The bites that were tried on the bar of a day, if the browser keeps them. */
function stored(one) {
  try {
    const kept = JSON.parse(localStorage.getItem(keyOf(one)) ?? "[]");
    const isMove = (move) => move.length === 2 && move.every(Number.isInteger) && has(startOf(one), move);
    const isTry = ({ bite: bitten, reply, wins }) => isMove(bitten) && (reply === null || isMove(reply)) && typeof wins === "boolean";
    return kept.every(isTry) ? kept : [];
  } catch {
    // Nothing is kept for this page, or something else has written there.
    return [];
  }
}

function store() {
  if (bar.day === null) return;
  try {
    localStorage.setItem(keyOf(bar), JSON.stringify(tries));
  } catch {
    // Then the bites last as long as the page.
  }
}

// --- Bites ----------------------------------------------------------------------------------------

const found = () => tries.find(({ wins }) => wins)?.bite ?? null;
const misses = () => tries.filter(({ wins }) => !wins);
const leaves = (rows) => (rows.length === 1 && rows[0] === 1 ? "the poison alone" : nameOf(rows).includes("×") ? nameOf(rows) : `rows of ${nameOf(rows)}`);

/** @param {Move} move */
async function bite(move) {
  const mine = shown;
  const start = startOf(bar);
  const left = take(start, move);
  const held = byId("board").contains(document.activeElement);
  isAnswered = false;
  notice.hide();
  draw(left, move, start);
  try {
    const [answer] = await Promise.all([askPosition(left), pause(BITE_MS)]);
    if (mine !== shown) return;
    const { losing, reply } = answer;
    tries.push({ bite: move, reply: losing ? null : reply, wins: losing });
    store();
    tellState();
    if (!losing && reply !== null) {
      draw(take(left, reply), reply, left);
      await pause(REPLY_MS);
      if (mine !== shown) return;
    }
  } catch (error) {
    if (mine !== shown) return;
    notice.show(error, () => bite(move));
    isAnswered = true;
    return draw();
  }
  isAnswered = true;
  draw();
  if (found()) showMap();
  // A square that was gone has lost the focus.
  if (held && found()) byId("copy").focus({ preventScroll: true });
  else if (held) squareOf(move).focus({ preventScroll: true });
}

/** @param {Move} move */
const squareOf = ([row, column]) => /** @type {HTMLElement} */ (byId("board").querySelector(`[data-row="${row}"][data-column="${column}"]`));

// --- What is shown --------------------------------------------------------------------------------

/**
 * Shows the bar, or the position that a bite or a reply has left of it, and the one before.
 * @param {number[] | null} position
 * @param {Move | null} last
 * @param {number[] | null} before
 */
function draw(position = null, last = null, before = null) {
  const start = startOf(bar);
  const hit = found();
  const rows = position ?? (hit ? take(start, hit) : start);
  const isBroken = (square) => misses().some((one) => same(one.bite, square));
  board.show(start, rows, {
    moves: hit || !isAnswered ? [] : movesOf(start).filter((move) => !isBroken(move)),
    last: last ?? hit,
    before: before ?? start,
    face: (square) => (isBroken(square) ? { kind: "cracked", draw: same(square, [1, 1]) ? skull : crack, words: "cracked, no winning bite" } : null),
  });
  byId("main").dataset.shown = position === null ? (hit ? "win" : "bar") : String(before) === String(start) ? "bite" : "reply";
  drawTries();
}

const crack = () => drawn("svg", { viewBox: "0 0 24 24", class: "crack", "aria-hidden": "true" }, drawn("path", { d: "M13 0 10 6l4 4-5 4 3 5-2 5M14 10l6 2 4-2M9 14l-5-1-4 3" }));

function drawTries() {
  byId("no-bites").hidden = tries.length > 0;
  byId("share").hidden = !found();
  say(byId("share-text"), found() ? shareText() : "");
  const start = startOf(bar);
  byId("bites").replaceChildren(...tries.map(({ bite: bitten, reply, wins }) => {
    const outcome = wins ? "wins" : reply ? `loses to ${cellName(reply)}` : "is the poison";
    return element("li", { class: wins && "hit" }, pictureOf(start, { bite: bitten, reply }), element("strong", {}, cellName(bitten)), ` ${outcome}`);
  }));
}

function tellState() {
  const last = tries.at(-1);
  const [headline, sentence] = last ? toldOf(last) : ["Find the winning bite", "A bite takes a square with everything to the right of it and below."];
  say(byId("turn"), headline);
  say(byId("said"), sentence);
}

/** @param {Try} last */
function toldOf({ bite: bitten, reply, wins }) {
  const left = take(startOf(bar), bitten);
  if (wins) return ["That is the bite!", `${cellName(bitten)} wins, found with ${count(tries.length, "bite")}. It leaves ${leaves(left)}, and no bite wins from there.`];
  if (reply === null) return ["That is the poison", "Whoever takes it loses. Try another square."];
  return ["Not this one", `${cellName(bitten)} loses to the reply ${cellName(reply)}. That leaves ${leaves(take(left, reply))}, and no bite wins from there.`];
}

/** @param {Move | null} move */
function tellAim(move) {
  const start = startOf(bar);
  say(byId("aim"), move === null ? "" : `${cellName(move)} takes ${count(takes(start, move), "square")} and leaves ${CHOMP_BOARD.leaves(start, move)}.`);
}

function shareText() {
  const link = new URL(`#board=${textOfBar(bar)}`, location.href);
  return `One bite ${nameOfBar(bar)}, ${count(tries.length, "bite")}\n${MISS.repeat(misses().length)}${HIT}\n${link}`;
}

/** A small picture of a bar, which no screen reader reads. */
function pictureOf(start, marked) {
  const svg = drawn("svg", { viewBox: `0 0 ${start[0]} ${start.length}`, class: "bar", "aria-hidden": "true" });
  svg.style.setProperty("--columns", start[0]);
  svg.append(...movesOf(start).map(([row, column]) => drawn("rect", { x: column - 0.95, y: row - 0.95, width: 0.9, height: 0.9, rx: 0.12 })));
  const poison = skull();
  for (const [name, value] of Object.entries({ x: 0.2, y: 0.2, width: 0.6, height: 0.6 })) poison.setAttribute(name, String(value));
  svg.append(poison);
  paint(svg, start, marked);
  return svg;
}

/**
 * Marks the squares of a picture: a bite, the reply to it, what they take, and winning bites.
 * @param {any} svg
 * @param {number[]} start
 * @param {{ bite?: Move | null, reply?: Move | null, wins?: Move[] }} marked
 */
function paint(svg, start, { bite: bitten = null, reply = null, wins = [] }) {
  const left = bitten ? take(start, bitten) : start;
  const last = reply ? take(left, reply) : left;
  movesOf(start).forEach((square, index) => {
    const is = (move) => move !== null && same(move, square);
    const kinds = [
      same(square, [1, 1]) && "poison",
      !has(left, square) ? "bite" : !has(last, square) && "reply",
      (is(bitten) || is(reply)) && "corner",
      wins.some(is) && "wins",
    ];
    svg.children[index].setAttribute("class", kinds.filter(Boolean).join(" "));
  });
}

// --- Why there is one -----------------------------------------------------------------------------

const EXAMPLE = rectangle(3, 4);
/** The far corner of the example, and the reply to it. @type {[Move, Move]} */
const [CORNER, REPLY] = [[3, 4], [2, 3]];
/** The steps: an action, its reason, its picture, and that in words. @type {[string, string, object, string][]} */
const STEPS = [
  ["Bite off the far corner, nothing else.", "If that wins, you have your winning bite, and that is all.", { bite: CORNER }, "only the far corner is gone."],
  ["If it loses, some reply wins.", "Wherever the reply is, it takes everything to the right of it and below, so it would have taken the far corner too.", { bite: CORNER, reply: REPLY }, "the far corner is gone, and the reply (2, 3) takes three squares more."],
  ["Then bite there yourself.", "What is left is the same as after the reply, and now it is the other player who has to go on from it, and loses.", { bite: REPLY }, "the first bite (2, 3) takes all four squares at once."],
];

function showSteps() {
  const svg = pictureOf(EXAMPLE, {});
  svg.removeAttribute("aria-hidden");
  svg.setAttribute("role", "img");
  byId("why-picture").replaceChildren(svg);
  const buttons = STEPS.map(([title], index) => element("button", { type: "button", onclick: () => go(index) }, title));
  byId("why-steps").replaceChildren(...STEPS.map(([, reason], index) => element("li", {}, buttons[index], element("p", {}, reason))));
  let running = 0;
  const look = (index) => {
    paint(svg, EXAMPLE, STEPS[index][2]);
    svg.setAttribute("aria-label", `A bar of 3 × 4: ${STEPS[index][3]}`);
    for (const [at, button] of buttons.entries()) {
      if (at === index) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    }
  };
  const go = (index) => {
    running += 1;
    look(index);
  };
  byId("why-run").addEventListener("click", async () => {
    const mine = (running += 1);
    for (const index of STEPS.keys()) {
      look(index);
      await pause(STEP_MS);
      if (mine !== running) return;
    }
  });
  look(0);
}

// --- The map --------------------------------------------------------------------------------------

/** Whether the winning bite of a bar is still looked for: it is that of the mirror image too. */
const isSecret = (one) => secrets.some((secret) => isSame(secret, one) || isMirror(secret, one));

function showMap() {
  if (openings.length === 0) return;
  const daily = barOf(today());
  const isDaily = bar.day === daily.day;
  const isOpen = (of) => !of.some(({ wins }) => wins);
  secrets = [...(isOpen(tries) ? [bar] : []), ...(!isDaily && isOpen(stored(daily)) ? [daily] : [])];
  const mark = drawMap(byId("map"), withMirrors(openings), { label: "Bars, by rows and columns", onLook: lookAt, onChoose: lookAt });
  for (const opening of withMirrors(openings)) {
    if (!isSecret(opening)) continue;
    const { rows, columns } = opening;
    const button = byId("map").querySelector(`[data-rows="${rows}"][data-columns="${columns}"]`);
    button.className = "secret";
    button.textContent = "?";
    delete button.dataset.moves;
    button.setAttribute("aria-label", wordsOf(opening));
  }
  if (isValued) showValues();
  mark(bar.rows, bar.columns);
  lookAt(withMirrors(openings).find((opening) => isSame(opening, bar)) ?? openings[0]);
}

/** Writes its Grundy value on each bar that is not too large to be solved here. */
function showValues() {
  const small = withMirrors(openings).filter(({ rows, columns }) => rows + columns <= SOLVED_BITS);
  for (const { rows, columns } of small) {
    const button = byId("map").querySelector(`[data-rows="${rows}"][data-columns="${columns}"]`);
    button.textContent = String(valueOf(startOf({ rows, columns })));
    button.classList.add("valued");
  }
}

const valueWords = (one) => (isValued && one.rows + one.columns <= SOLVED_BITS ? ` Its Grundy value is ${valueOf(startOf(one))}.` : "");

function wordsOf(opening) {
  if (isSecret(opening)) return `${nameOfBar(opening)}: ${isSame(opening, bar) ? "you are here" : "a bar to solve"}, and the bite is yours to find.`;
  if (opening.moves.length === 0) return `${nameOfBar(opening)}: only the poison is there.`;
  return `${nameOfBar(opening)}: ${count(opening.moves.length, "winning bite")}, ${listed(opening.moves.map(cellName))}.`;
}

function lookAt(opening) {
  byId("map-picture").replaceChildren(pictureOf(startOf(opening), { wins: isSecret(opening) ? [] : opening.moves }));
  say(byId("map-told"), wordsOf(opening) + valueWords(opening));
}

// --- The start ------------------------------------------------------------------------------------

/** Goes to another bar, as a place of its own in the history. @param {string} to */
function open(to) {
  history.pushState(null, "", to);
  fromAddress();
}

let bitsMax = SIDES_MAX;
byId("another").addEventListener("click", () => open(`#board=${textOfBar(anotherBar(bitsMax))}`));
byId("today").addEventListener("click", () => open(location.pathname));
byId("values").addEventListener("click", () => {
  isValued = !isValued;
  byId("values").setAttribute("aria-pressed", String(isValued));
  showMap();
});
byId("copy").addEventListener("click", () => copy(byId("copy"), shareText()));
byId("send").hidden = !navigator.share;
// A visitor who thinks better of it has done nothing wrong.
byId("send").addEventListener("click", () => navigator.share({ text: shareText() }).catch(() => {}));
// The link to the page's middle leaves the bar as it is.
addEventListener("popstate", () => location.hash === "#main" || fromAddress());
// A page that was left open overnight has the bar of yesterday.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && location.hash === "" && bar.day !== today()) fromAddress();
});

fromAddress();
showSteps();
const tableNotice = new Notice(byId("table-notice"));
const table = await persist(tableNotice, tableFacts);
bitsMax = Math.min(SIDES_MAX, table.bits);
tellTable(table);
// Bars of boxes are longer than the map.
openings = (await persist(tableNotice, askOpenings)).filter(({ rows, columns }) => rows + columns <= table.bits);
showMap();
