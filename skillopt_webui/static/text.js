// Skills as documents, and differences between them; all of it built from text nodes.
import { h, put } from "./dom.js";

const INLINE = /(`[^`]+`)|(\*\*[^*]+\*\*)|(\*[^*\s][^*]*\*)|(\[[^\]]+\]\([^)\s]+\))/;

function inline(text) {
  const out = [];
  let rest = text;
  while (rest) {
    const found = INLINE.exec(rest);
    if (!found) { out.push(rest); break; }
    if (found.index) out.push(rest.slice(0, found.index));
    const [all] = found;
    if (found[1]) out.push(h("code", {}, all.slice(1, -1)));
    else if (found[2]) out.push(h("strong", {}, inline(all.slice(2, -2))));
    else if (found[3]) out.push(h("em", {}, inline(all.slice(1, -1))));
    else {
      const split = all.indexOf("](");
      // An address in a skill may lead anywhere: it is shown, not followed.
      out.push(h("span", { class: "address" }, all.slice(1, split), h("span", { class: "soft" }, ` (${all.slice(split + 2, -1)})`)));
    }
    rest = rest.slice(found.index + all.length);
  }
  return out;
}

export function markdown(text) {
  const box = h("div", { class: "document" });
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  let at = 0;
  if (lines[0] === "---") {
    const end = lines.indexOf("---", 1);
    if (end > 0) {
      box.append(h("pre", { class: "front", title: "Front matter" }, lines.slice(1, end).join("\n")));
      at = end + 1;
    }
  }
  while (at < lines.length) {
    const line = lines[at];
    if (!line.trim()) { at += 1; continue; }
    const fence = /^\s*(```|~~~)/.exec(line);
    if (fence) {
      let end = at + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence[1])) end += 1;
      box.append(h("pre", { class: "code", tabIndex: 0 }, lines.slice(at + 1, end).join("\n")));
      at = end + 1;
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (heading) { box.append(h(`h${Math.min(6, heading[1].length + 2)}`, { class: `level${heading[1].length}` }, inline(heading[2]))); at += 1; continue; }
    if (/^\s*<!--.*-->\s*$/.test(line)) { box.append(h("p", { class: "mark" }, line.trim())); at += 1; continue; }
    const item = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/.exec(line);
    if (item) {
      const list = h(/\d/.test(item[2]) ? "ol" : "ul", {});
      while (at < lines.length) {
        const next = /^(\s*)([-*+]|\d+[.)])\s+(.*)$/.exec(lines[at]);
        if (next) { list.append(h("li", { style: next[1].length > 1 ? { marginLeft: `${Math.min(6, next[1].length) * 8}px` } : null }, inline(next[3]))); at += 1; } else if (/^\s{2,}\S/.test(lines[at] || "") && list.lastChild) { put(list.lastChild, [" ", inline(lines[at].trim())]); at += 1; } else break;
      }
      box.append(list);
      continue;
    }
    const words = [];
    while (at < lines.length && lines[at].trim() && !/^(#{1,6}\s|\s*[-*+]\s|\s*\d+[.)]\s|\s*(```|~~~))/.test(lines[at])) { words.push(lines[at]); at += 1; }
    if (words.length) box.append(h("p", {}, inline(words.join(" "))));
    else { box.append(h("p", {}, line)); at += 1; }
  }
  return box;
}

const SIGNS = { added: "+", removed: "−", same: " ", gap: "⋯" };

// Line by line; of a reworded line, the words that differ are marked. `note` says more of a line.
export function diff(files, note) {
  if (!files.length) return h("p", { class: "empty" }, "Both are the same.");
  return h("div", { class: "diff" }, files.map((file) => {
    const body = h("div", { class: "diff-body", role: "table", ariaLabel: `Changes of ${file.path}` });
    for (const line of file.lines) {
      if (line.kind === "gap") {
        const hidden = line.pieces.map((piece) => piece.text).join("");
        body.append(h("div", { class: "dl gap", role: "row" }, h("span", { class: "sign", role: "cell" }, SIGNS.gap), h("span", { class: "words", role: "cell" }, hidden)));
        continue;
      }
      const pieces = line.pieces.map((piece) => (piece.changed && line.pieces.length > 1 ? h(line.kind === "added" ? "ins" : "del", {}, piece.text) : piece.text));
      body.append(h("div", { class: `dl ${line.kind}`, role: "row" },
        h("span", { class: "no", role: "cell" }, line.new ?? line.old ?? ""),
        h("span", { class: "sign", role: "cell" }, SIGNS[line.kind]),
        h("span", { class: "words", role: "cell" }, pieces.length ? pieces : " ")));
      const more = note && note(line, file);
      if (more) body.append(h("div", { class: "dl-note", role: "row" }, h("span", { role: "cell" }, more)));
    }
    const added = file.lines.filter((line) => line.kind === "added").length;
    const removed = file.lines.filter((line) => line.kind === "removed").length;
    return h("section", {}, h("header", { class: "diff-head" }, h("code", {}, file.path), h("span", { class: "soft num" }, `+${added} −${removed}`)), body);
  }));
}
