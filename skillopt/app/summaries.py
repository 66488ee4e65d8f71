"""A run on half a page: in Markdown for pull requests, in HTML for notebooks."""

from __future__ import annotations

import re
from html import escape

from skillopt.analysis.differences import FileDiff
from skillopt.app.charts import score_chart
from skillopt.app.cost_views import CostView
from skillopt.app.step_views import ScoreView, StepView
from skillopt.app.views import RunHead, RunViews
from skillopt.app.wording import REPORT_MARK, count, duration, short, spelt
from skillopt.core.controls import escaped
from skillopt.core.skill import MAIN
from skillopt.core.wording import counted

_LINES = 60
"""Of the difference between the initial and the best skill."""
_STEPS = 12


def run_markdown(views: RunViews) -> str:
    """The claim, scores, decisions, the change of the skill, cost, and reasons for doubt."""
    head = views.head
    lines = [
        f"### {_code_free(head.name)}: {_code_free(head.claim.sentence)}",
        "",
        _made_with(head),
    ]
    if not views.begun:
        return "\n".join([*lines, "", "The initial skill is being measured.", "", REPORT_MARK, ""])
    lines += ["", *_scores(views, head), "", _tally(views), ""]
    accepted = [step for step in views.steps if step.outcome == "accepted"]
    lines += [_step(step) for step in accepted[-_STEPS:]]
    if len(accepted) > _STEPS:
        lines.append(f"- and {len(accepted) - _STEPS} earlier ones")
    lines += ["", *_change(views), f"Cost: {_cost(views.cost())}, {duration(head.seconds)}."]
    for finding in views.findings():
        lines += ["", f"> **Note:** {_code_free(finding)}"]
    return "\n".join([*lines, "", REPORT_MARK]).replace("\n\n\n", "\n\n") + "\n"


def _made_with(head: RunHead) -> str:
    parts = [
        f"Status: {head.status}",
        f"target `{_code(head.target)}`" if head.target else "",
        f"optimizer `{_code(head.optimizer)}`" if head.optimizer else "",
        f"data `{_code(head.data or 'rows given in Python')}`" if head.benchmark else "",
    ]
    simulated = " **Simulated models: the scores say nothing about a real model.**"
    return "; ".join(filter(None, parts)) + "." + (simulated if head.simulated else "")


def _scores(views: RunViews, head: RunHead) -> list[str]:
    claim = head.claim
    rows = [f"| {head.metric} score | initial [95 %] | best [95 %] | n |", "|---|---|---|---|"]
    val = [step for step in views.steps if step.kind == "baseline"]
    if claim.split == "test" and claim.before and claim.after:
        rows.append(_row("test", claim.before, claim.after))
    if val:
        rows.append(_row("val", val[0].current, views.steps[-1].best))
    return rows


def _row(split: str, before: ScoreView, after: ScoreView) -> str:
    n = str(before.n) if before.n == after.n else f"{before.n} / {after.n}"
    return f"| {split} | {before.text} | {after.text} | {n} |"


def _tally(views: RunViews) -> str:
    items = views.items().counts
    flips = ", ".join(
        f"{items[name]} {name}"
        for name in (
            "fixed",
            "regressed",
            "always right",
            "always wrong",
            "failed by infrastructure",
        )
        if items.get(name)
    )
    return f"{views.tally.words}. Items: {flips or 'no flips'}."


def _step(step: StepView) -> str:
    evidence = step.evidence
    shown = ""
    if evidence is not None and evidence.gain is not None:
        shown = (
            f" {evidence.gain:+.3f} [{evidence.low:+.2f}, {evidence.high:+.2f}], "
            f"+{len(evidence.better)} \u2212{len(evidence.worse)} of {evidence.n} items"
        )
    gist = f" `{_code(step.gist)}`" if step.gist else ""
    return f"- {step.title}: {_code_free(step.words)}{shown}{gist}"


def _change(views: RunViews) -> list[str]:
    files = views.diff(context=1).files
    if not files:
        return ["The best skill is the initial one.", ""]
    lines = [line for file in files for line in _unified(file)]
    more = len(lines) - _LINES
    shown = [*lines[:_LINES], *([f"... {counted(more, 'more line')}"] if more > 0 else [])]
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", "\n".join(shown))), default=0))
    title = f"Change of the skill ({spelt(views.head.best)})"
    return [
        f"<details><summary>{escape(title)}</summary>",
        "",
        f"{fence}diff",
        *shown,
        fence,
        "",
        "</details>",
        "",
    ]


_SIGNS = {"added": "+", "removed": "-", "same": " ", "gap": "@"}


def _unified(file: FileDiff) -> list[str]:
    named = [] if file.path == MAIN else [f"@ {file.path}"]
    return [*named, *(f"{_SIGNS[line.kind]} {escaped(line.text)}" for line in file.lines)]


def _cost(cost: CostView) -> str:
    total = cost.total
    tokens = f"{count(total.calls, 'call')}, {short(total.input)} + {short(total.output)} tokens"
    if cost.unpriced:
        return f"{tokens}, dollars unknown"
    return f"{tokens}, ${total.dollars:,.2f}" if total.dollars else tokens


def _code(text: str) -> str:
    """Within backquotes, on one line of a table."""
    return " ".join(escaped(text).replace("`", "'").replace("|", "\\|").split())


def _code_free(text: str) -> str:
    """As plain text: nothing in it is read as Markdown or HTML."""
    plain = " ".join(escaped(text).split())
    return re.sub(r"([\\`*_{}\[\]<>|#@!])", r"\\\1", plain)


def run_html(views: RunViews) -> str:
    """For notebooks: the claim, the chart of scores, what changed and what it cost."""
    head = views.head
    status = f"{_e(head.status)}, {_e(str(head.folder))}"
    if not views.begun:
        return f"<p><b>{_e(head.claim.sentence)}</b><br>{status}</p>"
    claim = head.claim
    before, after = (
        "unknown" if score is None else score.text for score in (claim.before, claim.after)
    )
    chart = score_chart(views.steps, head.metric, 640) if len(views.steps) > 1 else ""
    changed = "\n".join(line for file in views.diff(context=1).files for line in _unified(file))
    skill = views.skill("best").render()
    return (
        f'<div style="max-width:680px"><p><b>{_e(claim.sentence)}</b></p>'
        f"<table><tr><th>{claim.split}</th><th>score [95 %]</th></tr>"
        f"<tr><td>before</td><td>{_e(before)}</td></tr>"
        f"<tr><td>after</td><td>{_e(after)}</td></tr></table>{chart}"
        f"<p>{_e(_tally(views))}<br>{_e(_cost(views.cost()))}, {duration(head.seconds)}<br>"
        f"{status}</p>"
        f"<details><summary>change of the skill</summary><pre>{_e(changed)}</pre></details>"
        f"<details><summary>best skill</summary><pre>{_e(skill)}</pre></details></div>"
    )


def _e(text: str) -> str:
    return escape(escaped(text))
