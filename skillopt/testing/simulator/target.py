"""The simulated target: right only where the skill in its request states what the task needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from skillopt.testing.simulator.chance import pick, unit
from skillopt.testing.simulator.probing import explain
from skillopt.testing.simulator.reading import Reading, Wanted, read_request, read_rules
from skillopt.testing.simulator.reminders import reminded

_TITLE = re.compile(r"\[TLE\]\s*([^\[\n]{1,60}?)\s*(?:\[|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SimulatedTarget:
    """Answers requests of the office world; the same draw of a request gets the same answer."""

    seed: int = 0
    noise: float = 0.04
    """How often a known rule is forgotten; one that the skill's appendix reminds of never is."""
    roomy: int = 600
    """Words that a skill may have before its length makes the target forgetful."""

    def answer(self, system: str, user: str, draw: int = 0) -> str:
        """Answer one request; what is not of this world gets something cheap.

        Another `draw` forgets at other places.
        """
        wanted = read_request(user)
        text = self._fill_in(wanted, system, user, draw) if wanted else _guess(user)
        asked_for_tags = "<answer>" in system or "<answer>" in user
        return f"<answer>{text}</answer>" if asked_for_tags else text

    def explain(self, system: str, task: str, answer: str) -> str:
        """Say how an answer came about; a target knows its rules, and not whether it was right."""
        return explain(read_rules(_skill(system)[0]), task, answer)

    def _fill_in(self, wanted: tuple[Wanted, ...], system: str, user: str, draw: int) -> str:
        again = (str(draw),) if draw else ()
        skill, words = _skill(system)
        bloat = max(0, words - self.roomy) / self.roomy
        slips = unit(self.seed, "slip", system, user, *again) < self.noise + min(0.6, bloat / 2)
        slip = pick(wanted, self.seed, "where", system, user, *again) if slips else None
        if slip is not None and slip.field.label in reminded(system):
            slip = None
        reading = read_rules(skill)
        return " | ".join(
            field.field.plain(field.value) if field is slip else self._write(field, reading, user)
            for field in wanted
        )

    def _write(self, wanted: Wanted, reading: Reading, user: str) -> str:
        label = wanted.field.label
        forms = reading.by_field.get(label)
        if not forms:
            return wanted.field.plain(wanted.value)
        name = forms[0] if len(forms) == 1 else pick(forms, self.seed, "torn", label, user)
        return wanted.write(name)


@lru_cache(maxsize=64)
def _skill(system: str) -> tuple[str, int]:
    """The skill in a system message, and how many words it has."""
    skill = system.partition("## Skill")[2] or system
    return skill, len(skill.split())


def _guess(user: str) -> str:
    """A title from the search results of the request, else an admission."""
    titles = _TITLE.findall(user)
    return pick(titles, "guess", user) if titles else "unknown"
