// A chart of numbers on a logarithmic scale, whose values can be read with the pointer and the keys.

import { drawn, element, number, say } from "./dom.js";

const HEIGHT = 300;
const MARGIN = { top: 30, right: 12, bottom: 38, left: 46 };
/** Below the lowest decade there is a line of its own for 0, which has no logarithm. */
const ZERO_GAP = 22;

const SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const raised = (exponent) => [...String(exponent)].map((digit) => SUPERSCRIPTS[digit]).join("");
const decade = (exponent) => (exponent < 4 ? number(10 ** exponent) : `10${raised(exponent)}`);

/**
 * Fills `place` with a chart.
 *
 * `title`, `xLabel`, `yLabel`: texts; `points`: [x, y] with ascending x and whole y; `words`: what is
 * said of a point; `columns`: the names for the table; `file`: the name of the download; `extra`:
 * for each point the values of further columns.
 * @param {HTMLElement} place
 * @param {{ title: string, xLabel: string, yLabel: string, points: number[][], words: (point: number[]) => string,
 *   columns: string[], file: string, extra?: (point: number[]) => number[] }} chart
 */
export function drawChart(place, { title, xLabel, yLabel, points, words, columns, file, extra = () => [] }) {
  const reading = element("p", { class: "reading quiet" });
  const figure = element("div", {
    class: "figure",
    role: "slider",
    tabindex: 0,
    "aria-label": title,
    "aria-valuemin": points[0][0],
    "aria-valuemax": points[points.length - 1][0],
  });
  const rows = points.map((point) => [...point, ...extra(point)]);
  place.replaceChildren(element("h3", {}, title), reading, figure, links(title, columns, rows, file));

  let here = points.length - 1;
  /** @type {ReturnType<typeof plot> | null} */
  let svg = null;
  const show = (index) => {
    here = Math.max(0, Math.min(index, points.length - 1));
    figure.setAttribute("aria-valuenow", points[here][0]);
    figure.setAttribute("aria-valuetext", words(points[here]));
    say(reading, words(points[here]));
    svg?.mark(here);
  };
  const redraw = () => {
    const width = Math.round(figure.clientWidth);
    if (width === 0) return;
    svg = plot(width, { xLabel, yLabel, points });
    figure.replaceChildren(svg.element);
    svg.mark(here);
  };
  figure.addEventListener("pointermove", (event) => {
    const x = event.clientX - figure.getBoundingClientRect().left;
    if (svg) show(svg.nearest(x));
  });
  figure.addEventListener("keydown", (event) => {
    const to = {
      ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1,
      PageDown: here - 10, PageUp: here + 10, Home: 0, End: points.length - 1,
    }[event.key];
    if (to === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    show(to);
  });
  new ResizeObserver(redraw).observe(figure);
  show(here);
}

/** The drawing for one width. */
function plot(width, { xLabel, yLabel, points }) {
  const [first, last] = [points[0][0], points.at(-1)[0]];
  const most = Math.max(1, ...points.map(([, y]) => y));
  const decades = Math.max(1, Math.ceil(Math.log10(most)));
  const hasZero = points.some(([, y]) => y === 0);
  const base = HEIGHT - MARGIN.bottom;
  const floor = hasZero ? base - ZERO_GAP : base;
  const x = (value) => MARGIN.left + ((value - first) / Math.max(1, last - first)) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => (value === 0 ? base - 4 : floor - (Math.log10(value) / decades) * (floor - MARGIN.top));

  const parts = [];
  const step = Math.ceil(decades / 6);
  for (let exponent = 0; exponent <= decades; exponent += step) {
    const at = y(10 ** exponent);
    parts.push(drawn("line", { class: "rule", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
    parts.push(drawn("text", { x: MARGIN.left - 8, y: at + 4, "text-anchor": "end" }, decade(exponent)));
  }
  if (hasZero) parts.push(drawn("text", { x: MARGIN.left - 8, y: y(0) + 4, "text-anchor": "end" }, "0"));
  parts.push(drawn("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: base + 4, y2: base + 4 }));
  const spacing = [1, 2, 5, 10, 20].find((every) => ((last - first) / every) * 34 <= width - MARGIN.left) ?? 50;
  for (let value = Math.ceil(first / spacing) * spacing; value <= last; value += spacing) {
    parts.push(drawn("text", { x: x(value), y: base + 19, "text-anchor": "middle" }, String(value)));
  }
  parts.push(drawn("text", { x: width - MARGIN.right, y: HEIGHT - 2, "text-anchor": "end" }, xLabel));
  parts.push(drawn("text", { x: 0, y: 11 }, yLabel));

  const cursor = drawn("line", { class: "cursor", y1: MARGIN.top, y2: base + 4 });
  parts.push(cursor);
  const path = points.map(([at, value], index) => `${index === 0 ? "M" : "L"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`);
  parts.push(drawn("path", { class: "curve", d: path.join("") }));
  const dots = points.map(([at, value]) => drawn("circle", { class: value === 0 ? "dot zero" : "dot", cx: x(at), cy: y(value), r: 3 }));
  parts.push(...dots);

  /** @type {Element | null} */
  let marked = null;
  return {
    element: drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true", focusable: "false" }, ...parts),
    nearest: (at) => Math.round(((at - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (points.length - 1)),
    mark: (index) => {
      marked?.classList.remove("here");
      marked?.setAttribute("r", "3");
      const dot = dots[index];
      dot.classList.add("here");
      dot.setAttribute("r", "5");
      marked = dot;
      for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(points[index][0]));
    },
  };
}

/** The numbers as a file, and as a table. */
function links(title, columns, rows, file) {
  const csv = [columns, ...rows].map((row) => `${row.join(",")}\n`).join("");
  const download = element("a", { download: file, href: URL.createObjectURL(new Blob([csv], { type: "text/csv" })) }, "Download CSV");
  const body = rows.map((row) => element("tr", {}, ...row.map((value) => element("td", {}, number(value)))));
  const head = element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name.replaceAll("_", " "))));
  const table = element("table", {}, element("caption", { class: "unseen" }, title), element("thead", {}, head), element("tbody", {}, ...body));
  return element(
    "div",
    { class: "chart-links" },
    element("details", {}, element("summary", {}, "Data"), element("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": `${title}: data` }, table)),
    download,
  );
}
