// The picture of the losing positions of Chomp with poisons: one row has a length, the other two are the axes.

import { askGame, Problem } from "./api.js";
import { count, drawn, element, say } from "./dom.js";

/** The standard placements of two poisons. */
const PLACEMENTS = ["1,1@2,2", "1,1@2,1", "1,1@1,2", "1,2@2,1"];
const UNIT = 4;
/** In pixels of the page. */
const MARGIN = 44;
const HEIGHT_MAX = 480;

/** Adds the picture to a page. */
export function picture(main) {
  const field = (label, id, attributes) => element("label", { for: id }, label, element("input", { id, type: "text", autocomplete: "off", ...attributes }));
  const wrong = element("p", { class: "wrong", role: "alert" });
  const drawing = element("div", { id: "drawing", class: "drawing" });
  const told = element("p", { class: "quiet", role: "status" });
  const list = element("p", { class: "mono" });
  const form = element(
    "form",
    { class: "picture-form", novalidate: true },
    field("Poisons", "picture-poisons", { value: PLACEMENTS[0], list: "placements", maxlength: 20 }),
    element("datalist", { id: "placements" }, ...PLACEMENTS.map((value) => element("option", { value }))),
    field("Fixed row", "picture-row", { value: "1", inputmode: "numeric", maxlength: 1 }),
    field("Its length", "picture-length", { value: "50", inputmode: "numeric", maxlength: 3 }),
    field("Columns", "picture-columns", { value: "60", inputmode: "numeric", maxlength: 3 }),
    element("button", { type: "submit" }, "Draw"),
  );
  main.append(element(
    "section",
    { class: "picture card", "aria-labelledby": "picture-title" },
    element("h2", { id: "picture-title" }, "The losing positions of three rows"),
    form,
    wrong,
    drawing,
    told,
    element("details", {}, element("summary", {}, "The same as a list"), list),
  ));

  let asked = 0;
  const show = async () => {
    const mine = (asked += 1);
    const [poisons, row, length, columns] = [...form.elements].map((input) => input.value?.trim());
    say(wrong, "");
    try {
      const fixed = encodeURIComponent(`${row}=${length}`);
      const { losing } = await askGame("poisons", `picture/${fixed}/${encodeURIComponent(`${columns}@${poisons}`)}`);
      if (mine !== asked) return;
      const others = ["2 and 3", "1 and 3", "1 and 2"][row - 1];
      drawing.replaceChildren(drawPoints(drawing.clientWidth, losing, `The longer of rows ${others}`, "The shorter"));
      say(told, `${count(losing.length, "losing position")} with ${length} in row ${row}. Each point is one: the longer of rows ${others} to the right, the shorter one downwards, both from 0.`);
      say(list, losing.map((pair) => `(${pair.join(",")})`).join(" "));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (mine === asked) say(wrong, error.message);
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    show();
  });
  show();
}

/** Each point is a square of `UNIT`, and the whole as wide as its place; so texts are written in the size of the page. */
function drawPoints(width, points, along, down) {
  const most = (index) => Math.max(10, ...points.map((point) => point[index]));
  const [right, bottom] = [(most(0) + 1) * UNIT, (most(1) + 1) * UNIT];
  const pixel = Math.max(right / Math.max(1, width - 2 * MARGIN), bottom / (HEIGHT_MAX - 2 * MARGIN));
  const margin = MARGIN * pixel;
  const line = (x1, y1, x2, y2) => drawn("line", { x1, y1, x2, y2 });
  const words = (x, y, text, anchor = "start") => drawn("text", { x, y, "text-anchor": anchor, "font-size": 12 * pixel }, text);
  const tens = (index) => Array.from({ length: Math.floor(most(index) / 10) + 1 }, (_, n) => n * 10);
  return drawn(
    "svg",
    { viewBox: `${-margin} ${-margin} ${right + 2 * margin} ${bottom + 2 * margin}`, role: "img", "aria-label": `${along}, ${down.toLowerCase()}: ${points.length} points` },
    line(0, 0, right, 0),
    line(0, 0, 0, bottom),
    ...tens(0).map((n) => words((n + 0.5) * UNIT, -6 * pixel, String(n), "middle")),
    ...tens(1).map((n) => words(-6 * pixel, (n + 1) * UNIT, String(n), "end")),
    words(right, -24 * pixel, along, "end"),
    ...points.map(([x, y]) => drawn("rect", { x: x * UNIT, y: y * UNIT, width: UNIT, height: UNIT })),
  );
}
