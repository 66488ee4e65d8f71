"""Other names of values."""

from __future__ import annotations

from typing import Final

_PAIR_POLICIES: Final = {
    "all": "mixed",
    "mix": "mixed",
    "change": "changed",
    "changed_only": "changed",
    "only_changed": "changed",
    "unchanged_only": "unchanged",
    "only_unchanged": "unchanged",
    "same": "unchanged",
}


def pair_policy_of(name: object) -> object:
    """The pair policy that may be given by an alias, with dashes or in capitals."""
    if not isinstance(name, str):
        return name
    plain = name.strip().lower().replace("-", "_")
    return _PAIR_POLICIES.get(plain, plain)


_UPDATE_MODES: Final = {
    "edits": "patch",
    "rewrite": "rewrite_from_suggestions",
    "suggestions": "rewrite_from_suggestions",
    "rewrite_suggestions": "rewrite_from_suggestions",
    "full_rewrite": "full_rewrite_minibatch",
    "minibatch_full_rewrite": "full_rewrite_minibatch",
    "skill_rewrite_minibatch": "full_rewrite_minibatch",
}


def update_mode_of(label: object) -> object:
    """The name of an update mode that may be given by an alias."""
    return _UPDATE_MODES.get(label, label) if isinstance(label, str) else label
