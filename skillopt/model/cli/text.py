"""Programs that answer one prompt with text, and what their error messages mean."""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillopt.core.chat import Reply, Request, Usage
from skillopt.errors import AccessError, ConfigError, ModelError, Refused
from skillopt.model.abilities import check_abilities
from skillopt.model.cli.dialect import Program, ProgramCall, ProgramReply, converse
from skillopt.model.cli.home import Owner, temporary_home
from skillopt.model.cli.process import ProcessResult, run
from skillopt.model.credentials import SECRET_LENGTH
from skillopt.model.errors import QUOTED, Unreachable
from skillopt.model.provider import ModelSettings
from skillopt.model.tokens import counted

_TOO_LONG = re.compile(r"(?i)too long|context (length|window)|maximum context|too many tokens")
_LATER = re.compile(r"(?i)rate.?limit|overload|too many requests|\b(429|5\d\d)\b|try again later")
_SPENT = re.compile(r"(?i)usage limit|hit your limit|quota|credit|billing|premium requests")
_LOGIN = re.compile(
    r"(?i)log(ged)?[ -]?in|sign in|unauthori[sz]ed|authenticat|api key|oauth|\b40[13]\b|token"
)
_MODEL = re.compile(
    r"(?i)model\b.{0,80}\b(not|unknown|unsupported|invalid)|\b(unknown|invalid|unsupported) model"
)


def classify(
    words: str, who: str, login: str, secrets: Collection[str]
) -> ModelError | AccessError:
    """The error that a program's own words stand for."""
    said = _short(words, secrets)
    told = f' (it says: "{said}")' if said else ""
    if _TOO_LONG.search(words):
        return Refused(f"{who} refused the request{told}")
    if _SPENT.search(words):
        return AccessError(
            f"{who}: its usage limit is reached; wait until it resets, then run the same "
            f"command again{told}"
        )
    if _LATER.search(words):
        return ModelError(f"{who} is busy{told}", retryable=True)
    if _MODEL.search(words):
        return AccessError(f"{who}: model unknown; check its name{told}")
    if _LOGIN.search(words):
        return AccessError(f"{who}: not logged in; {login}{told}")
    return ModelError(f"{who} failed{told}", retryable=True)


def _short(words: str, secrets: Collection[str]) -> str:
    for secret in secrets:
        if len(secret) >= SECRET_LENGTH:
            words = words.replace(secret, "[key]")
    said = " ".join(words.split())
    return said if len(said) <= QUOTED else f"{said[:QUOTED]}…"


DEFAULT_MODEL: Final = "default"
"""The name that leaves the choice of the model to the program."""
_EVERYWHERE: Final = (
    "PATH", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SYSTEMROOT", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA",
)  # fmt: skip
"""What any program needs to start, to open the user's keyring and to reach the network."""


@dataclass(frozen=True, slots=True)
class TextProgram:
    """A model whose answers come from a program. A limit on tokens cannot be passed on to it."""

    settings: ModelSettings
    dialect: Program
    path: str
    fingerprint: str
    timeout: float
    owner: Owner
    keyed: bool
    environment: Mapping[str, str] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)

    @classmethod
    def create(cls, settings: ModelSettings, dialect: Program) -> TextProgram:
        """Settle how the program is called; whether it is there shows with the first call."""
        backend = dialect.backend
        if settings.temperature is not None:
            raise ConfigError(
                f"{backend} has no temperature; remove it from the {settings.role} model"
            )
        if settings.effort and settings.effort not in dialect.efforts:
            known = ", ".join(dialect.efforts) or "none at all"
            raise ConfigError(
                f"{backend} has no reasoning effort {settings.effort!r} (known: {known}); "
                f"change it for the {settings.role} model"
            )
        environment = {name: settings.variables.setting(name) for name in _EVERYWHERE}
        private = {name: settings.variables.get(name) for name in dialect.variables}
        key_name = dialect.server_key_name if settings.base_url else dialect.key_name
        if settings.api_key is not None:
            private[key_name] = settings.api_key
        profile, timeout = settings.extra.get("profile"), settings.extra.get("timeout")
        return cls(
            settings=settings,
            dialect=dialect,
            path=_path(settings, dialect),
            fingerprint=f"{backend}/{settings.name}/effort={settings.effort or None}"
            + (f"/profile={profile}" if profile else ""),
            timeout=timeout if isinstance(timeout, float) else settings.timeout,
            owner=_owner(settings, dialect),
            keyed=bool(private.get(key_name)),
            environment={
                name: value
                for name, value in {**environment, **private, "NO_COLOR": "1"}.items()
                if value is not None
            },
            secrets=frozenset(value for value in private.values() if value is not None),
        )

    async def complete(self, request: Request) -> Reply:
        """Ask once."""
        self._check(request)
        system, prompt = converse(request.messages)
        name = self.settings.name
        asked = ProgramCall(
            model="" if name == DEFAULT_MODEL else name,
            effort=request.effort or self.settings.effort or "",
            system=system,
            prompt=prompt,
            base_url=self.settings.base_url,
            keyed=self.keyed,
            extra=self.settings.extra,
        )
        finished, heard = await self._call(asked)
        if heard.tool:
            raise AccessError(
                f"{self._who} used the tool {heard.tool!r} although it was given none, so its "
                "answers may come from files on this machine; update the program or choose "
                "another backend"
            )
        if heard.text is None or heard.problem or finished.code != 0:
            words = heard.problem or finished.err.strip() or finished.out.strip()
            words = words or f"it exited with code {finished.code} without output"
            raise classify(words, self._who, self.dialect.login, self.secrets)
        usage = Usage(1) if heard.usage is None else heard.usage
        return counted(request, Reply(text=heard.text, usage=usage))

    @property
    def _who(self) -> str:
        return f"{self.settings.role} model {self.settings.name!r} by {Path(self.path).name}"

    def _check(self, request: Request) -> None:
        check_abilities(request, self._who)
        if request.temperature is not None:
            raise Refused(f"{self._who} has no temperature, and the request asks for one")

    async def _call(self, asked: ProgramCall) -> tuple[ProcessResult, ProgramReply]:
        program = shutil.which(self.path, path=self.environment.get("PATH"))
        if program is None:
            raise AccessError(
                f"{self._who}: there is no program {self.path!r} on PATH; install it, or set "
                f"model.{self.dialect.path_key}"
            )
        dialect = self.dialect
        with temporary_home(self.owner, dialect.folder, dialect.credentials(asked)) as place:
            command = dialect.command(asked, place)
            try:
                finished = await run(
                    [program, *command.arguments],
                    env={**self.environment, **place.variables, **command.environment},
                    cwd=place.work,
                    stdin=command.stdin,
                    timeout=self.timeout,
                )
            except TimeoutError as error:
                limit = f"{self.timeout:g} s"
                raise Unreachable(f"{self._who} did not answer within {limit}") from error
            except OSError as error:
                raise AccessError(f"{self._who} cannot be started: {error.strerror}") from error
            return finished, dialect.read(finished.out, place)


def _path(settings: ModelSettings, dialect: Program) -> str:
    own = settings.extra.get("path")
    given = own if isinstance(own, str) else ""
    given = given or settings.variables.setting(*dialect.path_variables)
    return str(Path(given).expanduser()) if given else dialect.program


def _owner(settings: ModelSettings, dialect: Program) -> Owner:
    look = settings.variables.setting
    home = Path(look("HOME", "USERPROFILE") or Path.home())
    own = settings.extra.get("home")
    given = (own if isinstance(own, str) else "") or look(dialect.folder_variable)
    cache = look("XDG_CACHE_HOME")
    return Owner(
        home,
        Path(given).expanduser() if given else home / dialect.folder,
        Path(cache) if cache else home / ".cache",
    )
