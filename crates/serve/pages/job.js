// The Job page: what a coordinator tells of its job, as it happens; and the finished table.

import { address, ask, Problem } from "./api.js";
import { byId, count, drawn, element, Notice, number, pause, persist, say, sentence, tableFacts, tellTable } from "./dom.js";
import { follow } from "./stream.js";

const KEPT_TOKEN = "chomp-token";
/** The server breaks silence each 15 s. */
const OLD_AFTER_S = 20;
const OPENING_MS = 500;
const LAYER_HEIGHT = 120;

const notice = new Notice(byId("notice"));
/**
 * When something was last heard, in milliseconds of the page.
 * @type {number | null}
 */
let heard = null;
/**
 * Why nothing is heard, if the connection is lost.
 * @type {Problem | null}
 */
let lost = null;
let finished = false;

// --- The token ------------------------------------------------------------------------------------

const token = () => sessionStorage.getItem(KEPT_TOKEN);

/**
 * Asks for a token; done when there is one.
 * @returns {Promise<void>}
 */
function askForToken() {
  const form = byId("token-form");
  if (token() !== null) say(byId("token-wrong"), "This token does not open the job.");
  sessionStorage.removeItem(KEPT_TOKEN);
  byId("live").hidden = true;
  say(byId("headline"), "The job");
  say(byId("phase"), "The job is shown to those who have the token.");
  lost = null;
  heard = null;
  form.hidden = false;
  byId("token").focus();
  return new Promise((resolve) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      const given = byId("token").value.trim();
      if (!/^[\x21-\x7e]+$/.test(given)) {
        say(byId("token-wrong"), "This is no token: a token has letters, digits and marks, and no spaces.");
        return;
      }
      sessionStorage.setItem(KEPT_TOKEN, given);
      byId("token").value = "";
      say(byId("token-wrong"), "");
      form.hidden = true;
      resolve();
    };
  });
}

/** Takes the token out of an access file. */
async function readAccess(file) {
  if (!file) return;
  say(byId("token-wrong"), "");
  try {
    if (file.size > 1 << 20) throw new RangeError("It is too large.");
    const access = JSON.parse(await file.text());
    if (typeof access.token !== "string") throw new RangeError("It has no token.");
    byId("token").value = access.token;
    byId("token-form").requestSubmit();
  } catch (error) {
    const reason = error instanceof RangeError ? error.message : "It is not JSON.";
    say(byId("token-wrong"), `${file.name} is no access file. ${reason}`);
  }
}

// --- What is shown --------------------------------------------------------------------------------

const PHASES = {
  running: "Ranges are being evaluated.",
  publishing: "All ranges are there: the table is being made of them.",
  finished: "The table is finished.",
  stopped: "The job has stopped.",
};

function show(status) {
  byId("live").hidden = false;
  const size = `${status.bits} bits`;
  say(byId("headline"), status.phase === "finished" ? `The table of ${size}` : `The job of ${size}`);
  const why = status.waiting_for ? ` ${sentence(status.waiting_for)}` : "";
  say(byId("phase"), PHASES[status.phase] + why);
  document.title = status.phase === "running" ? `${percent(status.done)} – Job – Chomp` : "Job – Chomp";
  // A server without a job tells of its table only.
  const hasJob = Array.isArray(status.layer_progress);
  byId("running").hidden = !hasJob;
  if (hasJob) {
    byId("done").value = status.done;
    say(byId("done"), percent(status.done));
    showFigures(status);
    showLayers(status.layer_progress);
    showWorkers(status.workers);
  }
  if (status.phase === "finished" && !finished) {
    finished = true;
    tellAge();
    showTable();
  }
}

// Never 100 % before the end.
const percent = (share) => `${share >= 1 ? 100 : Math.min(99.9, Math.floor(share * 1_000) / 10)} %`;

/**
 * A time as people say it; two units at the most.
 * @param {number} seconds
 */
export function duration(seconds) {
  const whole = Math.round(seconds);
  /** @type {[number, string][]} */
  const units = [[86_400, "day"], [3_600, "hour"], [60, "minute"], [1, "second"]];
  const from = units.findIndex(([size]) => whole >= size);
  if (from === -1) return "less than a second";
  const [size, name] = units[from];
  const rest = units[from + 1];
  const more = rest ? Math.floor((whole % size) / rest[0]) : 0;
  return count(Math.floor(whole / size), name) + (more > 0 ? ` ${count(more, rest[1])}` : "");
}

/**
 * A large number with three figures, as `703 million`.
 * @param {number} value
 */
function about(value) {
  /** @type {[number, string][]} */
  const units = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"]];
  for (const [size, name] of units) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${name}`;
  }
  return number(Math.round(value));
}

function showFigures(status) {
  const resumed = status.ranges_resumed > 0 ? `, ${number(status.ranges_resumed)} from before` : "";
  const left = { finished: "none", stopped: "unknown" }[status.phase] ?? (status.seconds_left === null ? "not known yet" : duration(status.seconds_left));
  const figures = [
    ["Done", percent(status.done), status.phase === "publishing" ? `${number(status.shards_done)} of ${count(status.shards, "shard")} written` : `${about(status.positions_done)} of ${about(status.positions)} positions`],
    ["Ranges", `${number(status.ranges_done)} of ${number(status.ranges)}`, `${number(status.leases)} leased${resumed}`],
    ["Losing so far", number(status.losing), "both of a mirror pair"],
    ["Rate", about(status.positions_per_second), "positions a second"],
    ["Time left", left, status.replicas > 1 ? `${status.replicas} workers agree on each range` : ""],
    ["Being checked", number(status.submissions), status.arbitrations > 0 ? `${count(status.arbitrations, "result")} computed again` : "results"],
  ];
  const place = byId("figures");
  if (place.childElementCount === 0) {
    place.append(...figures.map(() => element("div", {}, element("dt"), element("dd", {}, element("span"), element("span", { class: "more" })))));
  }
  figures.forEach(([name, value, more], index) => {
    const [term, text] = place.children[index].children;
    say(term, name);
    say(text.children[0], value);
    say(text.children[1], more);
  });
}

function showLayers(layers) {
  const complete = layers.filter(({ ranges, done }) => done >= ranges).length;
  const going = layers.flatMap(({ ranges, done }, layer) => (done > 0 && done < ranges ? [layer] : []));
  const now = going.length === 0 ? "" : going.length === 1 ? `; layer ${going[0]} is under way` : `; layers ${going[0]} to ${going.at(-1)} are under way`;
  say(byId("layers-told"), `${number(complete)} of ${number(layers.length)} layers complete${now}. Each bar is a layer: the higher, the more ranges it has.`);
  say(byId("layers-last"), `layer ${layers.length - 1}`);

  // The square root keeps narrow layers visible.
  const most = Math.sqrt(Math.max(1, ...layers.map(({ ranges }) => ranges)));
  const bars = layers.flatMap(({ ranges, done }, layer) => {
    const height = Math.max(3, (Math.sqrt(ranges) / most) * LAYER_HEIGHT);
    const share = ranges === 0 ? 1 : done / ranges;
    const kind = share >= 1 ? "done" : "now";
    const title = drawn("title", {}, `layer ${layer}: ${number(done)} of ${number(ranges)} ranges`);
    return [
      drawn("rect", { class: "all", x: layer + 0.06, width: 0.88, y: LAYER_HEIGHT - height, height }, title),
      drawn("rect", { class: kind, x: layer + 0.06, width: 0.88, y: LAYER_HEIGHT - height * share, height: height * share, "pointer-events": "none" }),
    ];
  });
  byId("layers").replaceChildren(drawn("svg", {
    viewBox: `0 0 ${layers.length} ${LAYER_HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": byId("layers-told").textContent,
  }, ...bars));
  if (byId("layers-table").closest("details").open) {
    fillTable(byId("layers-table"), ["Layer", "Ranges", "Done"], layers.map(({ ranges, done }, layer) => [layer, ranges, done].map(number)));
  }
}

function showWorkers(workers) {
  const names = ["Name", "Participant", "Threads", "Leases", "Ranges", "Positions a second", "Heard of", "Failures", "Quarantined"];
  const rows = workers.map((worker) => [
    worker.name,
    worker.participant,
    number(worker.threads),
    number(worker.leases),
    number(worker.ranges),
    about(worker.positions_per_second),
    `${(worker.last_contact_ms / 1_000).toFixed(1)} s ago`,
    number(worker.failures),
    worker.quarantined ?? "no",
  ]);
  const place = byId("workers");
  fillTable(place, names, rows.length > 0 ? rows : [["No worker is there."]]);
  workers.forEach(({ quarantined }, index) => place.tBodies[0].rows[index].classList.toggle("bad", quarantined !== null));
}

/** Fills a table; the first column, and the last if it is words, stand left. */
function fillTable(place, names, rows) {
  const kind = (index) => (names[index] === "Quarantined" ? "text long" : index === 0 && names[0] === "Name" ? "text" : false);
  const head = element("tr", {}, ...names.map((name, index) => element("th", { scope: "col", class: kind(index) }, name)));
  const body = rows.map((row) => element("tr", {}, ...row.map((value, index) => element("td", { class: kind(index), colspan: row.length === 1 && names.length }, value))));
  place.replaceChildren(element("thead", {}, head), element("tbody", {}, ...body));
}

// --- The finished table ---------------------------------------------------------------------------

/** The facts about the table. A server opens one a moment after its job has finished it. */
async function openedFacts() {
  for (;;) {
    try {
      return await tableFacts();
    } catch (error) {
      if (!(error instanceof Problem) || error.kind !== "missing") throw error;
    }
    await pause(OPENING_MS);
  }
}

async function showTable() {
  byId("finished").hidden = false;
  const table = await persist(notice, openedFacts);
  tellTable(table);
  const facts = [
    ["Bits", table.bits],
    ["Positions", number(table.positions)],
    ["Losing", number(table.losing)],
    ["Stored", `${number(table.stored)}, one of each mirror pair`],
    ["Fingerprint", element("span", { class: "mono" }, table.fingerprint)],
  ];
  byId("facts").replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  byId("manifest").href = address(`${table.path}manifest.json`);
  byId("sums").href = address(`${table.path}SHA256SUMS`);
  byId("shards-part").ontoggle = async (event) => {
    if (!event.target.open || byId("shards").childElementCount > 0) return;
    const { shards } = await persist(notice, () => ask(`${table.path}manifest.json`));
    say(byId("shards-told"), `${count(shards.length, "shard")}`);
    const items = shards.map(({ name, bytes }) => element("li", {}, element("a", { href: address(table.path + name), download: true }, name), ` ${(bytes / 2 ** 20).toFixed(1)} MiB`));
    byId("shards").replaceChildren(...items);
  };
}

/** Says in the foot of the page which table is there, if one is: while a job runs there may be none. */
async function tellOfTable() {
  try {
    const tables = await ask("/");
    if (tables.length > 0) tellTable(await tableFacts());
  } catch (error) {
    // The stream says when the server cannot be reached.
    if (!(error instanceof Problem)) throw error;
  }
}

// --- The start ------------------------------------------------------------------------------------

/** Says how old what is shown is. */
function tellAge() {
  const place = byId("fresh");
  const seconds = heard === null ? null : Math.floor((performance.now() - heard) / 1_000);
  const old = lost !== null || (seconds !== null && seconds > OLD_AFTER_S);
  place.classList.toggle("old", old);
  if (lost !== null) {
    const age = seconds === null ? "" : ` What is shown is ${duration(seconds)} old.`;
    say(place, `${lost.message}${age} Connecting again.`);
  } else if (old) {
    say(place, `Nothing was heard for ${duration(Number(seconds))}: what is shown may be old.`);
  } else {
    say(place, seconds === null || finished ? "\u00a0" : "Live.");
  }
}

byId("file").addEventListener("change", async (event) => {
  await readAccess(event.target.files[0]);
  // A file that has changed can be chosen again under its name.
  event.target.value = "";
});
for (const name of ["dragenter", "dragover"]) {
  byId("drop").addEventListener(name, (event) => {
    event.preventDefault();
    byId("drop").classList.add("over");
  });
}
for (const name of ["dragleave", "drop"]) byId("drop").addEventListener(name, () => byId("drop").classList.remove("over"));
byId("drop").addEventListener("drop", (event) => {
  event.preventDefault();
  readAccess(event.dataTransfer.files[0]);
});

setInterval(tellAge, 1_000);
tellOfTable();
follow("/api/status", {
  token,
  onStatus: show,
  onAlive: () => {
    heard = performance.now();
    lost = null;
    tellAge();
  },
  onLost: (problem) => {
    lost = problem;
    tellAge();
  },
  onDenied: askForToken,
});
