// The frame: addresses, the rail, keys, the theme, and the one stream.
import { Stream, enter, get, post, session } from "./api.js";
import { Rows, ago, fill, framed, h, hush, signed, toast } from "./dom.js";
import { warm } from "./charts.js";
import * as runs from "./view-runs.js";
import * as launch from "./view-launch.js";
import * as run from "./view-run.js";
import * as sleep from "./view-sleep.js";

const main = document.getElementById("main");
const rail = document.getElementById("rail");
const veil = document.getElementById("veil");

export const app = {
  runs: [],
  stream: new Stream(),
  view: null,
  go(path, replace) {
    if (replace) history.replaceState(null, "", path);
    else history.pushState(null, "", path);
    route();
  },
  setQuery(changes) {
    const query = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === "" || value === undefined) query.delete(key);
      else query.set(key, value);
    }
    const text = query.toString();
    history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
  },
  follow(name, after, handlers) {
    this.stream.open(name, after, { ...handlers, runs: () => load() });
  },
  title(text) { document.title = text ? `${text} · SkillOpt` : "SkillOpt"; },
  async act(work, done) {
    try {
      const answer = await work();
      if (done) toast(done); else hush();
      return answer;
    } catch (error) {
      toast(error.message, "bad");
      return null;
    }
  },
};

// The list of runs, read again when the server says that it has changed.

let asked = 0;
let listed;
app.known = new Promise((done) => { listed = done; });

async function load() {
  const turn = (asked += 1);
  let answer;
  try { answer = await get("runs"); } catch { listed(); return; }
  if (turn !== asked) return;
  app.runs = answer.runs.sort((one, other) => other.modified - one.modified);
  listed();
  drawRail();
  if (app.view && app.view.runsChanged) app.view.runsChanged();
}

let list = null;
let search = null;
const STATUS = { running: "running", starting: "running", finished: "finished", reading: "reading", crashed: "failed", "stopped by an error": "failed", "not begun": "stopped", unreadable: "failed", "old format": "failed" };

function buildRail() {
  search = h("input", { type: "search", placeholder: "Search runs", ariaLabel: "Search runs", oninput: () => drawRail() });
  const box = h("nav", { class: "rail-list", ariaLabel: "Runs" });
  fill(rail,
    h("div", { class: "rail-head" },
      h("a", { href: "/", class: "brand", title: "All runs" }, h("img", { src: "/static/icon.svg", alt: "", width: 20, height: 20 }), h("span", { class: "wide" }, "SkillOpt")),
      h("button", { class: "quiet fold", type: "button", title: "Fold the list", ariaLabel: "Fold the list of runs", onclick: () => { document.body.classList.toggle("folded"); localStorage.setItem("skillopt-folded", document.body.classList.contains("folded") ? "1" : ""); list.draw(); } }, "⇤")),
    h("div", { class: "rail-search wide" }, search),
    box,
    h("div", { class: "rail-foot" },
      session.readOnly ? h("span", { class: "soft wide" }, "read-only") : h("a", { href: "/launch", class: "button primary" }, "+", h("span", { class: "wide" }, " New run")),
      h("a", { href: "/sleep", class: "button", title: "Sleep: what was learnt from sessions" }, "☾", h("span", { class: "wide" }, " Sleep")),
      h("button", { class: "button", type: "button", title: "Light or dark", ariaLabel: "Switch between light and dark", onclick: theme }, "◑"),
      h("button", { class: "button wide", type: "button", title: "Keys and words (?)", ariaLabel: "Help with keys and words", onclick: help }, "?")));
  list = new Rows(box, 44, (each) => {
    const lift = each.claim ? signed(each.claim.mean) : "";
    const status = STATUS[each.status] || "stopped";
    return h("a", { href: `/run/${each.id}`, class: `rail-run${location.pathname.startsWith(`/run/${each.id}`) ? " here" : ""}`, ariaCurrent: location.pathname.startsWith(`/run/${each.id}`) ? "page" : null, title: `${each.name}: ${each.status}` },
      h("span", { class: `dot ${status}`, role: "img", ariaLabel: each.status }),
      h("span", { class: "wide rail-name" }, each.name, h("small", {}, each.simulated ? "simulated, " : "", each.status === "finished" ? "" : `${each.status}, `, ago(each.modified))),
      h("span", { class: `wide num lift${each.claim && each.claim.conclusive ? " sure" : ""}`, title: each.claim ? each.claim.words : "" }, lift));
  });
}

const drawRail = framed(() => {
  if (!list) return;
  const wanted = search.value.trim().toLowerCase();
  const shown = app.runs.filter((each) => !wanted || `${each.name} ${each.status} ${each.benchmark || ""} ${each.target || ""}`.toLowerCase().includes(wanted));
  list.set(shown);
  const key = `${app.runs.length}/${shown.length}`;
  if (!shown.length) fill(list.inner, h("p", { class: "empty wide" }, app.runs.length ? "No run has such a name." : "No runs here yet."));
  list.box.dataset.count = key;
});

function theme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("skillopt-theme", root.dataset.theme);
  if (app.view && app.view.redraw) app.view.redraw();
}

// Addresses.

const ROUTES = [
  [/^\/$/, () => runs.list(app, main)],
  [/^\/compare$/, () => runs.compare(app, main)],
  [/^\/launch$/, () => launch.page(app, main)],
  [/^\/sleep(?:\/(.*))?$/, (found) => sleep.page(app, main, found[1])],
  [/^\/run\/([^/]+)(?:\/(.*))?$/, (found) => run.page(app, main, decodeURIComponent(found[1]), (found[2] || "").split("/").map(decodeURIComponent))],
];

function route() {
  hush();
  document.body.classList.remove("drawer");
  veil.hidden = true;
  for (const [pattern, open] of ROUTES) {
    const found = pattern.exec(location.pathname);
    if (found) {
      const before = app.view;
      const next = open(found);
      if (before && before !== next && before.close) before.close();
      app.view = next;
      drawRail();
      return;
    }
  }
  fill(main, h("div", { class: "page" }, h("h1", {}, "Nothing is here"), h("p", {}, "This address leads nowhere. ", h("a", { href: "/" }, "All runs"))));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || link.hasAttribute("download")) return;
  const address = new URL(link.href, location.href);
  if (address.origin !== location.origin || address.pathname.startsWith("/api/")) return;
  if (address.hash && address.pathname === location.pathname) return;
  event.preventDefault();
  app.go(address.pathname + address.search);
});
addEventListener("popstate", route);

// Keys.

const KEYS = [["j / k", "next and previous row, step or item"], ["Enter", "open it"], ["/", "search"], ["1 – 8", "the tabs of a run"], ["g", "all runs"], ["n", "new run"], ["t", "light or dark"], ["Esc", "close"], ["?", "this help"]];
const WORDS = [["move", "a step, the end of an epoch, a pruning or a review: what can change the skill"], ["operation", "one part of the plan: the baseline, a step, the end of an epoch, the final test"], ["val, test", "val decides which candidates are kept; test is measured once, at the end"], ["conclusive", "the 95 % interval of the gain on test excludes 0, and enough items changed"]];

function help() {
  const box = h("dialog", { class: "help", ariaLabel: "Help" }, h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])), h("h2", {}, "Words"), h("dl", {}, WORDS.map(([word, what]) => [h("dt", {}, word), h("dd", {}, what)])), h("form", { method: "dialog" }, h("button", { class: "button" }, "Close")));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (typing) { if (event.key === "Escape") event.target.blur(); return; }
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "/") { event.preventDefault(); const own = main.querySelector("input[type=search]"); (own || search).focus(); }
  else if (event.key === "?") help();
  else if (event.key === "t") theme();
  else if (event.key === "g") app.go("/");
  else if (event.key === "n" && !session.readOnly) app.go("/launch");
  else if (event.key === "Escape") { document.body.classList.remove("drawer"); veil.hidden = true; if (app.view && app.view.escape) app.view.escape(); }
  else if (app.view && app.view.key && app.view.key(event.key)) event.preventDefault();
});

export function drawer() { document.body.classList.add("drawer"); veil.hidden = false; list.draw(); }
veil.addEventListener("click", () => { document.body.classList.remove("drawer"); veil.hidden = true; });

app.drawer = drawer;
app.post = post;
app.get = get;

async function start() {
  if (localStorage.getItem("skillopt-folded")) document.body.classList.add("folded");
  try { await enter(); } catch (error) { fill(main, h("div", { class: "page" }, h("h1", {}, "No answer"), h("p", {}, error.message))); return; }
  buildRail();
  route();
  load();
  setTimeout(warm, 300);
  setInterval(() => drawRail(), 60000);
}

start();
