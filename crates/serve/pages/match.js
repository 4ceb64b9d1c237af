// A game against the computer, whichever it is: played, taken back, looked at, linked to, and judged.

import { Problem } from "./api.js";
import { Board } from "./board.js";
import { byId, copy, count, element, listed, Notice, pause, say, sentence } from "./dom.js";
import { COMPUTER, fieldsOf, Game, YOU } from "./record.js";
import { same } from "./rules.js";

// The computer takes its time, so that one sees both moves, and a hasty click finds its turn.
const THINKING_MS = 550;
/** So many random positions are tried to find one that you can win. */
const ATTEMPTS = 20;
/** How often a computer that makes mistakes takes any move. */
const MISTAKES = 1 / 3;

const notice = new Notice(byId("notice"));

/**
 * What is played, besides what the record of a game has to know:
 *
 * `layout`: of the board; `introduction`, `form`: texts; `name(position)`: what people call a position, and `called(move)` a
 * move; `goal(start)`: who wins;
 * `parse(text)`: a promise of the position that was typed or linked to, and of all that `follow` needs for `moves`;
 * `full()`, `random()`: starts; `ask(position)`: a promise of what is known; `known(position)`: the same if it is there, or
 * what is enough for a move to be made; `movesOf(position)`: all moves; `ending(winner, loser)`: how it ended;
 * `replies(answer, position)`: moves as good as the reply that was answered;
 * `took(before, move)`: what a move did; `aimed(position, move)`: what it would do; `face(game, square)`: what else is on a
 * square; `onShow(game)`: shows more of a position; `drawn(positions)`: the start that the board is built of.
 * @type {any}
 */
let play = null;
/** The fields that are set before anybody can play. @type {Board} */
let board;
/** @type {Game} */
let game;
/**
 * The moves of a game that is over, the index of the one that gave the win away, and those that would have won.
 * @type {{ moves: any[], index: number | null, better: any[] } | null}
 */
let judged = null;
let hints = false;
/** Whether the focus is on the board, or was until its square was taken. */
let held = false;
/** Counts what the visitor does: an answer that was asked for before the last of it is dropped. */
let turn = 0;

// --- The game -------------------------------------------------------------------------------------

/**
 * Shows a game, and does what comes next in it. `entry`: "push" or "replace" in the history, or null.
 * @param {Game} next
 * @param {string | null} entry
 */
function set(next, entry = "replace") {
  turn += 1;
  game = next;
  notice.hide();
  const fragment = `#${game.toFragment()}`;
  if (entry === "push" && location.hash !== "" && location.hash !== fragment) history.pushState(null, "", fragment);
  else if (entry !== null) history.replaceState(null, "", fragment);
  draw();
  goOn();
}

/** The step that comes next without the visitor. */
async function goOn() {
  const mine = turn;
  try {
    if (!play.known(game.position)) {
      await play.ask(game.position);
      if (mine !== turn) return;
      draw();
    }
    if (game.result !== null) await judge();
    else if (!game.isReplay && game.turn === COMPUTER) await computerMoves();
  } catch (error) {
    if (mine === turn) notice.show(error, goOn);
  }
}

function yourMove(cell) {
  if (game.turn === YOU) set(game.play(cell));
}

async function computerMoves() {
  const mine = turn;
  const [answer] = await Promise.all([play.ask(game.position), pause(THINKING_MS)]);
  if (mine !== turn) return;
  const isWrong = chosen("strength") === "human" && Math.random() < MISTAKES;
  set(game.play(pick(isWrong ? play.movesOf(game.position) : replies(answer))));
}

/** The moves that a perfect player draws from. */
function replies(answer) {
  const equal = play.replies?.(answer, game.position) ?? answer.winning_moves;
  return equal.length > 0 ? equal : [answer.reply];
}

/** Says where the loser gave the win away. */
async function judge() {
  if (judged?.moves === game.moves) return;
  const mine = turn;
  const answers = await Promise.all(game.positions.map(play.ask));
  if (mine !== turn) return;
  const index = game.turningPoint(answers);
  judged = { moves: game.moves, index, better: index === null ? [] : answers[index].winning_moves };
  byId("verdict").replaceChildren(...verdict(judged));
  draw();
}

function verdict({ index, better }) {
  const lostByYou = game.result === COMPUTER;
  if (index === null && lostByYou) return ["The start was lost for you already: against perfect play nothing could be done."];
  if (index === null) {
    const yours = game.moves.filter((_, move) => game.mover(move) === YOU).length;
    return [yours === 1 ? "Perfect! Your move was the winning one." : `Perfect! Each of your ${yours} moves was a winning one.`];
  }
  const who = lostByYou ? "Your" : "The computer’s";
  const winner = lostByYou ? "let the computer win" : "let you win";
  const right = better.map(play.called);
  const instead = `${listed(right)} ${right.length === 1 ? "was the winning move" : "were the winning moves"}.`;
  const look = element("button", { type: "button", class: "link", onclick: () => set(game.look(index)) }, "Look at it");
  return [`${who} move ${Math.floor(index / 2) + 1}, ${play.called(game.moves[index])}, ${winner}; ${instead} `, look];
}

// --- What is shown --------------------------------------------------------------------------------

function draw() {
  // The square that had the focus may be gone before it is known that the game is over.
  const focused = document.activeElement;
  held = byId("board").contains(focused) || (held && focused === document.body);
  drawBoard([]);
  document.body.dataset.turn = game.turn ?? "over";
  const [headline, words] = told(game.at > 0 ? game.moves[game.at - 1] : null);
  say(byId("goal"), play.goal(game.start));
  showEnding();
  say(byId("turn"), headline);
  say(byId("said"), words);
  byId("undo").disabled = game.before === null;
  byId("redo").disabled = game.after === null;
  byId("go-on").disabled = !(game.isReplay && game.turn === COMPUTER);
  drawMoves();
  hint();
  play.onShow?.(game);
  if (held && game.turn === null) byId("again").focus({ preventScroll: true });
}

function showEnding() {
  const mistake = judged?.moves === game.moves ? judged.index : null;
  byId("ending").hidden = game.result === null;
  byId("verdict").hidden = judged?.moves !== game.moves;
  byId("retry").hidden = mistake === null || game.result === YOU;
}

/** The mistake that decided the game, if the step that is looked at is the one before it. */
const mistakeHere = () => (judged?.moves === game.moves && judged.index === game.at ? { move: game.moves[game.at], better: judged.better } : null);

function drawBoard(winning) {
  const mistake = mistakeHere();
  const isAmong = (moves, square) => moves.some((move) => same(move, square));
  board.show(play.drawn?.(game.positions) ?? game.start, game.position, {
    moves: game.turn === YOU && play.known(game.position) ? play.movesOf(game.position) : [],
    last: game.at > 0 ? game.moves[game.at - 1] : null,
    before: game.positions[Math.max(0, game.at - 1)],
    marks: (square) => (
      isAmong(mistake?.better ?? winning, square) ? ["hint", "a winning move"]
        : mistake && same(mistake.move, square) ? ["mistake", "the move that lost"] : null
    ),
    face: (square) => play.face?.(game, square),
  });
}

function told(last) {
  const step = `Step ${game.at} of ${game.moves.length}.`;
  if (game.winner !== null) {
    const [winner, loser] = game.winner === YOU ? ["You", "The computer"] : ["The computer", "You"];
    return [`${winner} won`, play.ending(winner, loser)];
  }
  if (game.isReplay) {
    const yours = game.turn === YOU;
    const mistake = mistakeHere();
    if (mistake) {
      const lost = `${step} ${sentence(`${play.called(mistake.move)} gave the win away; ${listed(mistake.better.map(play.called))} would have won`)}`;
      return [yours ? "Your turn" : "The computer’s turn", yours ? `${lost} Make a move to play on from here.` : lost];
    }
    return [yours ? "Your turn" : "The computer’s turn", yours ? `${step} Make a move to play on from here.` : `${step} It made the move ${play.called(game.moves[game.at])} then.`];
  }
  if (game.turn === COMPUTER) return ["The computer’s turn", last ? `You ${moveWords(last)}.` : `${play.name(game.start)}: the computer begins.`];
  return ["Your turn", last ? `The computer ${moveWords(last)}.` : play.introduction];
}

const moveWords = (move) => play.took(game.positions[game.at - 1], move);

function drawMoves() {
  const place = byId("moves");
  const isHeld = place.contains(document.activeElement);
  const items = game.positions.map((_, step) => {
    const who = step === 0 ? null : game.mover(step - 1) === YOU ? "You" : "Computer";
    const round = step % 2 === 1 ? `${(step + 1) / 2}. ` : "";
    const label = step === 0 ? `Start: ${play.name(game.start)}` : `${round}${who} ${play.called(game.moves[step - 1])}`;
    const button = element("button", {
      type: "button",
      "aria-current": step === game.at ? "step" : false,
      onclick: () => set(game.look(step)),
    }, label);
    return element("li", { class: step === 0 && "start" }, button);
  });
  place.replaceChildren(...items);
  const current = place.querySelector("[aria-current]");
  if (isHeld) current.focus();
  const line = current.offsetTop;
  if (line < place.scrollTop || line + current.offsetHeight > place.scrollTop + place.clientHeight) place.scrollTop = line;
  const slider = byId("step");
  slider.max = game.moves.length;
  slider.value = game.at;
  slider.disabled = game.moves.length === 0;
  say(byId("step-of"), `${game.at} of ${game.moves.length}`);
}

function tellAim(move) {
  say(byId("aim"), move === null ? "" : play.aimed(game.position, move));
}

// --- Hints ----------------------------------------------------------------------------------------

async function hint() {
  const place = byId("hint");
  // Until there is an answer, it speaks of the position before.
  place.removeAttribute("aria-busy");
  if (!hints) return say(place, "Hints show every winning move that is known.");
  if (game.turn === null) return say(place, "The game is over.");
  const mine = turn;
  place.setAttribute("aria-busy", "true");
  try {
    const { winning_moves: winning } = await play.ask(game.position);
    if (mine !== turn || !hints) return;
    if (winning.length > 0) drawBoard(winning);
    place.removeAttribute("aria-busy");
    say(place, hintWords(winning.map(play.called)));
  } catch (error) {
    if (mine !== turn) return;
    place.removeAttribute("aria-busy");
    say(place, "The hints are not known now.");
    if (game.turn !== COMPUTER) notice.show(error, hint);
  }
}

function hintWords(winning) {
  const whose = game.turn === YOU ? "" : " for the computer";
  if (winning.length === 0) return `No winning move${whose}: whatever is taken, the other player can win.`;
  return `${count(winning.length, "winning move")}${whose}: ${listed(winning)}.`;
}

// --- New games ------------------------------------------------------------------------------------

const chosen = (name) => byId("setup").elements[name].value;

async function newGame() {
  const first = chosen("first");
  const mine = (turn += 1);
  wrong("");
  let start;
  try {
    if (chosen("kind") === "full") start = await play.full();
    else if (chosen("kind") === "typed") start = await play.parse(byId("typed").value);
    else start = await random(first);
  } catch (error) {
    if (mine !== turn) return;
    if (isWrong(error)) wrong(error.message);
    else notice.show(error, newGame);
    return;
  }
  if (mine === turn) set(new Game(play, start, first), "push");
}

/**
 * Whether the visitor has to write something else.
 * @returns {error is Error}
 */
const isWrong = (error) => error instanceof RangeError || (error instanceof Problem && error.kind === "refused");

/** A random position; one that you can win, if that was asked for. */
async function random(first) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const proposed = play.random();
    const answer = await play.ask(proposed);
    // The server may write it in another way.
    const position = answer.position ?? proposed;
    if (answer.over) continue;
    if (!byId("winnable").checked) return position;
    // The player who begins in a winning position can win. The computer is to begin in a losing one:
    // one that a winning move leaves, since losing positions are seldom met by chance.
    if (answer.losing === (first === COMPUTER)) return position;
    if (first !== COMPUTER) continue;
    const left = play.follow(position, pick(answer.winning_moves));
    if (!(await play.ask(left)).over) return left;
  }
  throw new RangeError("No position of this kind was found that you can win: try again, or another kind.");
}

const pick = (list) => list[Math.floor(Math.random() * list.length)];

function wrong(text) {
  say(byId("wrong"), text);
  byId("typed").setAttribute("aria-invalid", String(text !== ""));
  if (text !== "" && chosen("kind") === "typed") byId("typed").focus();
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
async function fromAddress() {
  const mine = (turn += 1);
  try {
    /** @type {Game | null} */
    let linked = null;
    if (location.hash.length > 1) {
      const { start, first, moves, at } = fieldsOf(location.hash.slice(1));
      linked = new Game(play, await play.parse(start, moves), first, moves, at);
    }
    const next = linked ?? new Game(play, await play.full(), YOU);
    if (mine === turn) set(next, linked ? null : "replace");
  } catch (error) {
    if (mine !== turn) return;
    if (!isWrong(error)) return notice.show(error, fromAddress);
    history.replaceState(null, "", location.pathname);
    await fromAddress();
    notice.tell(`This link holds no game that can be played here. ${error.message}`);
  }
}

/** Plays it on this page. Gives what else the page may do. */
export function begin(what) {
  play = what;
  say(byId("form"), play.form);
  board = new Board(byId("board"), { label: "Board", layout: play.layout, onMove: yourMove, onAim: tellAim });
  byId("undo").addEventListener("click", () => set(game.look(game.before)));
  byId("redo").addEventListener("click", () => set(game.look(game.after)));
  byId("again").addEventListener("click", () => set(new Game(play, game.start, game.first), "push"));
  byId("retry").addEventListener("click", () => set(new Game(play, game.start, game.first, game.moves.slice(0, judged?.index ?? 0)), "push"));
  byId("go-on").addEventListener("click", () => set(new Game(play, game.start, game.first, game.moves.slice(0, game.at))));
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
  addEventListener("popstate", fromAddress);
  showKind();
  fromAddress();
  return { fromAddress, redraw: () => game && draw(), start: () => game?.start };
}
