"""Errors of Sleep beside those of skillopt."""

from __future__ import annotations

from typing import ClassVar

from skillopt.errors import SkilloptError, StoreError


class RefusedChange(SkilloptError):
    """A file is not written, because that could lose or misplace something; it names the file."""

    exit_code: ClassVar[int] = 2


class NightUnderWay(StoreError):
    """Another process runs a night; two never run at once."""


class NothingToAdopt(SkilloptError):
    """No night waits for adoption, or none was adopted that could be taken back."""
