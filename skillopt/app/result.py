"""The result of a training run."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

from skillopt.analysis.report import Claim, claim, mean, metric_of
from skillopt.core.chat import Usage
from skillopt.core.rollout import Evaluation
from skillopt.core.state import State
from skillopt.core.task import Split
from skillopt.gates.statistics import Interval
from skillopt.store.reader import RunReader
from skillopt.store.run_history import useless


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """The result of a training run."""

    best_skill: str
    """The best skill as one text; a package is also stored as the folder `best_skill` in `out`."""
    state: State
    """The complete state: scores per task, the final test, the last skill."""
    out: Path
    """The run directory. The same call resumes the run there."""
    spent: Usage
    problem: str = ""
    """Set if no reply of the optimizer was usable, so that there is no meaningful result."""
    warnings: tuple[str, ...] = ()
    """Problems of the run, such as a gate that cannot accept anything, each with what to do."""

    @property
    def score(self) -> float:
        """Score of the best skill on the val tasks, in the metric `evaluation.gate_metric`.

        The best skill was selected by this score, so it is biased upwards; `test_score` is not.
        """
        return metric_of(self.state)(self.state.best.evaluation)

    @property
    def test_score(self) -> float | None:
        """Score of the best skill on the test tasks, same metric; None without a final test."""
        final_test = self.state.final_test
        return None if final_test is None else metric_of(self.state)(final_test.best)

    @property
    def split(self) -> Split:
        """The split of `before`, `after` and `claim`: test, or val if there was no final test."""
        return self.claim.split

    @property
    def before(self) -> Interval:
        """Mean score of the initial skill on `split` with its 95 % interval."""
        final_test = self.state.final_test
        return self._mean(
            self.state.initial.evaluation if final_test is None else final_test.initial
        )

    @property
    def after(self) -> Interval:
        """Mean score of the best skill on `split` with its 95 % interval."""
        final_test = self.state.final_test
        return self._mean(self.state.best.evaluation if final_test is None else final_test.best)

    @property
    def claim(self) -> Claim:
        """The gain with its 95 % interval, and whether it is conclusive."""
        return claim(self.state)

    @property
    def cost(self) -> str:
        """Calls, tokens and dollars of the run, as text."""
        tokens = self.spent.input + self.spent.output
        dollars = f", ${self.spent.dollars:,.2f}" if self.spent.dollars else ""
        return f"{self.spent.calls:,} calls, {tokens:,} tokens{dollars}"

    def _mean(self, evaluation: Evaluation) -> Interval:
        return mean(evaluation, metric_of(self.state))

    def __repr__(self) -> str:
        change = f"{self.split} {self.before.mean:.3f} -> {self.after.mean:.3f}"
        problem = f"; {self.problem}" if self.problem else ""
        return f"Result({change}; {self.claim.words()}; {self.cost}; {str(self.out)!r}{problem})"

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = "".join(
            f"<tr><th>{name}</th><td>{found.mean:.3f}</td>"
            f"<td>[{found.low:.3f}, {found.high:.3f}]</td></tr>"
            for name, found in (("before", self.before), ("after", self.after))
        )
        return (
            f"<table><tr><th>{self.split}</th><th>score</th><th>95 % interval</th></tr>{rows}"
            f"</table><p>{escape(self.claim.words())}<br>{escape(self.cost)}<br>"
            f"{escape(str(self.out))}</p><details><summary>best skill</summary>"
            f"<pre>{escape(self.best_skill)}</pre></details>"
        )


def read_result(reader: RunReader) -> Result:
    """The result so far of the run in a directory."""
    problem = useless(reader.facts)
    return Result(
        best_skill=reader.state.best.skill.render(),
        state=reader.state,
        out=reader.layout.root,
        spent=sum(reader.spent().values(), Usage()),
        problem=problem,
        warnings=(*reader.warnings, *([problem] if problem else [])),
    )
