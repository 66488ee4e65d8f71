// Elements, and values as people read them. Data becomes text nodes, never markup.

export function h(tag, props, ...children) {
  const svg = tag === "svg" || tag === "path" || tag === "rect" || tag === "circle" || tag === "line";
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.setAttribute("class", value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(node.style, value);
    else if (key in node && !svg && key !== "list" && key !== "form") node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  put(node, children);
  return node;
}

export function put(node, children) {
  for (const child of [children].flat(9)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  return put(node, children);
}

// A number with so many digits as reports have it: of two that are equally near, the even one.
export function fixed(value, digits) {
  const tie = Number.isInteger(value * 2 ** (digits + 1)) && !Number.isInteger(value * 2 ** digits);
  if (!tie) return value.toFixed(digits);
  const low = Math.floor(value * 10 ** digits);
  return ((low % 2 ? low + 1 : low) / 10 ** digits).toFixed(digits);
}

export const score = (value) => (value === null || value === undefined ? "unknown" : fixed(value, 2));

export const signed = (value) => (value === null || value === undefined ? "unknown" : (value < 0 ? "−" : "+") + fixed(Math.abs(value), 2));

export function count(number, noun) {
  if (number === null || number === undefined) return "unknown";
  return `${number.toLocaleString("en")}${noun ? ` ${noun}${number === 1 ? "" : "s"}` : ""}`;
}

export function short(number) {
  if (number === null || number === undefined) return "unknown";
  if (number < 1000) return String(Math.round(number));
  if (number < 10000) return `${fixed(number / 1000, 1)}k`;
  return number < 1e6 ? `${fixed(number / 1000, 0)}k` : `${fixed(number / 1e6, 1)}M`;
}

export function dollars(value) {
  if (value === null || value === undefined) return "unknown";
  if (value > 0 && value < 0.0001) return "< $0.0001";
  return `$${fixed(value, value >= 0.1 || value === 0 ? 2 : 4)}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "unknown";
  if (seconds < 10) return `${fixed(seconds, 1)} s`;
  if (seconds < 90) return `${fixed(seconds, 0)} s`;
  const minutes = Number(fixed(seconds / 60, 0));
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

export function bytes(size) {
  return size < 1000 ? `${size} B` : size < 1e6 ? `${(size / 1e3).toFixed(1)} kB` : `${(size / 1e6).toFixed(1)} MB`;
}

// "3 min ago", with the exact time on hover.
export function ago(seconds) {
  if (!seconds) return h("span", {}, "unknown");
  const date = new Date(seconds * 1000);
  const past = Math.max(0, (Date.now() - date) / 1000);
  const words = past < 60 ? "just now" : past < 3600 ? `${Math.floor(past / 60)} min ago` : past < 86400 ? `${Math.floor(past / 3600)} h ago` : `${Math.floor(past / 86400)} d ago`;
  return h("time", { dateTime: date.toISOString(), title: date.toLocaleString() }, words);
}

// A mean with its interval and n in a lighter weight; a bound is written as a bound.
export function interval(value, more) {
  if (!value || value.mean === null || value.mean === undefined) return h("span", { class: "soft" }, value && value.failures ? "unknown" : "not measured");
  if (value.bound) return h("span", { class: "num" }, `≤ ${score(value.mean)}`, h("span", { class: "soft" }, ` ${value.n} items`));
  return h("span", { class: "num" }, score(value.mean), h("span", { class: "soft" }, ` [${score(value.low)}, ${score(value.high)}]`, more ? ` ${more}` : ""));
}

export const OUTCOMES = {
  accepted: { glyph: "●", word: "accepted" },
  rejected: { glyph: "✕", word: "rejected" },
  inconclusive: { glyph: "◐", word: "inconclusive" },
  skipped: { glyph: "–", word: "skipped" },
  measured: { glyph: "◇", word: "measured" },
};

export function outcome(name, word) {
  const known = OUTCOMES[name] || { glyph: "–", word: name };
  return h("span", { class: `outcome ${name}` }, h("span", { class: "glyph", ariaHidden: "true" }, known.glyph), " ", word === undefined ? known.word : word);
}

export function folded(text, most = 600) {
  if (text.length <= most) return h("pre", { class: "said" }, text);
  const cut = h("pre", { class: "said" }, `${text.slice(0, most)}…`);
  const more = h("button", { class: "link", type: "button", onclick: () => { cut.textContent = text; more.remove(); } }, `Show all ${count(text.length)} characters`);
  return h("div", {}, cut, more);
}

// Batches work into the next frame: many events, one drawing.
export function framed(work) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; work(); });
  };
}

// One message at a time: the latest is what counts.
export function toast(text, kind = "") {
  const note = h("div", { class: `toast ${kind}` }, text, h("button", { class: "quiet", type: "button", ariaLabel: "Close", onclick: () => note.remove() }, "✕"));
  fill(document.getElementById("toasts"), note);
  setTimeout(() => note.remove(), kind === "bad" ? 15000 : 6000);
}

export function hush() { fill(document.getElementById("toasts")); }

export const onPhone = () => matchMedia("(max-width: 760px)").matches;

// On a phone, what was opened stands below what it was opened from.
export function reveal(node) {
  if (onPhone()) node.scrollIntoView({ block: "start" });
}

// A long name by its beginning and its end, where names that are alike differ.
export function middle(text, most) {
  const half = Math.floor((most - 1) / 2);
  return text.length <= most ? text : `${text.slice(0, half)}…${text.slice(-half)}`;
}

// A long list of rows of one height: only those in sight are in the document.
export class Rows {
  constructor(box, height, render) {
    this.box = box;
    this.height = height;
    this.render = render;
    this.items = [];
    this.inner = h("div", { class: "rows-inner", role: "presentation" });
    this.drawn = "";
    this.made = new Map();
    box.classList.add("rows");
    box.append(this.inner);
    this.draw = this.draw.bind(this);
    box.addEventListener("scroll", framed(this.draw), { passive: true });
    this.watch = new ResizeObserver(framed(this.draw));
    this.watch.observe(box);
  }
  set(items) {
    this.items = items;
    this.made.clear();
    this.drawn = "";
    this.draw();
  }
  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - 8);
    const last = Math.min(this.items.length, Math.ceil((this.box.scrollTop + (this.box.clientHeight || 600)) / this.height) + 8);
    this.inner.style.height = `${this.items.length * this.height}px`;
    const key = `${first}-${last}`;
    if (key === this.drawn) return;
    this.drawn = key;
    const nodes = [];
    for (let index = first; index < last; index += 1) {
      let node = this.made.get(index);
      if (!node) {
        node = this.render(this.items[index], index);
        node.style.position = "absolute";
        node.style.top = `${index * this.height}px`;
        node.style.height = `${this.height}px`;
        node.style.left = "0";
        node.style.right = "0";
        this.made.set(index, node);
      }
      nodes.push(node);
    }
    for (const index of this.made.keys()) if (index < first - 60 || index > last + 60) this.made.delete(index);
    this.inner.replaceChildren(...nodes);
  }
  show(index) {
    const top = index * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + this.height - this.box.clientHeight;
    this.draw();
  }
}
