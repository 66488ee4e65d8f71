// Charts by Plotly, which is fetched when the first one is drawn; their space is kept free until then.
import { OUTCOMES, score } from "./dom.js";

let loading = null;

function plotly() {
  loading = loading || new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "/plotly.js";
    script.onload = () => done(window.Plotly);
    script.onerror = () => failed(new Error("Charts need the package plotly: pip install plotly"));
    document.head.append(script);
  });
  return loading;
}

export function warm() { plotly().catch(() => {}); }

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function palette() {
  const names = ["ink", "muted", "line", "surface", "accepted", "rejected", "inconclusive", "skipped", "accent"];
  return Object.fromEntries(names.map((name) => [name, css(`--${name}`)]));
}

function faded(colour, share) {
  const number = parseInt(colour.slice(1), 16);
  return `rgba(${number >> 16}, ${(number >> 8) & 255}, ${number & 255}, ${share})`;
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

function layout(colours, more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: FONT, size: 12, color: colours.muted },
    margin: { l: 46, r: 92, t: 10, b: 34 },
    showlegend: false,
    hovermode: "closest",
    hoverlabel: { bgcolor: colours.surface, bordercolor: colours.line, font: { family: FONT, size: 12, color: colours.ink }, align: "left" },
    dragmode: false,
    ...more,
  };
}

const axis = (colours, more) => ({ gridcolor: colours.line, zeroline: false, showline: false, tickcolor: colours.line, tickangle: 0, fixedrange: true, ...more });

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false, showTips: false };

const SHORT = { "end of epoch": "epoch", "meta reflection": "meta", pruning: "prune", review: "review", "final test": "test" };

// The number of each step, as far as there is room.
export function numbered(steps, most) {
  const named = steps.filter((step) => step.kind === "step");
  const every = Math.max(1, Math.ceil(named.length / most));
  const nice = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000].find((each) => each >= every) || every;
  const kept = named.filter((step) => step.step % nice === 0);
  return { tickvals: [0, ...kept.map((step) => step.position)], ticktext: ["0", ...kept.map((step) => String(step.step))] };
}

// The same, and what is no step by its kind where each has as many pixels as a word needs.
function ticks(steps, most, room) {
  const { tickvals, ticktext } = numbered(steps, most);
  const others = room >= 40 ? steps.filter((step) => SHORT[step.kind]) : [];
  return { tickvals: [...tickvals, ...others.map((step) => step.position)], ticktext: ["start", ...ticktext.slice(1), ...others.map((step) => SHORT[step.kind])] };
}

const at = (value) => (value && value.mean !== null && value.mean !== undefined ? value.mean : null);

function ranged(value) {
  if (!value || value.mean === null) return "not measured";
  if (value.bound) return `at most ${score(value.mean)}`;
  return `${score(value.mean)} [${score(value.low)}, ${score(value.high)}], n ${value.n}`;
}

const plain = (text) => String(text).replace(/[<>&]/g, (sign) => ({ "<": "&lt;", ">": "&gt;", "&": "&amp;" }[sign]));

export class ScoreChart {
  constructor(box, onopen) { this.box = box; this.onopen = onopen; this.ready = false; this.turn = 0; }

  async draw(steps, head) {
    const turn = (this.turn += 1);
    const library = await plotly();
    if (turn !== this.turn || !this.box.isConnected) return;
    const colours = palette();
    const moves = steps.filter((step) => step.kind !== "final test");
    const test = head.claim.split === "test" && head.claim.after ? steps.filter((step) => step.kind === "final test").at(-1) : null;
    const few = steps.length <= 150;
    const trained = few ? moves.filter((step) => at(step.train) !== null) : [];
    const x = moves.map((step) => step.position);
    const end = Math.max(1, (steps.at(-1) || { position: 1 }).position);
    const wide = x.length ? [...x, end + 0.5] : x;
    const held = (values) => (values.length ? [...values, values.at(-1)] : values);
    const line = { shape: "hv" };
    const mobile = this.box.clientWidth < 520;
    const room = (this.box.clientWidth - 130) / Math.max(1, end);
    const apart = room >= 15;
    const most = end + Math.max(0.8, end * 0.012);
    const traces = [
      { x: wide, y: held(moves.map((step) => step.current.high)), mode: "lines", line: { ...line, width: 0 }, hoverinfo: "skip" },
      { x: wide, y: held(moves.map((step) => step.current.low)), mode: "lines", line: { ...line, width: 0 }, fill: "tonexty", fillcolor: faded(colours.accent, 0.13), hoverinfo: "skip" },
      // Each is of another batch: points, which nothing holds until the next.
      { x: trained.map((step) => step.position), y: trained.map((step) => at(step.train)), mode: "markers", marker: { color: colours.surface, size: 6, symbol: "square", line: { color: colours.skipped, width: 1.2 } }, customdata: trained.map((step) => step.position), text: trained.map((step) => `<b>${plain(step.title)}</b><br>train batch ${ranged(step.train)}`), hovertemplate: "%{text}<extra></extra>" },
      { x: wide, y: held(moves.map((step) => at(step.best))), mode: "lines", line: { ...line, color: colours.ink, width: 1.2, dash: "4px,3px" }, hoverinfo: "skip" },
      { x: wide, y: held(moves.map((step) => at(step.current))), mode: "lines", line: { ...line, color: colours.accent, width: 2.2 }, hoverinfo: "skip" },
    ];
    for (const name of ["rejected", "inconclusive", "accepted"]) {
      const some = moves.filter((step) => step.outcome === name && at(step.candidate) !== null);
      if (!some.length) continue;
      traces.push({
        x: some.map((step) => step.position), y: some.map((step) => at(step.candidate)),
        mode: "markers",
        marker: { color: colours[name], opacity: few || name === "accepted" ? 1 : 0.45, size: few ? 9 : name === "accepted" ? 6 : 4, symbol: some.map((step) => (step.candidate.bound ? "triangle-down-open" : { accepted: "circle", rejected: "x-thin", inconclusive: "circle-open-dot" }[name])), line: { color: colours[name], width: name === "accepted" ? 0 : few ? 2 : 1 } },
        error_y: few ? { type: "data", symmetric: false, array: some.map((step) => (step.candidate.bound ? 0 : step.candidate.high - step.candidate.mean)), arrayminus: some.map((step) => (step.candidate.bound ? 0 : step.candidate.mean - step.candidate.low)), color: faded(colours[name], 0.45), thickness: 1, width: 0 } : undefined,
        customdata: some.map((step) => step.position),
        text: some.map((step) => `<b>${plain(step.title)}</b> ${OUTCOMES[name].glyph} ${plain(step.words)}<br>candidate ${ranged(step.candidate)}<br>current ${ranged(step.current)}${step.evidence ? `<br>${plain(step.evidence.reason.slice(0, 90))}` : ""}`),
        hovertemplate: "%{text}<extra></extra>",
      });
    }
    // The learning rate has a panel of its own between the scores and the decisions.
    const allowed = moves.filter((step) => step.budget !== null && step.budget !== undefined);
    const mostAllowed = Math.max(1, ...allowed.map((step) => step.budget));
    if (allowed.length) {
      traces.push({
        x: [...allowed.map((step) => step.position), end + 0.5], y: held(allowed.map((step) => step.budget)), yaxis: "y3", mode: "lines",
        line: { ...line, color: colours.muted, width: 1.5 }, customdata: [...allowed.map((step) => step.position), null],
        text: [...allowed.map((step) => `<b>${plain(step.title)}</b><br>${step.budget} edits allowed, ${step.applied} applied`), ""], hovertemplate: "%{text}<extra></extra>",
      });
    }
    for (const name of Object.keys(OUTCOMES)) {
      const some = steps.filter((step) => step.outcome === name && step.position > 0);
      if (!some.length) continue;
      traces.push({
        x: some.map((step) => step.position), y: some.map(() => (apart ? 0 : { accepted: 0.7, inconclusive: 0.2, rejected: -0.3, skipped: -0.8 }[name] ?? 0)), yaxis: "y2", mode: apart ? "text" : "markers",
        text: some.map(() => OUTCOMES[name].glyph), textfont: { size: 14, color: colours[name] || colours.skipped },
        marker: { color: colours[name] || colours.skipped, size: name === "accepted" ? 8 : 6, symbol: { accepted: "circle", rejected: few ? "x-thin" : "line-ns", inconclusive: few ? "circle-open-dot" : "line-ns", skipped: few ? "line-ew" : "line-ns", measured: "diamond-open" }[name], line: { color: colours[name] || colours.skipped, width: few ? 1.5 : 1 } },
        customdata: some.map((step) => step.position),
        hovertext: some.map((step) => `<b>${plain(step.title)}</b> ${plain(step.words)}${step.evidence ? `<br>${step.evidence.better} better, ${step.evidence.worse} worse of ${step.evidence.n}` : ""}`),
        hovertemplate: "%{hovertext}<extra></extra>",
      });
    }
    const labels = [];
    const last = moves.at(-1);
    const ends = [];
    if (last) {
      if (at(last.current) !== null) ends.push({ y: at(last.current), text: `current ${score(at(last.current))}`, color: colours.accent });
      if (at(last.best) !== null && Math.abs(at(last.best) - at(last.current)) > 1e-9) ends.push({ y: at(last.best), text: `best ${score(at(last.best))}`, color: colours.ink });
    }
    if (trained.length) ends.push({ y: at(trained.at(-1).train), text: `□ train ${score(at(trained.at(-1).train))}`, color: colours.muted });
    if (test) {
      const after = head.claim.after;
      traces.push({ x: [test.position], y: [after.mean], mode: "markers", cliponaxis: false, marker: { color: colours.surface, size: 9, symbol: "diamond", line: { color: colours.ink, width: 1.6 } }, error_y: { type: "data", symmetric: false, array: [after.high - after.mean], arrayminus: [after.mean - after.low], color: colours.ink, thickness: 1, width: 3 }, text: [`<b>final test</b><br>${ranged(after)}`], hovertemplate: "%{text}<extra></extra>" });
      ends.push({ y: after.mean, text: `◇ test ${score(after.mean)}`, color: colours.ink });
    }
    // Labels at the end of lines stand apart from each other.
    ends.sort((one, other) => other.y - one.y);
    let above = Infinity;
    for (const each of ends) {
      const place = Math.min(each.y, above - 0.075);
      above = place;
      labels.push({ x: 1, xref: "paper", xanchor: "left", xshift: 6, y: place, yref: "y", yanchor: "middle", text: each.text, showarrow: false, font: { size: 12, color: each.color } });
    }
    const n = moves.length ? moves[0].current.n : 0;
    labels.push({ x: 0, xref: "paper", xanchor: "left", xshift: -36, y: 1, yref: "paper", yanchor: "bottom", yshift: 4, text: `${plain(head.metric || "")} score on ${n} val items; band: 95 % interval`, showarrow: false, font: { size: 12, color: colours.muted } });
    if (allowed.length) labels.push({ x: 1, xref: "paper", xanchor: "left", xshift: 6, y: allowed.at(-1).budget, yref: "y3", yanchor: "middle", text: mobile ? "edits" : "edits allowed", showarrow: false, font: { size: 12, color: colours.muted } });
    if (steps.length > 1) labels.push({ x: 1, xref: "paper", xanchor: "left", xshift: 6, y: 0, yref: "paper", yanchor: "top", yshift: -7, text: "step", showarrow: false, font: { size: 12, color: colours.muted } });
    const marks = ticks(steps, mobile ? 5 : 12, room);
    const figure = layout(colours, {
      margin: { l: 38, r: 92, t: 26, b: 24 },
      xaxis: axis(colours, { ...marks, tickmode: "array", range: [-0.4, most], showgrid: false, anchor: steps.length > 1 ? "y2" : "y" }),
      yaxis: axis(colours, { range: [-0.02, 1.04], domain: [allowed.length ? 0.28 : 0.14, 1], tickvals: [0, 0.25, 0.5, 0.75, 1], ticktext: ["0", "0.25", "0.5", "0.75", "1"] }),
      yaxis3: axis(colours, { range: [0, mostAllowed * 1.15], domain: [0.13, 0.22], tickvals: [0, mostAllowed], showgrid: true, visible: allowed.length > 0 }),
      yaxis2: axis(colours, { range: [-1, 1], domain: [0, 0.1], showticklabels: false, showgrid: false, ticks: "" }),
      annotations: labels,
    });
    await library.react(this.box, traces, figure, CONFIG);
    if (!this.ready) {
      this.ready = true;
      this.box.on("plotly_click", (event) => { const place = event.points[0].customdata; if (place !== undefined && place !== null) this.onopen(place); });
    }
    this.box.classList.add("drawn");
  }
}

// A few lines over steps, labelled at their ends: runs side by side, the size of a skill.
export async function lines(box, series, titles) {
  const library = await plotly();
  if (!box.isConnected) return;
  const colours = palette();
  const inks = [colours.accepted, colours.rejected, colours.inconclusive, colours.ink, colours.skipped];
  const dashes = ["solid", "5px,3px", "2px,2px", "8px,3px,2px,3px"];
  const labels = [];
  const traces = [];
  const most = Math.max(1, ...series.flatMap((each) => each.y));
  series.forEach((each, index) => {
    const colour = each.colour ? colours[each.colour] : inks[index % inks.length];
    if (each.low) {
      traces.push({ x: each.x, y: each.high, mode: "lines", line: { shape: "hv", width: 0 }, hoverinfo: "skip" });
      traces.push({ x: each.x, y: each.low, mode: "lines", line: { shape: "hv", width: 0 }, fill: "tonexty", fillcolor: faded(colour, 0.1), hoverinfo: "skip" });
    }
    traces.push({ x: each.x, y: each.y, mode: "lines", line: { shape: each.shape || "hv", color: colour, width: 2, dash: dashes[Math.floor(index / inks.length) % dashes.length] }, name: each.name, hovertemplate: `${plain(each.name)}: %{y}<extra></extra>` });
    labels.push({ x: each.x.at(-1), y: each.y.at(-1), xanchor: "left", xshift: 6, text: plain(each.name), showarrow: false, font: { size: 12, color: colour } });
  });
  labels.sort((one, other) => other.y - one.y);
  let above = Infinity;
  for (const each of labels) { each.y = Math.min(each.y, above - most * 0.07); above = each.y; }
  labels.push({ x: 0, xref: "paper", xanchor: "left", xshift: -40, y: 1, yref: "paper", yanchor: "bottom", yshift: 4, text: plain(titles.y), showarrow: false, font: { size: 12, color: colours.muted } });
  labels.push({ x: 1, xref: "paper", xanchor: "left", xshift: 20, y: 0, yref: "paper", yanchor: "top", yshift: -4, text: titles.x, showarrow: false, font: { size: 12, color: colours.muted } });
  await library.react(box, traces, layout(colours, {
    margin: { l: 44, r: titles.room || 120, t: 26, b: 24 },
    xaxis: axis(colours, { showgrid: false, tickformat: "d", rangemode: "tozero", nticks: 8, ...titles.ticks }),
    yaxis: axis(colours, { range: titles.range, rangemode: "tozero", nticks: 5 }),
    annotations: labels,
  }), CONFIG);
}
