"""What users say of the answer before: words and whole phrases in several languages.

The phrases are in `reactions.yaml`. A phrase counts in one of three places: anywhere; at the start
of a sentence; or there with nothing behind it in its clause, as in «No, use the other one». So
neither «no tests are needed» nor «piano» is a «no».
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Final, Literal

import yaml

from skillopt_sleep.values import Mood, Reaction

_FILE: Final = Path(__file__).with_name("reactions.yaml")
_LONGEST: Final = 2000
"""Characters of a prompt that are looked at: what follows is hardly a reaction."""
_SHOWN: Final = 160

_NOT: Final = (
    r"(?:\b(?:not|never|isn't|isnt|wasn't|aren't|don't|doesn't|didn't|won't|no|nothing|without|if|"
    r"whether|until|sure|ensure|check|verify|when|damit|ob|wenn|si|se|"
    r"nicht|kein\w*|nichts|pas|rien|sans|no|sin|nada|não|nao|sem|non|senza|не|нет|без|ничего)"
    r"\s+(?:\w+\s+)?|[不没]|n't\s+)\Z"
)
_NEGATED: Final = re.compile(_NOT, re.IGNORECASE)
_HARMLESS: Final = re.compile(
    r"\b(?:no (?:problem|worries|rush|need)|kein problem|pas de (?:souci|problème)|"
    r"(?:ce n'est|c'est) pas grave|"
    r"no (?:hay )?problema|sem problemas?|nessun problema|non c'è problema|don't worry|"
    r"нет проблем)\b|没关系|不客气|不用担心|不错|問題ありません",
    re.IGNORECASE,
)
_CODE: Final = re.compile(
    r"```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*>.*$|\"[^\"\n]*\"", re.DOTALL | re.MULTILINE
)
_MARK: Final = r"[.!?;:,\n\u2014\u2013\u3002\uff01\uff1f\uff0c\u3001-]"
_OH: Final = r"(?:oh|ah|hm+|ok|okay|well|sorry|and|but|aber|mais|pero|mas|ma|но)?"
_START: Final = rf"(?:\A|{_MARK})\s*{_OH}[\s,]*"
_END: Final = rf"(?=\s*(?:\Z|{_MARK}))"
_SENTENCE: Final = re.compile(r"[.!?\n\u3002\uff01\uff1f]")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@dataclass(frozen=True)
class Reactions:
    """Recognises reactions; with phrases of the user's own, which count anywhere."""

    negative: tuple[str, ...] = ()
    positive: tuple[str, ...] = ()

    def among(self, prompts: Sequence[str]) -> tuple[Reaction, ...]:
        """The reactions in a user's prompts: in each at most one of each mood.

        The first prompt is the task itself and says nothing about an answer.
        """
        return tuple(
            reaction
            for turn, prompt in enumerate(prompts)
            if turn > 0
            for reaction in self._in(prompt, turn)
        )

    def reacts(self, prompt: str) -> bool:
        """Whether a prompt says that an answer was right or wrong."""
        return any(self._in(prompt, 0))

    def _in(self, prompt: str, turn: int) -> Iterable[Reaction]:
        text = _CODE.sub(" \u2026 ", prompt[:_LONGEST].replace("\u2019", "'"))
        text = _HARMLESS.sub(" \u2026 ", text)
        for mood, pattern in ((Mood.NEGATIVE, self._bad), (Mood.POSITIVE, self._good)):
            found = next(
                (
                    match
                    for match in pattern.finditer(text)
                    if not _NEGATED.search(text, max(0, match.start() - 40), match.start())
                ),
                None,
            )
            if found is not None:
                yield Reaction(mood, _around(text, found.end() - 1), turn)

    @cached_property
    def _bad(self) -> re.Pattern[str]:
        return _pattern("negative", self.negative)

    @cached_property
    def _good(self) -> re.Pattern[str]:
        return _pattern("positive", self.positive)


@cache
def _phrases() -> dict[str, dict[str, dict[str, list[str]]]]:
    return yaml.safe_load(_FILE.read_text(encoding="utf-8"))


def _pattern(mood: Literal["negative", "positive"], more: Sequence[str]) -> re.Pattern[str]:
    anywhere, opening, alone = (
        [phrase for phrases in _phrases()[mood][place].values() for phrase in phrases]
        for place in ("anywhere", "opening", "alone")
    )
    anywhere += [phrase.strip().casefold() for phrase in more if phrase.strip()]
    return re.compile(
        f"{_either(anywhere)}|{_START}(?:{_either(opening)})|{_START}(?:{_either(alone)}){_END}",
        re.IGNORECASE,
    )


def _either(phrases: Sequence[str]) -> str:
    """Any of the phrases as whole words; scripts without spaces have no word boundaries."""
    longest_first = sorted(set(phrases), key=lambda each: (-len(each), each))
    return (
        "|".join(
            re.escape(phrase) if _CJK.search(phrase) else rf"(?<!\w){re.escape(phrase)}(?!\w)"
            for phrase in longest_first
        )
        or r"(?!)"
    )


def _around(text: str, at: int) -> str:
    """The sentence in which something stands."""
    start = max((match.end() for match in _SENTENCE.finditer(text, 0, at)), default=0)
    end = _SENTENCE.search(text, at + 1)
    return " ".join(text[start : end.end() if end else None].split())[:_SHOWN]
