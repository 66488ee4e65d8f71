"""The plan of a run: all operations in order, computed from tasks, settings and seed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil
from typing import TypeAlias

from skillopt.core.rollout import CHANGED, UNCHANGED, Change
from skillopt.core.seeds import blocks, shuffled
from skillopt.core.state import State
from skillopt.core.task import Task


@dataclass(frozen=True, slots=True)
class Step:
    """Learn from one or more micro-batches."""

    number: int
    """From 1, over all epochs."""
    epoch: int
    in_epoch: int
    batches: tuple[tuple[Task, ...], ...]
    budget: int | None
    """How many proposals may be used; None: all."""

    @property
    def id(self) -> str:
        return f"step_{self.number:04d}"

    def without(self, tasks: Set[str]) -> Step:
        """The same step without some of its tasks."""
        left = (tuple(task for task in batch if task.id not in tasks) for batch in self.batches)
        return replace(self, batches=tuple(batch for batch in left if batch))


@dataclass(frozen=True, slots=True)
class MetaReflection:
    """Think again about everything that the epoch has tried, after its last `step`."""

    epoch: int
    step: int
    budget: int | None

    @property
    def id(self) -> str:
        return f"meta_reflect_epoch_{self.epoch:02d}"


@dataclass(frozen=True, slots=True)
class Pruning:
    """Look for rules that can be spared, on a sample of training tasks."""

    epoch: int
    step: int
    tasks: tuple[Task, ...]

    @property
    def id(self) -> str:
        return f"prune_epoch_{self.epoch:02d}"


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Look back over the epoch on a sample of training tasks; empty when nothing is to compare."""

    epoch: int
    step: int
    tasks: tuple[Task, ...]
    last: bool
    forgets: bool = False
    """Whether the optimizer forgets the steps so far."""
    spare: tuple[Task, ...] = ()
    """Further tasks to look at while too few pairs are of use."""
    useful: frozenset[Change] = CHANGED | UNCHANGED
    """Pairs that the optimizer is shown."""

    @property
    def id(self) -> str:
        return f"epoch_{self.epoch:02d}"


@dataclass(frozen=True, slots=True)
class FinalTest:
    """Measure the outcome on tasks that no other move has touched."""

    tasks: tuple[Task, ...]
    id: str = "final_test"

    @property
    def digest(self) -> str:
        return digest(self.tasks)

    def settled(self, state: State) -> bool:
        """Whether these tasks were already set to the skills that matter now."""
        if (made := state.final_test) is None:
            return False
        tested = [made.initial.skill, made.best.skill, made.last.skill]
        now = [measured.skill.digest for measured in (state.initial, state.best, state.current)]
        return made.tasks == self.digest and tested == now


Move: TypeAlias = Step | MetaReflection | Pruning | EpochEnd | FinalTest


def _never(epoch: int) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    epochs: int
    batch: int
    accumulation: int = 1
    sample: int = 0
    """Tasks for the look back at the end of an epoch; 0 looks back at nothing."""
    last_sample: int = 0
    """The same for the last epoch, after which lessons for the optimizer have no reader."""
    useful: frozenset[Change] = CHANGED | UNCHANGED
    """What must have become of a task for the look back to count it."""
    searches: bool = False
    """Whether the look back goes on to other tasks until it has a full sample of useful ones."""
    meta_reflect: bool = False
    """Whether each epoch ends with a meta reflection."""
    prune_every: int = 0
    """After how many epochs at a time rules that can be spared are looked for; 0: never."""
    prune_sample: int = 0
    """Tasks that each rule is tried on for that."""
    forgets: Callable[[int], bool] = _never
    """Whether the optimizer forgets the steps so far at the end of an epoch."""
    patience: int = 0
    """After how many steps in a row that changed nothing training ends, those counting half whose
    candidate was refused; 0: never."""
    repeat_solved: bool = True
    """Whether tasks that passed are attempted again in later epochs."""
    seed: int = 42
    continues: bool = False
    """Whether the run is one of a series: then its first epoch is looked back at as well, and
    lessons have a reader after its last."""

    def steps_per_epoch(self, tasks: int) -> int:
        return ceil(tasks / (self.batch * self.accumulation))


RECHECKED = 30
"""Tasks that tell whether a change has broken one in ten: with a chance of 96 % at least once."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All moves of a run, in order."""

    moves: tuple[Move, ...]
    patience: int = 0
    """After so many steps in vain in a row only the final test is left; 0: never."""
    repeat_solved: bool = True
    """Whether steps attempt tasks again that have passed."""

    @classmethod
    def build(
        cls,
        train: Sequence[Task],
        shape: PlanSettings,
        budget: Callable[[int, int], int | None],
        test: Sequence[Task] | None,
    ) -> Plan:
        """Every epoch is one pass in its own order, so adding an epoch never moves earlier ones.

        `budget(step, total)` is the learning rate; `test` is None when no final test is wanted.
        """
        per_epoch = shape.steps_per_epoch(len(train))
        total = per_epoch * shape.epochs
        moves: list[Move] = []
        number = 0
        for epoch in range(1, shape.epochs + 1):
            for in_epoch, batches in enumerate(_steps(train, shape, epoch), start=1):
                number += 1
                moves.append(Step(number, epoch, in_epoch, batches, budget(number, total)))
            if shape.meta_reflect:
                moves.append(MetaReflection(epoch, number, budget(number, total)))
            if shape.prune_every and epoch % shape.prune_every == 0:
                sample = shuffled(train, shape.seed + 3000 * epoch)[: shape.prune_sample]
                moves.append(Pruning(epoch, number, tuple(sample)))
            last = epoch == shape.epochs and not shape.continues
            first = epoch == 1 and not shape.continues
            sample = 0 if first else shape.last_sample if last else shape.sample
            order = tuple(shuffled(train, shape.seed + 2000 * epoch))
            forgets = shape.forgets(epoch)
            spare = order[sample:] if shape.searches and sample else ()
            moves.append(
                EpochEnd(epoch, number, order[:sample], last, forgets, spare, shape.useful)
            )
        if test is not None:
            moves.append(FinalTest(tuple(test)))
        return cls(tuple(moves), shape.patience, shape.repeat_solved)

    def gated(self, *, steps: bool, guidance: bool) -> list[str]:
        """The moves that may bring a candidate before a gate that asks for a gain.

        Which of the two kinds of gates do so is said by the caller.
        """
        return [
            move.id
            for move in self.moves
            if (steps and isinstance(move, Step | MetaReflection))
            or (guidance and isinstance(move, EpochEnd) and bool(move.tasks))
        ]

    def step_after(self, move: Move) -> Step | None:
        """The next step, if no move before it asks a model."""
        ids = [other.id for other in self.moves]
        later = self.moves[ids.index(move.id) + 1 :]
        following = next((m for m in later if not isinstance(m, EpochEnd) or m.tasks), None)
        return following if isinstance(following, Step) else None

    def due(self, step: Step, state: State) -> Step:
        """The step with the tasks that it has to attempt: those that are not solved.

        Also some that passed with an earlier skill, for what changed since may have broken them.
        """
        memory = state.memory
        if self.repeat_solved:
            return step
        doubted = [task.id for task in chain(*step.batches) if task.id in memory.doubted]
        return step.without(memory.solved.difference(doubted[:RECHECKED]))

    def out_of_patience(self, state: State) -> bool:
        """Whether so little has come of the last steps that only the final test is left."""
        return 0 < self.patience <= state.memory.vain

    def left(self, state: State) -> list[Move]:
        out_of_patience = self.out_of_patience(state)

        def done(move: Move) -> bool:
            if isinstance(move, FinalTest):
                return move.settled(state)
            if out_of_patience or move.id in state.closed:
                return True
            return isinstance(move, Step) and not self.due(move, state).batches

        left = (move for move in self.moves if not done(move))
        return [self.due(move, state) if isinstance(move, Step) else move for move in left]

    def next(self, state: State) -> Move | None:
        return next(iter(self.left(state)), None)


def _steps(
    train: Sequence[Task], shape: PlanSettings, epoch: int
) -> Iterator[tuple[tuple[Task, ...], ...]]:
    order = shuffled(train, shape.seed + 1000 * epoch)
    for chosen in blocks(order, shape.batch * shape.accumulation):
        yield tuple(tuple(batch) for batch in blocks(chosen, shape.batch))


def digest(tasks: Sequence[Task]) -> str:
    text = "\n".join(task.digest for task in tasks)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
