// The page of a small game: what is known of its positions the server says, with all moves.

import { askGame } from "./api.js";
import { byId, cellName, element, say, sentence } from "./dom.js";
import { LAYOUTS } from "./layouts.js";
import { begin } from "./match.js";
import { picture } from "./picture.js";
import { YOU } from "./record.js";
import { movesOf, same, textOf } from "./rules.js";

/** @type {any} */
const NAME = document.body.dataset.page;
const layout = LAYOUTS[NAME];
/** The most squares that are drawn. */
const SQUARES_MAX = 1_200;

/** The server's answers, by the texts of positions. */
const answers = new Map();
let valuesShown = false;
/** The rows that are drawn of a board that goes on without end. @type {number[]} */
let shown = [];

async function ask(text) {
  const answer = await askGame(NAME, encodeURIComponent(text));
  for (const name of [text, answer.position]) answers.set(name, answer);
  return answer;
}

/** A move, and what it leaves. Of a board without end the server lists no more than the moves near the corner. */
function choiceOf(text, move) {
  const listed = answers.get(text)?.moves.find((choice) => same(choice.move, move));
  return listed ?? (layout.left && layout.has(text, move) ? { move, position: layout.left(text, move), value: null } : null);
}

/** A board of all moves that the server lists in some positions; of a board that ends, the first position. */
function drawn(positions) {
  if (!layout.left) return positions[0];
  shown = [];
  const moves = positions.flatMap((text) => answers.get(text)?.moves ?? []);
  for (const { move: [row, column] } of moves) shown[row - 1] = Math.max(shown[row - 1] ?? 0, column);
  return textOf(shown);
}

/** The start that a text means, once the server has told all about it and what `moves` lead to. */
async function parse(text, moves = []) {
  const compact = text.replaceAll(/\s/g, "");
  if (compact === "") throw new RangeError(`Write a position. ${layout.form}`);
  const start = await ask(compact);
  if (start.over) throw new RangeError("This game would be over before it begins.");
  if (layout.build(drawn([start.position])).lines.flat().length > SQUARES_MAX) throw new RangeError("This is too large to be drawn here.");
  let at = start.position;
  for (const move of moves) {
    const choice = choiceOf(at, move);
    // The record says which move is wrong.
    if (choice === null) break;
    at = (await ask(choice.position)).position;
  }
  return start.position;
}

/** The content of a square besides what its layout knows: a tower, the value of what a move there leaves. */
function face(game, square) {
  const standing = layout.stands?.(game.position, square, game.mover(game.at) === YOU);
  if (standing || !valuesShown) return standing ?? null;
  if (NAME === "poisons" && choiceOf(game.position, square)?.value === null) {
    return layout.isPoison(game.position, square) ? null : { kind: "valued", text: "✕", words: "loses at once" };
  }
  const value = NAME === "horse" ? valueOnBoard(game, square) : valueAfter(game.position, square);
  return value === null ? null : { kind: "valued", text: String(value), words: `value ${value}` };
}

function valueOnBoard(game, [row, column]) {
  if (game.position === `${row},${column}`) return null;
  return answers.get(game.start)?.explanation[row - 1]?.[column - 1] ?? null;
}

function valueAfter(text, square) {
  const choice = layout.value ? choiceOf(text, square) : null;
  return choice && choice.value !== null ? layout.value(answers.get(text), choice) : null;
}

/** The columns of binary digits below the board. */
function showParts(game) {
  const answer = answers.get(game.position);
  byId("extra").hidden = !valuesShown || !answer || answer.parts.length === 0;
  if (byId("extra").hidden) return;
  const total = answer.parts.reduce((all, { value }) => all ^ value, 0);
  const digits = answer.parts[0].binary.length;
  const all = [...answer.parts, { name: "XOR", value: total, binary: total.toString(2).padStart(digits, "0") }];
  const isOdd = (index) => all.at(-1).binary[index] === "1";
  const lines = all.map(({ name, value, binary }) => element(
    "tr",
    {},
    element("th", { scope: "row", class: "text" }, name),
    element("td", {}, String(value)),
    element("td", { class: "digits" }, ...[...binary].map((digit, index) => element("span", { class: isOdd(index) && "odd" }, digit))),
  ));
  const head = [NAME === "ichomp" ? "Quadrant" : "", "value", "in binary"].map((name) => element("th", { scope: "col" }, name));
  byId("extra").replaceChildren(
    element("table", { class: "parts" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...lines)),
    element("p", { class: "quiet" }, answer.explanation.at(-1)),
  );
}

const starts = element("select", { id: "starts" }, ...layout.starts.map(([start, name]) => element("option", { value: start }, name)));
const names = new Map(layout.starts);
const called = layout.called ?? cellName;
byId("sides").append(element("label", { for: "starts" }, "Start"), starts);
say(byId("usual"), "Chosen");
byId("typed").value = starts.value;

const match = begin({
  layout: { face: () => ({}), ...layout },
  introduction: `${byId("rules").textContent.split(". ")[1]}.`,
  form: layout.form,
  textOf: (text) => text,
  name: (text) => names.get(text) ?? text,
  goal: layout.goal,
  called,
  follow(text, move) {
    const choice = choiceOf(text, move);
    if (choice === null) throw new RangeError("is none that can be made");
    return choice.position;
  },
  end(text) {
    const answer = answers.get(text);
    return answer?.over ? (answer.losing ? "lost" : "won") : null;
  },
  parse,
  full: () => parse(starts.value),
  random: () => layout.random(),
  async ask(text) {
    return answers.get(text) ?? ask(text);
  },
  known: (text) => answers.get(text),
  drawn,
  movesOf: (text) => (layout.left ? movesOf(shown).filter((move) => layout.has(text, move)) : answers.get(text).moves.map((choice) => choice.move)),
  ending: (winner, loser) => layout.ending(match.start(), winner, loser),
  replies: layout.replies,
  took: layout.took,
  aimed(text, move) {
    const choice = choiceOf(text, move);
    const value = valuesShown && choice.value !== null ? ` The value is ${choice.value} then.` : "";
    return sentence(`${called(move)} leaves ${choice.position}.${value}`);
  },
  face,
  onShow: showParts,
});

byId("values").hidden = false;
byId("values").addEventListener("click", (event) => {
  valuesShown = !valuesShown;
  event.currentTarget.setAttribute("aria-pressed", String(valuesShown));
  match.redraw();
});
if (NAME === "poisons") picture(document.querySelector("main"));

/** Adds a tool with which clicks cross out squares of the start. */
function crossing() {
  const toggle = () => tool.setAttribute("aria-pressed", String(!isOn()));
  const tool = element("button", { type: "button", id: "cross-out", "aria-pressed": "false", onclick: toggle }, "Cross out");
  const isOn = () => tool.getAttribute("aria-pressed") === "true";
  byId("link").before(tool);
  byId("board").addEventListener("click", (event) => {
    const move = event.target.closest("[role=gridcell]")?.firstElementChild.dataset.move;
    if (!isOn() || !move) return;
    event.stopPropagation();
    if (move !== "1-1") location.hash = new URLSearchParams({ start: `${match.start()}@${move.replace("-", ",")}`, first: YOU }).toString();
  }, true);
}
if (NAME === "crossed") crossing();
