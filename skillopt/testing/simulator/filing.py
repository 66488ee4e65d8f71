"""Where the simulated optimizer writes when a skill has several files."""

from __future__ import annotations

import re

_FILE = re.compile(r"<!-- FILE (\S+) -->\n(.*?)<!-- END OF FILE \1 -->", re.DOTALL)


def file_for(skill: str, target: str, subject: re.Pattern[str]) -> dict[str, str]:
    """The `file` of an edit: where the target stands; else the reference about the subject.

    Empty for SKILL.md, and for a skill that is one document.
    """
    main = _FILE.sub("", skill)
    if target and target in main:
        return {}
    for path, text in _FILE.findall(skill):
        if (target in text) if target else subject.search(text):
            return {"file": path}
    return {}
