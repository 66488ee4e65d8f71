"""JSON and YAML in which no key is there twice: of equal ones, all but the last would be lost."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import yaml

K = TypeVar("K", bound=Hashable)


class RepeatedKey(ValueError):
    """A key is there twice in one object."""

    def __init__(self, key: object) -> None:
        super().__init__(f"it has the key {str(key)!r} twice in one object; remove one of them")


def different_keys(pairs: Sequence[tuple[K, Any]]) -> dict[K, Any]:
    """The object of these pairs; an `object_pairs_hook` of `json.loads`.

    Raises:
        RepeatedKey: Two of them have the same key.
    """
    made: dict[K, Any] = {}
    for key, value in pairs:
        if key in made:
            raise RepeatedKey(key)
        made[key] = value
    return made


class StrictLoader(yaml.SafeLoader):
    """Reads plain YAML, and refuses a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - as PyYAML calls it
        different_keys([(key.value, None) for key, _ in node.value])
        return super().construct_mapping(node, deep)
