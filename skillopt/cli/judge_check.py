"""`skillopt judge-check`: how far a judge agrees with people."""

from __future__ import annotations

import json
from pathlib import Path

from rich.text import Text

from skillopt.api import JudgeAgreement, judge_check_async
from skillopt.cli.arguments import Session
from skillopt.cli.formatting import count, paid
from skillopt.cli.render import Screen
from skillopt.cli.running import Command
from skillopt.cli.tables import Table

_SHOWN = 10
"""Disagreements that are listed."""
_WIDE = 120
"""Letters of an answer or a reason that are shown."""


def judge_check(session: Session, labels: Path, *, as_json: bool) -> None:
    command = Command(session)
    secrets, config = command.unlock(), command.config()
    found = command.run(judge_check_async(labels, config, secrets=secrets))
    if as_json:
        told = json.dumps(_document(found), indent=2, ensure_ascii=False)
        command.screen.show(session.hide(told))
    else:
        _show(found, command.screen)


def _document(found: JudgeAgreement) -> dict[str, object]:
    return {
        "judge": found.judge,
        "n": len(found.answers),
        "unscored": len(found.unscored),
        "agreement": found.agreement.mean,
        "agreement_interval_95": [found.agreement.low, found.agreement.high],
        "kappa": None if found.kappa is None else found.kappa.mean,
        "kappa_interval_95": None if found.kappa is None else [found.kappa.low, found.kappa.high],
        "confusion": [
            {"people": label, "judge": verdict, "count": number}
            for (label, verdict), number in sorted(found.confusion.items())
        ],
        "disagreements": [
            {
                "where": each.where,
                "people": each.label,
                "judge": each.verdict,
                "answer": each.answer,
                "reason": each.reason,
            }
            for each in found.disagreements
        ],
    }


def _show(found: JudgeAgreement, screen: Screen) -> None:
    agreed = found.agreement
    screen.show(
        f"judge {found.judge}: agrees on {agreed.mean:.3f} [{agreed.low:.3f}, {agreed.high:.3f}] "
        f"of {count(len(found.judged), 'answer')}"
    )
    if found.kappa is None:
        screen.show(
            "kappa is not defined: there was only one label. Add answers of the other kind."
        )
    else:
        screen.show(
            f"Cohen's kappa {found.kappa.mean:.3f} [{found.kappa.low:.3f}, {found.kappa.high:.3f}]"
        )
    if found.unscored:
        screen.show(f"{count(len(found.unscored), 'answer')} without a usable verdict")
    table = Table("people \\ judge", *found.verdicts, right=found.verdicts)
    for label in found.verdicts:
        table.add_row(label, *(str(found.confusion.get((label, v), 0)) for v in found.verdicts))
    screen.show("", table)
    if found.disagreements:
        rows = [
            (each.where, each.label, each.verdict, Text(_cut(each.answer)), Text(_cut(each.reason)))
            for each in found.disagreements[:_SHOWN]
        ]
        columns = ("answer at", "people", "judge", "answer", "reason of the judge")
        screen.show("", Table(*columns, wrap=["answer", "reason of the judge"], rows=rows))
        if (more := len(found.disagreements) - _SHOWN) > 0:
            screen.show(f"and {more} more; --json lists all")
    screen.show("", f"cost   {paid(found.spent)}")


def _cut(text: str) -> str:
    plain = " ".join(text.split())
    return f"{plain[:_WIDE]} ..." if len(plain) > _WIDE else plain
