// The Play page: a game against the computer, which asks the table for each of its moves.

import { askPosition, Problem } from "./api.js";
import { Board } from "./board.js";
import { byId, cellName, copy, count, element, isCalm, listed, Notice, pause, persist, say, tableFacts, tellTable } from "./dom.js";
import { bitsOf, COMPUTER, Game, nameOf, parse, randomPosition, rectangle, same, takes, YOU } from "./rules.js";

// The computer takes its time, so that one sees what it does, and a hasty click finds its turn.
const THINKING_MS = isCalm() ? 60 : 550;
const FIRST_GAME = [4, 6];
/** So many random positions are tried to find one that you can win. */
const ATTEMPTS = 20;
const INTRODUCTION = "Take a square. It goes with everything to the right of it and below. Whoever takes the poison loses.";

const notice = new Notice(byId("notice"));
/** The table, as soon as the server tells of it. */
const tableKnown = persist(new Notice(byId("table-notice")), tableFacts);
const board = new Board(byId("board"), { label: "Board", onMove: (cell) => yourMove(cell), onAim: tellAim });

let game = null;
let hints = false;
/** Counts what the visitor does: an answer that was asked for before the last of it is dropped. */
let turn = 0;
/** The bits of the table, when they are known. */
let tableBits = null;

// --- The game -------------------------------------------------------------------------------------

/** Shows a game, and does what comes next in it. `entry`: "push" or "replace" in the history, or null. */
function set(next, entry = "replace") {
  turn += 1;
  game = next;
  notice.hide();
  byId("verdict").hidden = true;
  const fragment = `#${game.toFragment()}`;
  if (entry === "push" && location.hash !== "" && location.hash !== fragment) history.pushState(null, "", fragment);
  else if (entry !== null) history.replaceState(null, "", fragment);
  draw();
  if (game.turn === COMPUTER && !game.isReplay) computerMoves();
  else if (game.winner !== null && !game.isReplay) judge();
}

function yourMove(cell) {
  if (game.turn === YOU) set(game.play(cell));
}

async function computerMoves() {
  const mine = turn;
  try {
    const [answer] = await Promise.all([answerTo(game.rows), pause(THINKING_MS)]);
    if (mine === turn) set(game.play(answer.reply));
  } catch (error) {
    if (mine === turn) notice.show(asProblem(error), computerMoves);
  }
}

/** What the table says of a position, once there is a table. */
async function answerTo(rows) {
  await tableKnown;
  return askPosition(rows);
}

/** Says where the loser gave the win away. */
async function judge() {
  const mine = turn;
  const place = byId("verdict");
  try {
    const answers = await Promise.all(game.positions.map(answerTo));
    if (mine !== turn) return;
    const index = game.turningPoint(answers);
    place.replaceChildren(...verdict(index, index === null ? [] : answers[index].winning_moves));
    place.hidden = false;
  } catch (error) {
    if (mine === turn) notice.show(asProblem(error), judge);
  }
}

function verdict(index, better) {
  const lostByYou = game.winner === COMPUTER;
  if (index === null) {
    const who = lostByYou ? "you" : "the computer";
    return [`The start was lost for ${who} already: against perfect play nothing could be done.`];
  }
  const who = lostByYou ? "Your" : "The computer’s";
  const winner = lostByYou ? "let the computer win" : "let you win";
  const right = better.map(cellName);
  const instead = right.length === 1 ? `${right[0]} was the winning move.` : `${listed(right)} were the winning moves.`;
  const look = element("button", { type: "button", class: "link", onclick: () => set(game.look(index)) }, "Look at it");
  return [`${who} move ${Math.floor(index / 2) + 1}, ${cellName(game.moves[index])}, ${winner}; ${instead} `, look];
}

// What is no problem of the server is a fault of this page, and is for the console.
function asProblem(error) {
  if (error instanceof Problem) return error;
  throw error;
}

// --- What is shown --------------------------------------------------------------------------------

function draw() {
  const held = byId("board").contains(document.activeElement);
  drawBoard([]);
  document.body.dataset.turn = game.turn ?? "over";
  const [headline, sentence] = told(game.at > 0 ? game.moves[game.at - 1] : null);
  say(byId("turn"), headline);
  say(byId("said"), sentence);
  byId("undo").disabled = game.before === null;
  byId("redo").disabled = game.after === null;
  byId("go-on").disabled = !(game.isReplay && game.turn === COMPUTER);
  drawMoves();
  hint();
  if (held && game.rows.length === 0) byId("new-game").focus({ preventScroll: true });
}

function drawBoard(winning) {
  const isWinning = (cell) => winning.some((move) => same(move, cell));
  board.show(game.start, game.rows, {
    playable: game.turn === YOU,
    last: game.at > 0 ? game.moves[game.at - 1] : null,
    marks: (cell) => (isWinning(cell) ? ["hint", "a winning move"] : null),
  });
}

function told(last) {
  const step = `Step ${game.at} of ${game.moves.length}.`;
  if (game.winner !== null) {
    const loser = game.winner === YOU ? "The computer" : "You";
    return [game.winner === YOU ? "You won" : "The computer won", `${loser} took the poison.`];
  }
  if (game.isReplay) {
    const yours = game.turn === YOU;
    return [yours ? "Your turn" : "The computer’s turn", yours ? `${step} Take a square to play on from here.` : `${step} It took ${cellName(game.moves[game.at])} then.`];
  }
  if (game.turn === COMPUTER) return ["The computer’s turn", last ? `You took ${moveWords(last)}.` : `${nameOf(game.start)}: the computer begins.`];
  return ["Your turn", last ? `The computer took ${moveWords(last)}.` : INTRODUCTION];
}

const moveWords = ([row, column]) =>
  `row ${row}, column ${column}: ${count(takes(game.positions[game.at - 1], [row, column]), "cell")}`;

function drawMoves() {
  const place = byId("moves");
  const held = place.contains(document.activeElement);
  const items = game.positions.map((_, step) => {
    const who = step === 0 ? null : game.mover(step - 1) === YOU ? "You" : "Computer";
    const round = step % 2 === 1 ? `${(step + 1) / 2}. ` : "";
    const label = step === 0 ? `Start: ${nameOf(game.start)}` : `${round}${who} ${cellName(game.moves[step - 1])}`;
    const button = element("button", {
      type: "button",
      "aria-current": step === game.at ? "step" : false,
      onclick: () => set(game.look(step)),
    }, label);
    return element("li", { class: step === 0 && "start" }, button);
  });
  place.replaceChildren(...items);
  const current = place.querySelector("[aria-current]");
  if (held) current.focus();
  const line = current.offsetTop;
  if (line < place.scrollTop || line + current.offsetHeight > place.scrollTop + place.clientHeight) place.scrollTop = line;
  const slider = byId("step");
  slider.max = game.moves.length;
  slider.value = game.at;
  slider.disabled = game.moves.length === 0;
  say(byId("step-of"), `${game.at} of ${game.moves.length}`);
}

function tellAim(aim) {
  const text = aim && `${cellName(aim.move)} takes ${count(aim.takes, "cell")} and leaves ${aim.leaves.length === 0 ? "nothing" : nameOf(aim.leaves)}.`;
  say(byId("aim"), text ?? "");
}

// --- Hints ----------------------------------------------------------------------------------------

async function hint() {
  const place = byId("hint");
  if (!hints) return say(place, "Hints show every winning move.");
  if (game.rows.length === 0) return say(place, "The game is over.");
  const mine = turn;
  try {
    const { winning_moves: winning } = await answerTo(game.rows);
    if (mine !== turn || !hints) return;
    if (winning.length > 0) drawBoard(winning);
    say(place, hintWords(winning.map(cellName)));
  } catch (error) {
    if (mine !== turn) return;
    say(place, "The hints are not known now.");
    if (game.turn !== COMPUTER) notice.show(asProblem(error), hint);
  }
}

function hintWords(winning) {
  const whose = game.turn === YOU ? "" : " for the computer";
  if (winning.length === 0) return `No winning move${whose}: whatever is taken, the other player can win.`;
  return `${count(winning.length, "winning move")}${whose}: ${listed(winning)}.`;
}

// --- New games ------------------------------------------------------------------------------------

const chosen = (name) => byId("setup").elements[name].value;
const sides = () => [Number(byId("rows").value), Number(byId("columns").value)];

async function newGame() {
  const first = chosen("first");
  const mine = (turn += 1);
  wrong("");
  let start;
  try {
    if (chosen("kind") === "full") start = rectangle(...sides());
    else if (chosen("kind") === "typed") start = typed();
    else start = await random(first);
  } catch (error) {
    if (error instanceof RangeError) return wrong(error.message);
    if (mine === turn) notice.show(asProblem(error), newGame);
    return;
  }
  if (mine === turn) set(new Game(start, first), "push");
}

/** What is typed. Throws a RangeError that says what is wrong with it. */
function typed() {
  const rows = parse(byId("typed").value);
  if (rows.length === 0) throw new RangeError("A game starts with one cell at least.");
  covered(rows);
  return rows;
}

/** A random position; one that you can win, if that was asked for. */
async function random(first) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const rows = randomPosition(...sides());
    if (!byId("winnable").checked) return rows;
    // Whoever begins in a winning position can win. The computer is to begin in a losing one: what
    // a winning move leaves, since losing positions are seldom met by chance.
    const answer = await answerTo(rows);
    if (answer.losing === (first === COMPUTER)) return rows;
    if (first === COMPUTER) return pick(answer.losing_positions);
  }
  throw new RangeError("No position of this size was found that you can win: take more rows or columns.");
}

const pick = (list) => list[Math.floor(Math.random() * list.length)];

function covered(rows) {
  if (tableBits === null || bitsOf(rows) <= tableBits) return;
  throw new RangeError(`This position has ${bitsOf(rows)} bits (first row + number of rows). The table here has ${tableBits}.`);
}

function wrong(text) {
  say(byId("wrong"), text);
  byId("typed").setAttribute("aria-invalid", String(text !== ""));
  if (text !== "" && chosen("kind") === "typed") byId("typed").focus();
}

/** Keeps rows + columns within the table: what was not moved gives way. */
function fitSides(moved) {
  const most = (tableBits ?? 16) - 1;
  const other = moved === "rows" ? "columns" : "rows";
  for (const side of ["rows", "columns"]) byId(side).max = most;
  byId(other).value = Math.min(Number(byId(other).value), most + 1 - Number(byId(moved).value));
  for (const side of ["rows", "columns"]) say(byId(`${side}-out`), byId(side).value);
}

function showKind() {
  const kind = chosen("kind");
  byId("sides").hidden = kind === "typed";
  byId("typed-part").hidden = kind !== "typed";
  byId("winnable-label").hidden = kind !== "random";
  wrong("");
}

// --- The start ------------------------------------------------------------------------------------

/** The game in the address; a first one if there is none. */
function fromAddress() {
  if (location.hash.length > 1) {
    try {
      const linked = Game.fromFragment(location.hash.slice(1));
      covered(linked.start);
      return set(linked, null);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      firstGame();
      return notice.tell(`This link holds no game that can be played here. ${error.message}`);
    }
  }
  return firstGame();
}

function firstGame() {
  const half = Math.floor((tableBits ?? 16) / 2);
  set(new Game(rectangle(Math.min(FIRST_GAME[0], half), Math.min(FIRST_GAME[1], half)), YOU));
}

byId("undo").addEventListener("click", () => set(game.look(game.before)));
byId("redo").addEventListener("click", () => set(game.look(game.after)));
byId("go-on").addEventListener("click", () => set(new Game(game.start, game.first, game.moves.slice(0, game.at))));
byId("step").addEventListener("input", (event) => set(game.look(Number(event.target.value))));
byId("link").addEventListener("click", (event) => copy(event.currentTarget, location.href));
byId("hints").addEventListener("click", (event) => {
  hints = !hints;
  event.currentTarget.setAttribute("aria-pressed", String(hints));
  drawBoard([]);
  hint();
});
byId("setup").addEventListener("submit", (event) => {
  event.preventDefault();
  newGame();
});
for (const radio of byId("setup").elements.kind) radio.addEventListener("change", showKind);
for (const side of ["rows", "columns"]) byId(side).addEventListener("input", () => fitSides(side));
addEventListener("popstate", fromAddress);

showKind();
fitSides("rows");
fromAddress();
const table = await tableKnown;
tableBits = table.bits;
tellTable(table);
fitSides("rows");
say(byId("limits"), `The table knows every position with rows + columns up to ${tableBits}.`);
if (bitsOf(game.start) > tableBits) fromAddress();
