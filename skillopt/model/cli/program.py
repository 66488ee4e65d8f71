"""Programs that answer one prompt with text: how they are called, and what their errors mean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from skillopt.core.chat import Message, Model, Reply, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError, Refused
from skillopt.model.cli.process import Owner, Place, run, temporary_home
from skillopt.model.credentials import hidden
from skillopt.model.errors import Unreachable, shortened
from skillopt.model.provider import ModelSettings, Provider, Transport
from skillopt.model.wire import check_abilities, counted

DEFAULT_MODEL: Final = "default"
"""The name that leaves the choice of the model to the program."""
PLAIN: Final = "You answer with text. You have no tools."
"""Stands in for a program's own instructions, which make it a coding agent."""
_EVERYWHERE: Final = (
    "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
"""What any program needs to start, to open the user's keyring and to reach the network."""
_may_pass = partial(ModelError, retryable=True)
_MEANINGS: Final = (
    (r"too long|context (length|window)|maximum context|too many tokens", Refused,
     "{who} refused the request"),
    (r"usage limit|hit your limit|quota|credit|billing|premium requests", AccessError,
     "{who}: its usage limit is reached; wait until it resets, then run the same command again"),
    (r"rate.?limit|overload|too many requests|\b(429|5\d\d)\b|try again later", _may_pass,
     "{who} is busy"),
    (r"model\b.{0,80}\b(not|unknown|unsupported|invalid)|\b(unknown|invalid|unsupported) model",
     AccessError, "{who}: model unknown; check its name"),
    (r"log(ged)?[ -]?in|sign in|unauthori[sz]ed|authenticat|api key|oauth|\b40[13]\b|token",
     AccessError, "{who}: not logged in; {login}"),
    (r"", _may_pass, "{who} failed"),
)  # fmt: skip
"""What a program's words stand for; the first that fits."""


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One question as a program can be given it."""

    settings: ModelSettings
    system: str
    prompt: str
    keyed: bool
    """Whether there is a key; else the program is logged in."""

    @property
    def model(self) -> str:
        """Blank: the one that the program is set up with."""
        return "" if self.settings.name == DEFAULT_MODEL else self.settings.name

    @property
    def whole(self) -> str:
        """Instructions and prompt in one text, for programs that have no place for the former."""
        if not self.system:
            return self.prompt
        return f"<instructions>\n{self.system}\n</instructions>\n\n{self.prompt}"


class ProgramArguments(NamedTuple):
    """How to ask."""

    arguments: Sequence[str]
    stdin: str
    environment: Mapping[str, str] = {}
    """Variables beyond those that every call has."""


@dataclass(frozen=True, slots=True)
class ProgramReply:
    """What a program's output says."""

    text: str | None
    """None: no answer."""
    usage: Usage | None = None
    """None: it does not count."""
    problem: str = ""
    """Its own words for what went wrong."""
    tool: str = ""
    """A tool that it used although it was given none."""


class Program(Provider):
    """Base of the backends that are programs: how each is called, and how its output is read."""

    backend: ClassVar[str]
    program: ClassVar[str]
    """As it is called on PATH."""
    path_key: ClassVar[str]
    """The setting that holds another path."""
    path_variables: ClassVar[tuple[str, ...]]
    """Variables that may hold another path."""
    key_name: ClassVar[str]
    """The variable under which the program looks for a key."""
    server_key_name: ClassVar[str] = ""
    """The same for a server that `base_url` names; blank: no other."""
    folder: ClassVar[str]
    """The folder in the user's home that holds its settings and credentials."""
    folder_variable: ClassVar[str]
    """The variable that names another such folder."""
    variables: ClassVar[tuple[str, ...]]
    """Variables that let it in, secrets among them."""
    efforts: ClassVar[tuple[str, ...]] = ()
    login: ClassVar[str]
    """How to log in."""

    @classmethod
    def create(cls, settings: ModelSettings, http: Transport) -> Model:
        del http
        return TextProgram.create(settings, cls())

    def credentials(self, call: ProgramCall) -> tuple[str, ...]:
        """Files of the program's folder that it may see, and nothing else of the user's.

        A log-in is for the provider's own server and for no other that `base_url` names.
        """
        raise NotImplementedError

    def command(self, call: ProgramCall, place: Place) -> ProgramArguments:
        """How to ask; files may be put into `place`, but not into its `work`."""
        raise NotImplementedError

    def read(self, out: str, place: Place) -> ProgramReply:
        """Take the output apart; what is not understood is passed over."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class ProgramRunner:
    """A program of the user's, and what it is given of the user's environment."""

    program: Program
    who: str
    """On whose behalf, for messages."""
    path: str
    timeout: float
    owner: Owner
    keyed: bool
    environment: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)

    @classmethod
    def create(cls, settings: ModelSettings, program: Program) -> ProgramRunner:
        """Settle how the program is called; whether it is there shows with the first call."""
        look, extra = settings.variables.setting, settings.extra
        environment = {name: look(name) for name in _EVERYWHERE}
        private = {name: settings.variables.get(name) for name in program.variables}
        own_server = bool(settings.base_url and program.server_key_name)
        key_name = program.server_key_name if own_server else program.key_name
        if settings.api_key is not None:
            private[key_name] = settings.api_key
        given_path = _text(extra.get("path")) or look(*program.path_variables)
        path = str(Path(given_path).expanduser()) if given_path else program.program
        home = Path(look("HOME", "USERPROFILE") or Path.home())
        given_folder = _text(extra.get("home")) or look(program.folder_variable)
        folder = Path(given_folder).expanduser() if given_folder else home / program.folder
        timeout = extra.get("timeout")
        return cls(
            program=program,
            who=f"{settings.role} model {settings.name!r} by {Path(path).name}",
            path=path,
            timeout=timeout if isinstance(timeout, float) else settings.timeout,
            owner=Owner(home, folder, Path(look("XDG_CACHE_HOME") or home / ".cache")),
            keyed=bool(private.get(key_name)),
            environment={
                name: value
                for name, value in {**environment, **private, "NO_COLOR": "1"}.items()
                if value is not None
            },
            secrets=frozenset(value for value in private.values() if value is not None),
        )

    async def run(self, call: ProgramCall) -> ProgramReply:
        """Run once in a temporary home; without an answer, the error that the words stand for."""
        path = shutil.which(self.path, path=self.environment.get("PATH"))
        if path is None:
            raise AccessError(
                f"{self.who}: there is no program {self.path!r} on PATH; install it, or set "
                f"model.{self.program.path_key}"
            )
        program = self.program
        with temporary_home(self.owner, program.folder, program.credentials(call)) as place:
            command = program.command(call, place)
            try:
                finished = await run(
                    [path, *command.arguments],
                    env={**self.environment, **place.variables, **command.environment},
                    cwd=place.work,
                    stdin=command.stdin,
                    timeout=self.timeout,
                )
            except TimeoutError as error:
                limit = f"{self.timeout:g} s"
                raise Unreachable(f"{self.who} did not answer within {limit}") from error
            except OSError as error:
                raise AccessError(f"{self.who} cannot be started: {error.strerror}") from error
            reply = program.read(finished.out, place)
        if not reply.tool and (reply.text is None or reply.problem or finished.code != 0):
            words = reply.problem or finished.err.strip() or finished.out.strip()
            words = words or f"it exited with code {finished.code} without output"
            raise classify(words, self.who, program.login, self.secrets)
        return reply


@dataclass(frozen=True, slots=True)
class TextProgram:
    """A model whose answers come from a program. A limit on tokens cannot be passed on to it."""

    settings: ModelSettings
    runner: ProgramRunner
    fingerprint: str

    @classmethod
    def create(cls, settings: ModelSettings, program: Program) -> TextProgram:
        if settings.temperature is not None:
            raise ConfigError(
                f"{program.backend} has no temperature; remove it from the {settings.role} model"
            )
        if settings.effort and settings.effort not in program.efforts:
            efforts = ", ".join(program.efforts) or "none at all"
            raise ConfigError(
                f"{program.backend} has no reasoning effort {settings.effort!r} "
                f"(known: {efforts}); change it for the {settings.role} model"
            )
        fingerprint = f"{program.backend}/{settings.name}/effort={settings.effort or None}"
        if profile := settings.extra.get("profile"):
            fingerprint += f"/profile={profile}"
        return cls(settings, ProgramRunner.create(settings, program), fingerprint)

    async def complete(self, request: Request) -> Reply:
        who = self.runner.who
        check_abilities(request, who)
        if request.temperature is not None:
            raise Refused(f"{who} has no temperature, and the request asks for one")
        system, prompt = converse(request.messages)
        settings = self.settings.for_request(request)
        reply = await self.runner.run(ProgramCall(settings, system, prompt, self.runner.keyed))
        if reply.tool:
            raise AccessError(
                f"{who} used the tool {reply.tool!r} although it was given none, so its "
                "answers may come from files on this machine; update the program or choose "
                "another backend"
            )
        return counted(request, Reply(text=reply.text or "", usage=reply.usage or Usage(1)))


def converse(messages: Sequence[Message]) -> tuple[str, str]:
    """Instructions and prompt; a conversation of several turns is written out."""
    system = "\n\n".join(message.text for message in messages if message.role == "system")
    turns = [message for message in messages if message.role != "system"]
    if len(turns) == 1:
        return system, turns[0].text
    written = "\n\n".join(f"<{turn.role}>\n{turn.text}\n</{turn.role}>" for turn in turns)
    return system, f"{written}\n\nGive the assistant's next message, and nothing else."


def classify(
    words: str, who: str, login: str, secrets: Collection[str]
) -> ModelError | AccessError:
    """The error that a program's own words stand for."""
    meaning = next(entry for entry in _MEANINGS if re.search(entry[0], words, re.IGNORECASE))
    _, kind, message = meaning
    for secret in secrets:
        words = hidden(words, secret)
    said = shortened(" ".join(words.split()))
    quoted = f' (it says: "{said}")' if said else ""
    return kind(message.format(who=who, login=login) + quoted)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
