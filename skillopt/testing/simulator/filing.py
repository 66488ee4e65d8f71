"""Where the simulated optimizer writes when a skill has several files."""

from __future__ import annotations

import re

from skillopt.testing.simulator.forms import read_rules
from skillopt.testing.simulator.office import BY_LABEL, FIELDS

_FILE = re.compile(r"<!-- FILE (\S+) -->\n(.*?)<!-- END OF FILE \1 -->", re.DOTALL)


def file_for(skill: str, target: str, rule: str) -> dict[str, str]:
    """The `file` of an edit: where its target stands; without one, what is about the rule's field.

    Empty for SKILL.md, and for a skill that is one document.
    """
    if target and target in _FILE.sub("", skill):
        return {}
    subjects = [BY_LABEL[label].subject for label in read_rules(rule, FIELDS).by_field]
    for path, text in _FILE.findall(skill):
        if (target in text) if target else any(each.search(text) for each in subjects):
            return {"file": path}
    return {}
