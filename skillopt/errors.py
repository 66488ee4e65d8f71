"""All errors that this package raises, and helpers: for errors of other code, for secrets in them.

SkilloptError
├── ConfigError          the configuration is wrong; the message names the key and the file
├── PartError            a part that somebody else wrote raised an error or returned nonsense
├── DataError            a dataset or split cannot be used
├── SkillError           a skill document cannot be read
├── StoreError           a run directory is damaged, locked or belongs to another run
│   ├── AnswerError      a manual answer cannot be read; once it is mended, the run goes on
│   ├── LogRewritten     an event log that was being read no longer has what was read from it
│   └── Outdated         a person decided with a skill in view that is no longer current
├── AccessError          a model endpoint cannot be used at all: wrong key, unknown model, no server
│   └── Unavailable      a server was down for longer than model.outage_seconds
├── Unmeasurable         too many attempts failed for an evaluation to mean anything
├── BudgetSpent          a limit on calls, tokens, money or time was reached
├── Pending              manual answers are missing; the same command resumes the run
└── RolloutError         one attempt failed for a reason that is not the agent's answer
    ├── ModelError       a provider timed out, was overloaded or sent an invalid answer
    │   ├── Refused      the provider will never answer this request; a retry does not help
    │   │   ├── TooLong      the conversation does not fit into the model's context
    │   │   └── NoTools      the model or its server does not know tools
    │   └── Unusable     the answer does not have the required format
    ├── HarnessError     the agent program could not start or crashed
    └── EnvironmentFault code of the environment raised an error: setup, a tool or a scorer
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import ClassVar


class SkilloptError(Exception):
    """Base class of all errors; `exit_code` is the exit code of the command line for it."""

    exit_code: ClassVar[int] = 1


class ConfigError(SkilloptError):
    """The configuration is wrong."""


class PartError(SkilloptError):
    """A part that somebody else wrote raised an error, or returned what cannot be used."""


class DataError(SkilloptError):
    """A dataset or split cannot be used."""


class SkillError(SkilloptError):
    """A skill document cannot be read."""


class StoreError(SkilloptError):
    """A run directory is damaged, locked or belongs to another run."""


class AnswerError(StoreError):
    """A manual answer cannot be read (backend `handoff`); once it is mended, the run goes on."""


class OldFormat(StoreError):
    """A run directory was written by an earlier version, in a format that is no longer read."""


class LogRewritten(StoreError):
    """An event log no longer has the event at a position from which reading was to go on."""


class Outdated(StoreError):
    """A decision was made with another skill in view than the one that is current."""


class AccessError(SkilloptError):
    """A model endpoint cannot be used; every further call would fail in the same way."""


class Unavailable(AccessError):
    """A server that has answered before was down for longer than `model.outage_seconds`."""

    exit_code = 3


class Unmeasurable(SkilloptError):
    """Too many attempts failed for an evaluation to mean anything."""

    exit_code = 3


class BudgetSpent(SkilloptError):
    """A limit set by the user was reached."""

    exit_code = 4


class Pending(SkilloptError):
    """Manual answers are missing (backend `handoff`).

    Unlike other errors, it does not stop other work at once: all questions that can be asked at
    the same time are written first, and the error lists all of them.
    """

    exit_code = 5

    def __init__(self, folder: str, questions: frozenset[str]) -> None:
        super().__init__(folder, questions)
        self.folder = folder
        self.questions = questions
        """File names, relative to the folder."""

    def __add__(self, other: Pending) -> Pending:
        """The missing answers of both."""
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
    """A provider timed out, was overloaded or sent an invalid answer."""

    def __init__(
        self, message: str, *, retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        """Seconds that the server asked to wait, if it did."""


class Refused(ModelError):
    """The provider will never answer this request; a retry does not help."""


class TooLong(Refused):
    """The conversation does not fit into the model's context; a shorter one may."""


class NoTools(Refused):
    """The model or its server does not know tools; the same request without them may pass."""


class Unusable(ModelError):
    """The answer does not have the required format."""


class HarnessError(RolloutError):
    """The agent program could not start or crashed."""


class EnvironmentFault(RolloutError):
    """Code of the environment raised an error."""


@contextmanager
def attributed_to(kind: Callable[[str], SkilloptError], doing: str) -> Generator[None, None, None]:
    """Convert any exception into `kind`; errors of this package are raised unchanged.

    `sys.exit` and other exceptions that are not an `Exception` are converted, too: code of a user
    must not end the program. Ctrl-C and the cancellation of this work are not.
    """
    try:
        yield
    except (SkilloptError, CancelledError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise kind(f"{doing}: {type(error).__name__}: {error}") from error


def hide_in_error(error: BaseException, hide: Callable[[str], str]) -> None:
    """Take secrets out of the message of an error and of everything that led to it, in place.

    What led to it and cannot be changed is cut off.
    """
    chain = [error]
    for each in chain:
        for behind in (each.__cause__, each.__context__):
            if behind is not None and all(behind is not other for other in chain):
                chain.append(behind)
    for each in chain:
        each.args = tuple(hide(part) if isinstance(part, str) else part for part in each.args)
        if isinstance(each, OSError) and each.strerror:
            each.strerror = hide(each.strerror)
    for each in chain:
        if each.__cause__ is not None and hide(str(each.__cause__)) != str(each.__cause__):
            each.__cause__ = None
        if each.__context__ is not None and hide(str(each.__context__)) != str(each.__context__):
            each.__context__ = None
