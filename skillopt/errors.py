"""Every error that this package raises, and the one helper that attributes a foreign error.

SkilloptError
├── ConfigError          the configuration is wrong; the message names the key and the file
├── DataError            a dataset or split cannot be used as it stands
├── SkillError           a skill document cannot be read
├── StoreError           a run directory is damaged, locked or belongs to another run
├── AccessError          a model endpoint cannot be used at all: wrong key, unknown model, no server
│   └── Unavailable      a server was down for longer than model.outage_seconds
├── Unmeasurable         too many attempts failed for an evaluation to mean anything
├── BudgetSpent          a token, money or time limit was reached; a run ends, it does not crash
├── Pending              people have to answer first; the same command goes on when they have
└── RolloutError         one attempt failed for a reason that is not the agent's answer
    ├── ModelError       a provider timed out, was overloaded or answered nonsense
    │   ├── Refused      the provider will not answer this request, however often it is asked
    │   └── Unusable     an answer came, and does not have the shape that was asked for
    ├── HarnessError     the agent program could not start or died
    └── EnvironmentFault task-side code raised: setup, a tool or a scorer
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ClassVar


class SkilloptError(Exception):
    """Base of all errors raised here; `exit_code` is what the command line returns for it."""

    exit_code: ClassVar[int] = 1


class ConfigError(SkilloptError):
    """The configuration is wrong."""


class DataError(SkilloptError):
    """A dataset or split cannot be used as it stands."""


class SkillError(SkilloptError):
    """A skill document cannot be read."""


class StoreError(SkilloptError):
    """A run directory is damaged, locked or belongs to another run."""


class AccessError(SkilloptError):
    """An endpoint cannot be used at all; every further call would fail in the same way."""


class Unavailable(AccessError):
    """A server that has answered before has been down for longer than it is waited for."""

    exit_code = 3


class Unmeasurable(SkilloptError):
    """Too many attempts failed for an evaluation to mean anything."""

    exit_code = 3


class BudgetSpent(SkilloptError):
    """A limit set by the user was reached."""

    exit_code = 4


class Pending(SkilloptError):
    """Questions that somebody else has to answer before the work can go on.

    Unlike any other error it does not end the work beside it: whatever else can be asked at the
    same time is asked first, and all that is missing is told at once.
    """

    exit_code = 5

    def __init__(self, folder: str, questions: frozenset[str]) -> None:
        super().__init__(folder, questions)
        self.folder = folder
        self.questions = questions
        """Files, relative to the folder."""

    def __add__(self, other: Pending) -> Pending:
        """Both together."""
        return Pending(self.folder, self.questions | other.questions)

    def __str__(self) -> str:
        count = len(self.questions)
        told = "1 question waits for an answer" if count == 1 else f"{count} questions wait"
        return (
            f"{told} in {self.folder}. Each file there that ends in .question.md says where its "
            "answer goes. Then run the same command again; answers may come in parts."
        )


class RolloutError(SkilloptError):
    """One attempt failed for a reason that is not the agent's answer."""

    exit_code = 3


class ModelError(RolloutError):
    """A provider timed out, was overloaded or answered nonsense."""

    def __init__(
        self, message: str, *, retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        """Seconds that the server asked us to wait, if it did."""


class Refused(ModelError):
    """The provider will not answer this request, however often it is asked."""


class Unusable(ModelError):
    """An answer came, and does not have the shape that was asked for."""


class HarnessError(RolloutError):
    """The agent program could not start, or died."""


class EnvironmentFault(RolloutError):
    """Task-side code raised."""


@contextmanager
def attributed_to(kind: Callable[[str], RolloutError], doing: str) -> Generator[None, None, None]:
    """Turn whatever escapes into `kind`; errors that already name their origin pass unchanged.

    Code that we are given may not end the program either: `sys.exit` in it is its own failure.
    """
    try:
        yield
    except SkilloptError:
        raise
    except (Exception, SystemExit) as error:
        raise kind(f"{doing}: {type(error).__name__}: {error}") from error
