"""A user's document with one block in it that is ours; all the rest is the user's, byte for byte.

The block is a comment pair with what was learnt between: rules, each a bullet of one or more lines,
and the guidance of the slow update in its own marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from skillopt.core.skill import Region, Skill, scrub
from skillopt.errors import SkillError

START: Final = "<!-- SKILLOPT-SLEEP:LEARNED START -->"
END: Final = "<!-- SKILLOPT-SLEEP:LEARNED END -->"
HEADING: Final = "## Learned from past sessions"
_MARK: Final = re.compile(r"<!--\s*SKILLOPT-SLEEP:LEARNED (?:START|END)\s*-->")
_MARK_OR_FENCE: Final = re.compile(
    rf"(?m)(?P<mark>{_MARK.pattern})|^[ \t>]*(?P<fence>`{{3,}}|~{{3,}})(?P<rest>[^\n]*)"
)
_BULLET: Final = re.compile(r"[-*+][ \t]+(?=\S)")
_FENCE: Final = re.compile(r"\s*(`{3,}|~{3,})")


@dataclass(frozen=True, slots=True)
class Document:
    """A document in three parts; `parse(data).render() == data` for all UTF-8 data."""

    before: str
    block: str | None = None
    """What is between the marks, as it stands there; none where there is no block."""
    after: str = ""

    @classmethod
    def parse(cls, data: bytes) -> Document:
        """Read a file.

        A mark in a code fence, or one that is not one of a pair, is the user's text like any other.

        Raises:
            SkillError: It is not UTF-8, or it has two blocks, so that either may be meant.
        """
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SkillError(f"not UTF-8 (byte {error.start}); save the file as UTF-8") from None
        pairs: list[tuple[int, int]] = []
        opened: int | None = None
        for mark in _marks(text):
            if mark[0] == START:
                opened = mark.end()
            elif mark[0] == END and opened is not None:
                pairs.append((opened, mark.start()))
                opened = None
        if len(pairs) > 1:
            raise SkillError(
                f"it has {len(pairs)} blocks between {START} and {END}; "
                "put what is to stay into one of them and remove the others"
            )
        if not pairs:
            return cls(text)
        ((start, stop),) = pairs
        return cls(text[: start - len(START)], text[start:stop], text[stop + len(END) :])

    def render(self) -> bytes:
        middle = "" if self.block is None else START + self.block + END
        return (self.before + middle + self.after).encode()

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.before + (self.block or "") + self.after else "\n"

    @property
    def learned(self) -> str:
        """What was learnt, as Markdown with plain newlines, without our heading."""
        text = _plain(self.block or "").strip()
        return text.removeprefix(HEADING).strip() if text.startswith(HEADING) else text

    def with_learned(self, text: str) -> Document:
        """The same document with this text as what was learnt; without any, it has no block.

        A block stays where it is; a new one stands at the end. Marks in the text are taken out.
        """
        words = _plain(_unmarked(text, regions=False)).strip()
        if words == self.learned:
            return self
        newline = self.newline
        if not words:
            return self._without_block(newline)
        block = f"\n{HEADING}\n\n{words}\n".replace("\n", newline)
        if self.block is not None:
            return replace(self, block=block)
        gap = "" if not self.before else newline
        gap += "" if not self.before or self.before.endswith("\n") else newline
        return Document(self.before + gap, block, newline)

    def _without_block(self, newline: str) -> Document:
        """Without the blank line and the last newline, too, that a block at the end comes with."""
        if self.after == newline and (not self.before or self.before.endswith(newline * 2)):
            return Document(self.before.removesuffix(newline))
        return Document(self.before + self.after)

    @property
    def rules(self) -> tuple[str, ...]:
        """The bullets of the block with all their lines, further paragraphs and code included."""
        return _read_rules(_body(self.learned))

    @property
    def guidance(self) -> str:
        """What the slow update wrote into the block."""
        return Skill.parse(self.learned).guidance

    def with_rules(self, rules: Iterable[str], guidance: str = "") -> Document:
        """The same document with these rules and this guidance; text before them stays.

        A rule that is there already, whatever its capitals and spaces, is not written twice.
        """
        lead = _lead(_body(self.learned))
        kept: dict[str, str] = {}
        for rule in rules:
            if clean := _clean_rule(rule):
                kept.setdefault(" ".join(clean.casefold().split()), clean)
        listed = "\n".join(_bullet(rule) for rule in kept.values())
        words = scrub(_unmarked(guidance)).strip()
        region = Region("guidance", f"\n{words}\n").render() if words else ""
        return self.with_learned("\n\n".join(part for part in (lead, listed, region) if part))


def new_skill(name: str, description: str) -> bytes:
    """A skill that says nothing yet, with the front matter that agent programs look for."""
    from skillopt.harness.places import packaged

    (text,) = packaged(Skill(), name, description).files.values()
    return text.encode()


def new_rule_file(description: str) -> bytes:
    """A rule file of Cursor (.mdc) that enters every prompt."""
    line = " ".join(description.split())
    return f"---\ndescription: {line}\nalwaysApply: true\n---\n".encode()


def _marks(text: str) -> Iterator[re.Match[str]]:
    """Our marks outside of fenced code; a fence that nothing closes is none.

    What stands between a pair of our marks is not looked into: a rule may have half a fence, which
    must not close one of the user's.
    """
    all_found = [*_MARK_OR_FENCE.finditer(text)]
    marks = [found for found in all_found if found["mark"]]
    paired = {one.start() for one, two in pairwise(marks) if (one[0], two[0]) == (START, END)}
    fence, ours = "", False
    within: list[re.Match[str]] = []
    for found in all_found:
        mark, run, rest = found["mark"], found["fence"], found["rest"]
        if mark:
            ours = found.start() in paired
        if mark and fence:
            within.append(found)
        elif mark:
            yield found
        elif ours:
            continue
        elif not fence:
            fence = "" if run[0] == "`" and "`" in rest else run
        elif run.startswith(fence) and not rest.strip():
            fence = ""
            within.clear()
    yield from within


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _unmarked(text: str, *, regions: bool = True) -> str:
    """Without our marks, so that no learnt text can end its block; regions: nor open another."""
    while (less := _MARK.sub("", scrub(text) if regions else text)) != text:
        text = less
    return text


def _body(learned: str) -> str:
    return Skill.parse(learned).body


def _clean_rule(rule: str) -> str:
    lines = [line.rstrip() for line in _plain(_unmarked(rule)).split("\n")]
    return "\n".join(lines).strip()


def _bullet(rule: str) -> str:
    first, *rest = rule.split("\n")
    return "\n".join([f"- {first}", *(f"  {line}" if line else "" for line in rest)])


def _lead(body: str) -> str:
    """What stands before the first bullet."""
    lines = body.split("\n")
    at = next((at for at, line in enumerate(lines) if _BULLET.match(line)), len(lines))
    return "\n".join(lines[:at]).strip()


def _read_rules(body: str) -> tuple[str, ...]:
    rules: list[list[str]] = []
    fence = ""
    for line in body.split("\n"):
        if not fence and (bullet := _BULLET.match(line)):
            rules.append([line[bullet.end() :]])
        elif rules:
            rules[-1].append(line.removeprefix("  "))
        # A bullet in code that somebody pasted without indenting it begins no rule.
        if rules and not line.startswith("  ") and (found := _FENCE.match(line)):
            fence = "" if fence and found[1].startswith(fence) else fence or found[1]
    return tuple(_clean_rule("\n".join(lines)) for lines in rules)
