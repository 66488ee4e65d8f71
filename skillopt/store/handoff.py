"""Questions in a folder, and the answers that users put beside them."""

from __future__ import annotations

from pathlib import Path

from skillopt.core.chat import Request
from skillopt.core.intake import BODY_BYTES, is_blank, read_file
from skillopt.errors import AnswerError, Pending
from skillopt.store.files import write_atomic

_NAME = 16
"""Characters of a key: enough to tell questions apart, short enough for a person."""


class FolderQueue:
    """One folder per role and stage, one file per question, named by what is asked.

    A question that lies there already is not written again.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def answer(self, role: str, stage: str, key: str) -> str | None:
        """What was answered; None while the file is missing or blank."""
        path = self._place(role, stage) / f"{key[:_NAME]}.answer.md"
        try:
            text = read_file(path, BODY_BYTES).decode("utf-8-sig").strip("\r\n")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError as error:
            raise AnswerError(f"{path}: not UTF-8; save the file as UTF-8") from error
        except OSError as error:
            raise AnswerError(f"{path}: cannot be read: {error.strerror}") from error
        return None if is_blank(text) else text

    def ask(self, role: str, model: str, request: Request, key: str) -> Pending:
        """Write a question down; what to raise instead of an answer."""
        name = key[:_NAME]
        path = self._place(role, request.stage) / f"{name}.question.md"
        if not path.exists():
            write_atomic(path, _question(role, model, request, name))
        return Pending(str(self._folder), frozenset((str(path.relative_to(self._folder)),)))

    def _place(self, role: str, stage: str) -> Path:
        return self._folder / f"{role}-{stage}"


def _question(role: str, model: str, request: Request, name: str) -> str:
    """For a reader who knows nothing of us."""
    messages = "\n\n".join(
        f"===== {message.role} =====\n{message.text}" for message in request.messages
    )
    return (
        f"Question to the {role} model {model!r}, stage {request.stage}.\n"
        f"Write what the assistant should say next, and nothing else, into {name}.answer.md "
        f"in this folder.\n\n{messages}\n"
    )
