// Shared by the pages: elements, numbers, messages, and the foot of each page.

import { address, askTable, isChecked, Problem } from "./api.js";

const NUMBER = new Intl.NumberFormat("en");

/** A number with its thousands apart. */
export const number = (value) => NUMBER.format(value);

/** `1 cell`, `2 cells`. */
export const count = (value, noun) => `${number(value)} ${noun}${value === 1 ? "" : "s"}`;

/** A move as people write it. */
export const cellName = (move) => `(${move.join(", ")})`;

/** Names in a row: `a`, `a and b`, `a, b and c`. */
export const listed = (names) =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;

/** A text with a capital at its beginning and a mark at its end. */
export const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

/**
 * The element of the page with this id. Of which kind it is, the page knows.
 * @type {(id: string) => any}
 */
export const byId = (id) => document.getElementById(id);

/**
 * A new element. Attributes that are false or null are left out; `on…` are listeners.
 * @returns {any}
 */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/**
 * The same in a drawing.
 * @returns {any}
 */
export function drawn(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

/** Changes a text only if it is another one, so that it is not announced again. */
export function say(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

/** Whether the visitor asked for less motion. */
export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * A promise that resolves after `ms` milliseconds.
 * @param {number} ms
 */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Copies a text, and says on the button whether that worked. */
export async function copy(button, text) {
  const label = button.dataset.label ?? button.textContent;
  button.dataset.label = label;
  let said = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = copyBySelection(text) ? "Copied" : "Not copied";
  }
  button.textContent = said;
  setTimeout(() => {
    button.textContent = label;
  }, 1_500);
}

// Without TLS browsers keep the clipboard from pages, but still copy what is selected.
function copyBySelection(text) {
  const area = element("textarea", { class: "unseen", readonly: true, "aria-hidden": "true" });
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

/** A place for messages about the server, with a button to try again. */
export class Notice {
  #place;
  /** @type {number | undefined} */
  #timer;

  constructor(place) {
    this.#place = place;
  }

  /**
   * Shows a problem; `retry` is called by the button, and after a while by itself if that may help.
   *
   * Any other error is a fault of this page: it is thrown on, for the console.
   */
  show(problem, retry) {
    if (!(problem instanceof Problem)) throw problem;
    this.hide();
    const again = () => {
      this.hide();
      retry();
    };
    const message = element("p", {}, problem.message);
    if (problem.kind === "missing") {
      message.append(" ", element("a", { href: address("job") }, "See how far the job is"), ".");
    }
    if (problem.wait !== null) {
      message.append(` Trying again in ${problem.wait} s.`);
      this.#timer = setTimeout(again, problem.wait * 1_000);
    }
    this.#place.replaceChildren(message, element("button", { type: "button", onclick: again }, "Try now"));
    this.#place.hidden = false;
  }

  /** Shows a message that asking again does not change. */
  tell(text) {
    this.hide();
    const hide = () => this.hide();
    this.#place.replaceChildren(
      element("p", {}, text),
      element("button", { type: "button", onclick: hide }, "Close"),
    );
    this.#place.hidden = false;
  }

  hide() {
    clearTimeout(this.#timer);
    this.#place.hidden = true;
  }
}

/** Calls `question` until it succeeds, showing each problem; then gives its value. */
export function persist(notice, question) {
  return new Promise((resolve) => {
    const attempt = async () => {
      try {
        resolve(await question());
      } catch (error) {
        notice.show(error, attempt);
      }
    };
    attempt();
  });
}

/** @type {Promise<any> | null} */
let facts = null;

/** The facts of the table; asked once. */
export function tableFacts() {
  facts ??= askTable().catch((error) => {
    facts = null;
    throw error;
  });
  return facts;
}

/** Writes into the foot of the page what the table is. */
export function tellTable(table) {
  const button = element("button", { type: "button", class: "link", onclick: () => copy(button, table.fingerprint) }, "copy");
  button.setAttribute("aria-label", "Copy the fingerprint");
  byId("table").replaceChildren(
    `Table of ${table.bits} bits, fingerprint `,
    element("code", { title: table.fingerprint }, `${table.fingerprint.slice(0, 8)}…${table.fingerprint.slice(-4)}`),
    " ",
    button,
    isChecked === null ? "" : isChecked ? ". Every file is checked on your machine." : ". Files are not checked here, as this page did not come over https.",
  );
}
