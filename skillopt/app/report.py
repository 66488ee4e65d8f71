"""The report of a run: one HTML file that needs nothing else, and a summary in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import groupby
from typing import Final

from skillopt.analysis.differences import DiffLine, FileDiff
from skillopt.analysis.integrity.findings import CheckFinding
from skillopt.analysis.items import COURSES, INFRASTRUCTURE, ItemRow, ItemTable
from skillopt.app.attributing import Blame, BlamedLine
from skillopt.app.charts import (
    MARKS,
    MOST_ROWS,
    budget_chart,
    cost_chart,
    item_map,
    score_chart,
    size_chart,
)
from skillopt.app.cost_views import CostView, Spending, SpendLimit
from skillopt.app.step_views import ProposalView, ScoreView, StepDetail, StepEvidence, StepView
from skillopt.app.views import ClaimView, RunHead, RunViews
from skillopt.app.wording import REPORT_MARK, count, duration, short, some, spelt
from skillopt.config.redaction import redact
from skillopt.config.schema import Config
from skillopt.core.controls import escaped
from skillopt.core.skill import MAIN
from skillopt.core.tokens import estimate
from skillopt.core.wording import counted

_WIDE, _NARROW = 920, 358
_TOLD: Final = 40
"""Moves whose proposals are in the report: all that were accepted, and the latest of the others."""
_FOLDED: Final = 100
"""Moves above which those that changed nothing are folded, but for the latest."""
_NAMED: Final = 40
"""Items that a list names."""
_DOT: Final = " \u00b7 "
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True, slots=True)
class ReportParts:
    """What a report is made of besides the record."""

    findings: Sequence[CheckFinding] = ()
    """What `check` found about the best skill."""
    unchecked: str = ""
    """Why nothing was checked, if so."""
    made: str = ""
    """When, as text."""


def report_html(views: RunViews, parts: ReportParts) -> str:
    """The whole report as one document: no scripts, no other files."""
    head = views.head
    body = "".join(_sections(views, head, parts))
    style = (files("skillopt.app") / "report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n{REPORT_MARK}\n'
        f"<title>{_e(head.name)}: {_e(head.claim.sentence)}</title>\n<style>\n{style}</style>\n"
        f"</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _sections(views: RunViews, head: RunHead, parts: ReportParts) -> Iterator[str]:
    yield _header(head)
    if not views.begun:
        yield "<p>The initial skill is being measured; there is nothing to show yet.</p>"
        yield _footer(head, parts)
        return
    cost, items = views.cost(), views.items()
    yield _answers(views, head, cost, items)
    yield "<main>"
    yield _charts(views, head, cost)
    yield _timeline(views)
    yield _skill(views, head)
    yield _items(views, items)
    yield _cost(cost)
    yield _integrity(views, parts)
    yield _configuration(views.config)
    yield "</main>"
    yield _footer(head, parts)


def _header(head: RunHead) -> str:
    simulated = '<span class="badge warn">simulated models</span>' if head.simulated else ""
    why = f": {_e(head.why)}" if head.why and head.status != "finished" else ""
    made_with = [
        f"target {_e(head.target)}" if head.target else "",
        f"optimizer {_e(head.optimizer)}" if head.optimizer else "",
        f"{_e(head.benchmark)}, {_e(head.data or 'rows given in Python')}"
        if head.benchmark
        else "",
        "" if head.seed is None else f"seed {head.seed}",
    ]
    return (
        f'<header><h1>{_e(head.name)}<span class="badge">{_e(head.status)}</span>{simulated}</h1>'
        f"{_claim(head.claim)}"
        f'<p class="muted">{_DOT.join(filter(None, made_with))}{why}</p></header>'
    )


def _claim(claim: ClaimView) -> str:
    if claim.gain is None or claim.low is None or claim.high is None:
        return f'<p class="claim">{_e(claim.sentence)}</p>'
    gain = f"{claim.gain:+.2f}"
    rest = claim.sentence.removeprefix(gain)
    return f'<p class="claim">{gain}<span class="light">{_e(rest)}</span></p>'


def _answers(views: RunViews, head: RunHead, cost: CostView, items: ItemTable) -> str:
    """What a person asks first, each with its answer."""
    claim = head.claim
    before, after = claim.before, claim.after
    sizes = [estimate(views.skill(name).render()) for name in ("initial", "best")]
    changed = views.diff(context=0).files
    added, removed = sum(file.added for file in changed), sum(file.removed for file in changed)
    tally = views.tally
    wrong = items.counts.get("always wrong", 0)
    believed = "conclusive" if claim.conclusive else "not conclusive"
    answers = [
        (
            "Is it better?",
            f"{_mean(before)} \u2192 {_mean(after)}",
            f"{head.metric} score on {claim.n} {claim.split} items",
        ),
        (
            "Can I believe it?",
            believed if claim.split == "test" else "not tested",
            f"{claim.changed} of {claim.n} items changed"
            + (f", {count(claim.failures, 'attempt')} failed" if claim.failures else ""),
        ),
        (
            "What changed?",
            f"+{added} \u2212{removed} lines" if changed else "nothing",
            f"{tally.accepted} of {count(tally.candidates, 'candidate')} accepted; "
            f"{sizes[0]:,} \u2192 {sizes[1]:,} tokens",
        ),
        (
            "What did it cost?",
            _money(cost.total.dollars)
            if cost.total.dollars
            else f"{short(cost.total.tokens)} tokens",
            f"{cost.total.calls:,} calls, {short(cost.total.input)} + {short(cost.total.output)} "
            f"tokens, {duration(head.seconds)}"
            + ("" if not cost.unpriced else "; dollars unknown"),
        ),
        (
            "Where is it stuck?",
            f"{count(wrong, 'item')} always wrong" if wrong else "no item is always wrong",
            f"of {len(items.rows)} items that were tried",
        ),
    ]
    listed = "".join(
        f"<div><dt>{_e(asked)}</dt><dd>{_e(answer)}<small>{_e(more)}</small></dd></div>"
        for asked, answer, more in answers
    )
    return f'<dl class="facts">{listed}</dl>'


def _mean(score: ScoreView | None) -> str:
    return "unknown" if score is None or score.mean is None else f"{score.mean:.2f}"


def _money(dollars: float | None) -> str:
    if dollars is None:
        return "unknown"
    return f"${dollars:,.2f}" if dollars >= 0.1 or not dollars else f"${dollars:.4f}"


def _both(draw: Callable[[int], str]) -> str:
    """A chart for wide pages and paper, and one for phones."""
    if not (wide := draw(_WIDE)):
        return ""
    return f'<div class="wide">{wide}</div><div class="narrow">{draw(_NARROW)}</div>'


def _charts(views: RunViews, head: RunHead, cost: CostView) -> str:
    legend = "".join(
        f'<span><span class="{name}">{mark}</span> {name}</span>'
        for name, (mark, _) in MARKS.items()
        if name != "measured"
    )
    legend += f"<span>{MARKS['measured'][0]} final test</span>"
    return (
        "<section><h2>Scores</h2>"
        + _both(lambda width: score_chart(views.steps, head.metric, width))
        + f'<p class="legend">{legend}<span>\u22a4 with an arrow: an upper bound, measured in part'
        "</span><span>bands: 95 % interval of the best skill</span></p>"
        + _both(lambda width: budget_chart(views.steps, width))
        + _both(lambda width: cost_chart(views.steps, cost, width))
        + _both(lambda width: size_chart(views.steps, width))
        + "</section>"
    )


def _timeline(views: RunViews) -> str:
    moves = [step for step in views.steps if step.outcome != "measured"]
    if not moves:
        return "<section><h2>Steps</h2><p>No step is finished yet.</p></section>"
    older = len(moves) - _TOLD
    rows: list[str] = []
    for accepted, group in groupby(
        enumerate(moves), lambda each: each[1].outcome == "accepted" or each[0] >= older
    ):
        steps = [step for _, step in group]
        if accepted:
            rows += [_step_row(step, views.step(step.position)) for step in steps]
        else:
            rows += _folded(steps) if len(moves) > _FOLDED else [_step_row(step) for step in steps]
    return f'<section><h2>Steps</h2><table class="steps">{_HEAD}{"".join(rows)}</table></section>'


_HEAD: Final = (
    "<thead><tr><th>move</th><th>outcome</th>"
    + "".join(
        f'<th class="n">{name}</th>'
        for name in ("candidate", "gain [95 %]", "flips", "p or e-value", "edits")
    )
    + "</tr></thead>"
)


def _folded(steps: Sequence[StepView]) -> Iterator[str]:
    """Moves of a long run that changed nothing."""
    counted = Counter(step.outcome for step in steps)
    told = ", ".join(f"{number} {name}" for name, number in counted.items())
    first, last = steps[0].title, steps[-1].title
    between = first if len(steps) == 1 else f"{first} to {last}"
    rows = "".join(_step_row(step) for step in steps)
    yield (
        f'<tr><td class="block" colspan="7"><details class="keep"><summary>{_e(between)}: '
        f'{told}</summary><table class="steps">{rows}</table></details></td></tr>'
    )


def _step_row(step: StepView, detail: StepDetail | None = None) -> str:
    mark, _ = MARKS[step.outcome]
    evidence = step.evidence
    gain = flips = test = ""
    if evidence is not None and evidence.gain is not None:
        gain = f"{evidence.gain:+.3f} {_light(f'[{evidence.low:+.2f}, {evidence.high:+.2f}]')}"
        flips = f"+{len(evidence.better)} \u2212{len(evidence.worse)} {_light(f'of {evidence.n}')}"
        test = _test(evidence)
    edits = f"{step.applied} of {step.applied + step.missed}" if step.missed else str(step.applied)
    cells = (
        f'<td class="nowrap">{_e(step.title)}</td>'
        f'<td><span class="mark {step.outcome}">{mark}</span> {_e(step.words)}</td>'
        + _cell("candidate", "" if step.candidate is None else _score(step.candidate))
        + _cell("gain", gain)
        + _cell("flips", flips)
        + _cell("", test)
        + _cell("edits", edits if step.applied or step.missed else "")
    )
    more = _story(step, detail)
    below = f'<tr><td class="block" colspan="7">{more}</td></tr>' if more else ""
    return f'<tr class="{"told" if more else ""}">{cells}</tr>{below}'


def _cell(name: str, content: str) -> str:
    named = f' data-name="{name}"' if name and content else ""
    return f'<td class="n"{named}>{content}</td>'


def _light(text: str) -> str:
    return f'<span class="light">{_e(text)}</span>'


def _score(score: ScoreView) -> str:
    if score.mean is None or score.bound:
        return _e(score.text)
    return f"{score.mean:.3f} {_light(f'[{score.low:.2f}, {score.high:.2f}]')}"


def _test(evidence: StepEvidence) -> str:
    if evidence.e_value is not None:
        return f"e {evidence.e_value:g}"
    return "" if evidence.p is None else f"p {evidence.p:.2g}"


def _story(step: StepView, detail: StepDetail | None) -> str:
    """What a move tried, folded."""
    if detail is None or not (detail.proposals or detail.diff):
        return ""
    reason = f"<p>{_e(step.evidence.reason)}</p>" if step.evidence else ""
    proposals = "".join(map(_proposal, detail.proposals))
    problems = "".join(f'<p class="rejected">{_e(problem)}</p>' for problem in detail.problems)
    gist = _e(step.gist or "what was tried")
    changes = "".join(_diff_table(file) for file in detail.diff)
    return f"<details><summary>{gist}</summary>{reason}{problems}{proposals}{changes}</details>"


_VERBS: Final = {"insert_after": "after", "replace": "instead of", "delete": "without"}


def _proposal(proposal: ProposalView) -> str:
    style = "accepted" if proposal.fate == "applied" else "rejected"
    what = proposal.op.replace("_", " ")
    where = "" if proposal.file == MAIN else f" in {_e(proposal.file)}"
    detail = f" ({_e(proposal.detail)})" if proposal.detail and proposal.fate != "applied" else ""
    came = "failures" if proposal.source == "failure" else "successes"
    items = f", {came}: {some(proposal.tasks, 6)}" if proposal.tasks else ""
    texts = [
        _light(f"{_VERBS.get(proposal.op, '')} {proposal.target}") if proposal.target else "",
        _e(proposal.content),
        f'<span class="light">because {_e(proposal.why)}</span>' if proposal.why else "",
    ]
    return (
        f'<div class="proposal"><span class="mark {style}">{_e(proposal.fate)}{detail}</span> '
        f"{_e(what)}{where} {_light(f'by {proposal.by}')}{_light(items)}\n"
        + "\n".join(filter(None, texts))
        + "</div>"
    )


def _diff_table(file: FileDiff, note: Callable[[DiffLine], str] | None = None) -> str:
    name = "" if file.path == MAIN else f"<h3>{_e(file.path)}</h3>"
    rows = "".join(_diff_row(line, note) for line in file.lines)
    return f'{name}<table class="diff">{rows}</table>'


_SIGNS: Final = {"added": "+", "removed": "\u2212", "same": "", "gap": "\u22ef"}


def _diff_row(line: DiffLine, note: Callable[[DiffLine], str] | None) -> str:
    whole = all(piece.changed for piece in line.pieces)
    text = "".join(
        f"<mark>{_e(piece.text)}</mark>" if piece.changed and not whole else _e(piece.text)
        for piece in line.pieces
    )
    beside = "" if note is None else f'<td class="from">{note(line)}</td>'
    sign = _SIGNS[line.kind]
    return f'<tr class="{line.kind}"><td class="sign">{sign}</td><td>{text}</td>{beside}</tr>'


def _skill(views: RunViews, head: RunHead) -> str:
    blame = views.blame("best")
    changed = views.diff(context=3).files
    told = (
        "".join(_diff_table(file, _lineage(blame, file.path)) for file in changed)
        or "<p>The best skill is the initial one.</p>"
    )
    measured = (
        ""
        if blame.measured or not changed
        else (
            '<p class="muted">The effect of single rules is not measured; '
            f"<code>skillopt attribute {_e(head.folder.resolve().name)}</code> does that.</p>"
        )
    )
    whole = _e(views.skill("best").render())
    return (
        f"<section><h2>Skill</h2><p>From the initial skill to the best one "
        f"({_e(spelt(head.best))}), each new line with its origin and evidence.</p>{told}{measured}"
        f"<details><summary>the whole best skill</summary><pre>{whole}</pre></details></section>"
    )


def _lineage(blame: Blame, path: str) -> Callable[[DiffLine], str]:
    lines = {line.number: line for line in blame.lines if line.file == path}

    def note(line: DiffLine) -> str:
        known = None if line.new is None else lines.get(line.new)
        if known is None:
            return ""
        return _origin(known, whole=line.kind == "added")

    return note


def _origin(line: BlamedLine, *, whole: bool) -> str:
    parts: list[str] = []
    if line.protected:
        parts.append('<span class="protected">protected</span>')
    if whole and line.origin is not None and line.text.strip():
        origin = line.origin
        move = spelt(origin.move)
        by = f" ({', '.join(origin.by)})" if origin.by and origin.by[0] not in move else ""
        evidence = f", from {some(origin.tasks, 1)}" if origin.tasks else ""
        parts.append(_e(f"{move}{by}{evidence}"))
    if line.worth is not None:
        worth = line.worth
        parts.append(f"effect {worth.gain:+.2f} [{worth.low:+.2f}, {worth.high:+.2f}]")
    return _DOT.join(parts)


_COURSE_WORDS: Final = {
    "regressed": "passed with the initial skill, not with the latest",
    "fixed": "wrong with the initial skill, passed with the latest",
    "flipped": "changed and changed back",
    "always wrong": "wrong with every skill that was kept",
    "not tried again": "wrong with an earlier skill, not tried with the latest",
    "always right": "passed with every skill that was kept",
    INFRASTRUCTURE: "an attempt has no score; it never counts as wrong",
    "not tried": "without a score so far",
}


def _items(views: RunViews, table: ItemTable) -> str:
    shown = [row for row in table.rows if row.course not in {"always right", "not tried"}]
    lists = "".join(
        _course(views, name, table.only(name))
        for name in (*COURSES, INFRASTRUCTURE)
        if table.counts.get(name)
    )
    more = len(shown) - MOST_ROWS
    left_out = f"<p class='muted'>not drawn: {counted(more, 'more item')}</p>" if more > 0 else ""
    picture = _both(lambda width: item_map(table, shown, width))
    legend = (
        '<p class="legend"><span>dark: passed</span><span>light with a dot: wrong</span>'
        "<span>dashed: failed by infrastructure</span><span>skills that were "
        "kept; in short, a number is a step, r a review, e guidance after an epoch</span></p>"
        if picture
        else ""
    )
    return f"<section><h2>Items</h2>{lists}{legend}{picture}{left_out}</section>"


def _course(views: RunViews, name: str, rows: Sequence[ItemRow]) -> str:
    told = [f"{row.task} ({views.places[row.task]})" if row.task in views.places else row.task
            for row in rows]  # fmt: skip
    return (
        f'<details class="keep"><summary>{len(rows):,} {_e(name)}: '
        f'<span class="light">{_e(_COURSE_WORDS[name])}</span></summary>'
        f"<p>{_e(some(told, _NAMED))}</p></details>"
    )


def _cost(cost: CostView) -> str:
    rows = "".join(
        _spending(role) + "".join(_spending(stage, "light") for stage in role.parts)
        for role in cost.roles
    ) + _spending(cost.total)
    limits = "".join(map(_limit, cost.limits)) or '<p class="muted">No limit was set.</p>'
    unpriced = (
        f'<p class="muted">Dollars unknown: no price for {_e(" and ".join(cost.unpriced))}.</p>'
        if cost.unpriced
        else ""
    )
    notes = "".join(f'<p class="muted">{_e(note)}.</p>' for note in cost.notes)
    head = "".join(
        f'<th class="n">{name}</th>' for name in ("calls", "tokens in", "tokens out", "dollars")
    )
    return (
        f'<section><h2>Cost</h2><div class="scroll"><table><thead><tr><th>role</th>{head}</tr>'
        f"</thead><tbody>{rows}</tbody></table></div>{unpriced}{notes}{limits}</section>"
    )


def _limit(limit: SpendLimit) -> str:
    told = f"{_amount(limit.name, limit.used)} of {_amount(limit.name, limit.most)}"
    if limit.used is None:
        return f"<p>{limit.name}: at most {_amount(limit.name, limit.most)} for each process</p>"
    share = min(100, 100 * limit.used / limit.most)
    bar = f'<div class="bar"><i style="width:{share:.0f}%"></i></div>'
    return f"<div><p>{limit.name}: {told}</p>{bar}</div>"


def _spending(spent: Spending, style: str = "") -> str:
    indent = "&ensp;" if style else ""
    return (
        f'<tr class="{style}"><td>{indent}{_e(spent.name)}</td><td class="n">{spent.calls:,}</td>'
        f'<td class="n">{spent.input:,}</td><td class="n">{spent.output:,}</td>'
        f'<td class="n">{_money(spent.dollars)}</td></tr>'
    )


def _amount(name: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    return _money(value) if name == "dollars" else f"{value:,.0f}"


_VERDICTS: Final = {
    "ok": ("\u2713", "accepted"),
    "look": ("\u25d0", "inconclusive"),
    "bad": ("\u2715", "rejected"),
    "left out": ("\u2013", "skipped"),
}


def _integrity(views: RunViews, parts: ReportParts) -> str:
    found = views.findings()
    warned = "".join(f"<li>{_e(text)}</li>" for text in found)
    warnings = f"<ul>{warned}</ul>" if warned else "<p>The record shows no reason for doubt.</p>"
    rows = "".join(
        f'<tr><td class="mark {_VERDICTS[each.verdict][1]}">{_VERDICTS[each.verdict][0]} '
        f"{each.verdict}</td><td>{_e(each.check)}</td><td>{_e(each.found)}"
        + (f"<br>{_light(each.advice)}" if each.advice else "")
        + "</td></tr>"
        for each in parts.findings
    )
    checks = f"<table><tbody>{rows}</tbody></table>" if rows else ""
    unchecked = (
        '<p class="muted">Whether the skill copies items was not checked: '
        f"{_e(parts.unchecked)}</p>"
        if parts.unchecked
        else ""
    )
    return f"<section><h2>Integrity</h2>{warnings}{checks}{unchecked}</section>"


def _configuration(config: Config | None) -> str:
    if config is None:
        lost = "The settings of the run cannot be read."
        return f"<section><h2>Configuration</h2><p>{lost}</p></section>"
    usual = Config().values()
    changed = {
        key: value for key, value in config.values().items() if usual.get(key, None) != value
    }
    rows = "".join(
        f"<tr><td><code>{_e(key)}</code></td><td>{_e(redact(str(value)))}</td></tr>"
        for key, value in changed.items()
        if value not in ("", None)
    )
    return (
        "<section><h2>Configuration</h2><p>Settings that differ from the defaults; secrets are "
        f"hidden.</p><table><tbody>{rows}</tbody></table><details><summary>all settings</summary>"
        f"<pre>{_e(redact(config.dump()))}</pre></details></section>"
    )


def _footer(head: RunHead, parts: ReportParts) -> str:
    version = f"skillopt {_e(head.version)}" if head.version else "skillopt"
    return f"<footer>{version}{f', {_e(parts.made)}' if parts.made else ''}</footer>"


def _e(text: str) -> str:
    return escape(escaped(text))
