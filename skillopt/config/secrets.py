"""Environment variables and `.env` files; no other module reads either."""

from __future__ import annotations

import json
import os
import re
import stat
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from skillopt.config.redaction import HIDDEN, names_secret, redact
from skillopt.core.intake import ENV_BYTES, read_file
from skillopt.errors import ConfigError

_SHORTEST: Final = 8
"""A shorter value is not hidden: it would be found inside ordinary words."""

_QUOTED: Final = r"""'[^']*'|"(?:[^"\\]|\\.)*\""""
_PIECE: Final = re.compile(
    r"""'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s'"]+)""", re.DOTALL
)
_LINE: Final = re.compile(
    rf"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?:(?P<quoted>(?:{_QUOTED})(?:{_QUOTED}|[^\s'"])*)|(?P<bare>[^\r\n]*))""",
    re.MULTILINE | re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {
    "n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`",
}  # fmt: skip


_ADDRESS: Final = re.compile(r"_(?:BASE_URL|URL|ENDPOINT|API_BASE|HOST)\Z")
_KEY: Final = re.compile(r"_(?:API_KEY|AUTH_TOKEN|ACCESS_KEY|KEY|TOKEN)\Z")
_QUERY_SECRET: Final = re.compile(r"(?i)(?:key|token|secret|sig|signature|password|code)\Z")
_ROLE: Final = re.compile(r"(?:TARGET|OPTIMIZER|JUDGE)_|_(?:TARGET|OPTIMIZER|JUDGE)\Z")
_SHOWN: Final = 6
"""Names of variables that a notice lists."""
_PROCESS: Final = "the environment"


def with_variables(text: str) -> str:
    """A path with the values of the variables that it starts with or contains: `$HOME/data`.

    A variable that is not set stays as it is written, so that an error shows its name.
    """
    return os.path.expandvars(text)


class Secrets:
    """Variables of the environment; what was fetched as a secret can be hidden in any text."""

    def __init__(
        self,
        variables: Mapping[str, str],
        *,
        origins: Mapping[str, str] | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        self._variables = dict(variables)
        self._origins = dict(origins or {})
        """The file that a variable came from; absent: the process's own."""
        self._fetched: set[str] = set()
        self._public: list[str] = []
        self._hidden: list[str] | None = None
        """What to hide, the longest first; None: to be found out."""
        self.notices = tuple(notices)
        """What was read from which file, and which files were not read, for people."""

    @classmethod
    def load(cls, start: Path | None = None, project: Path | None = None) -> Secrets:
        """The process's own variables and, where they are silent, those of `.env` files.

        These are read from `start` (default: the current directory) and, after it, from the folder
        of the configuration file (`project`), and from nowhere else.
        """
        folders = [start or _current_folder(), project]
        variables = dict(os.environ)
        origins: dict[str, str] = {}
        notices: list[str] = []
        for folder in dict.fromkeys(path.resolve() for path in folders if path is not None):
            file = folder / ".env"
            if not file.is_file():
                continue
            if problem := _distrusted(file):
                notices.append(f"{file} was not read: {problem}")
                continue
            new = {name: text for name, text in _read(file).items() if name not in variables}
            variables |= new
            origins |= dict.fromkeys(new, str(file))
            if new:
                notices.append(f"read {_listed(new)} from {file}")
        return cls(variables, origins=origins, notices=notices)

    def __repr__(self) -> str:
        return f"Secrets({len(self._variables)} variables)"

    def get(self, *names: str) -> str | None:
        """The first of these variables that is set and not blank; its value is a secret."""
        if not (name := self.first_set(*names)):
            return None
        value = self._variables[name].strip()
        self.hide(value)
        return value

    def setting(self, *names: str) -> str | None:
        """As `get`, for a value that may be shown, such as an address.

        Raises:
            ConfigError: It is an address from a `.env` file, and the key that belongs to it comes
                from somewhere else.
        """
        if not (name := self.first_set(*names)):
            return None
        if _ADDRESS.search(name):
            for key in self._keys_of(name):
                self.check_address(name, key)
        return self._variables[name].strip()

    def check_address(self, address: str, key: str) -> None:
        """Refuse to send the key in one variable to the address in another of less trust.

        A `.env` file may name an address for the keys in it. For a key from elsewhere, the
        configuration has to name the address; one on this machine is harmless.
        """
        file = self._origins.get(address)
        source = self._origins.get(key, _PROCESS)
        url = self._variables.get(address, "").strip()
        if file is None or source == file or not self._variables.get(key) or on_this_machine(url):
            return
        raise ConfigError(
            f"{key} comes from {source}, but {address} from {file}: the key is not sent to an "
            "address that another file names. Put both into one place, or confirm the address in "
            "the configuration (model.base_url=...)."
        )

    def hide(self, value: str) -> None:
        """From now on, hide this value in any text."""
        if len(value) >= _SHORTEST:
            self._hidden = None
            self._fetched |= {value, quote(value, safe=""), json.dumps(value)[1:-1]}

    def publish(self, texts: Iterable[str]) -> None:
        """What occurs in these texts is no secret: tasks and skills are read by models anyway.

        A placeholder such as `lm-studio` may be the right answer to a task. If it were removed
        from a reply, the reply would be scored as wrong.
        """
        self._hidden = None
        self._public += texts

    @property
    def published(self) -> bool:
        """Whether a value that was fetched as a secret occurs in a text that is public."""
        return any(value in text for value in self._fetched for text in self._public)

    def hide_address(self, url: str) -> None:
        """Hide what lets one in: a password, in the form that is sent, too, and keys in a query."""
        try:
            parts = urlsplit(url)
        except ValueError:
            where = repr(url.rpartition("@")[2])
            raise ConfigError(
                f"base_url: the password for {where} was hidden when these settings were kept; "
                "write the whole address again (model.base_url=...)"
                if HIDDEN in url
                else f"base_url {where} is not an address; write it like http://localhost:8000/v1"
            ) from None
        if parts.password:
            user, password = unquote(parts.username or ""), unquote(parts.password)
            self.hide(password)
            self.hide(b64encode(f"{user}:{password}".encode()).decode())
        for name, value in parse_qsl(parts.query):
            if _QUERY_SECRET.search(name):
                self.hide(value)

    def first_set(self, *names: str) -> str:
        """The name of the first of these variables that is set and not blank; or blank."""
        return next((name for name in names if self._variables.get(name, "").strip()), "")

    def _keys_of(self, address: str) -> list[str]:
        """Variables with keys that are called like an address: OPENAI_API_KEY, OPENAI_BASE_URL."""
        family = _ROLE.sub("", _ADDRESS.sub("", address))
        return [
            name
            for name in self._variables
            if _KEY.search(name) and _ROLE.sub("", _KEY.sub("", name)) == family
        ]

    def harmless(self) -> dict[str, str]:
        """The variables for a child process that needs no secret: all that do not look like one."""
        return {
            name: value
            for name, value in self._variables.items()
            if not names_secret(name) and value not in self._fetched and redact(value) == value
        }

    def hide_values(self, text: str) -> str:
        """The text without any secret that was fetched."""
        hidden = self._hidden  # another thread may take it back in between
        if hidden is None:
            secret = [v for v in self._fetched if not any(v in public for public in self._public)]
            hidden = self._hidden = sorted(secret, key=len, reverse=True)
        for value in hidden:
            text = text.replace(value, HIDDEN)
        return text

    def redact(self, text: str) -> str:
        """The text without any secret that was fetched and without what looks like one."""
        return redact(self.hide_values(text))


def _current_folder() -> Path | None:
    """None if it was deleted meanwhile."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def parse_env(text: str) -> dict[str, str]:
    """The variables of a `.env` file; lines that set nothing are passed over."""
    return {
        line["name"]: re.sub(r"(?:^|\s)#.*", "", line["bare"]).strip()
        if line["quoted"] is None
        else "".join(map(_unquoted, _PIECE.finditer(line["quoted"])))
        for line in _LINE.finditer(text)
    }


def _unquoted(piece: re.Match[str]) -> str:
    if (double := piece["double"]) is not None:
        return re.sub(r"\\(.)", _unescape, double, flags=re.DOTALL)
    return piece["single"] or piece["plain"] or ""


def _unescape(escape: re.Match[str]) -> str:
    return _ESCAPES.get(escape[1], escape[0])


def _distrusted(file: Path) -> str:
    """Why a file is not to be believed; blank when it is."""
    if os.name != "posix":
        return ""
    ours = {0, os.geteuid()}
    if file.lstat().st_uid not in ours or file.stat().st_uid not in ours:
        return "it belongs to another user"
    if file.stat().st_mode & stat.S_IWOTH:
        return "everybody may write to it; take that right away (chmod o-w)"
    return ""


def _listed(names: Iterable[str]) -> str:
    listed = sorted(names)
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def on_this_machine(url: str) -> bool:
    """Whether an address is one of this machine."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _read(file: Path) -> dict[str, str]:
    try:
        return parse_env(read_file(file, ENV_BYTES).decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: not UTF-8; save the file as UTF-8") from None
