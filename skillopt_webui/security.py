"""Who may ask the server: hosts, token, origins, and what a browser may do with the page."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CSRF_HEADER = "x-skillopt"
_LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        # Plotly brings its own rules in a style element. No script can come in this way.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_SAFE = frozenset(("GET", "HEAD"))
_UNKNOWN = (
    "This dashboard needs its token. Open the link that was printed when it was started "
    "(http://HOST:PORT/?token=...); the browser keeps it from then on.\n"
)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach an address."""
    if host in _LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(slots=True)
class Access:
    """Which hosts the server answers for, and what proves that a request is the user's."""

    host: str
    """What the server is bound to."""
    port: int
    token: str = ""
    """Empty: none is needed, because only this machine reaches the server."""
    read_only: bool = False
    csrf: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    names: set[str] = field(default_factory=set[str])
    """Further host names, such as that of a tunnel."""

    @property
    def cookie(self) -> str:
        """Its name; cookies of one host are shared by all its ports."""
        return f"skillopt_{self.port}"

    @property
    def proof(self) -> str:
        """What the cookie holds: it follows from the token and does not tell it."""
        return hmac.new(self.token.encode(), b"cookie", sha256).hexdigest()

    def link(self, base: str = "") -> str:
        """The address to open, with the token if one is needed."""
        address = base.rstrip("/") or self._address("127.0.0.1" if self._anywhere else self.host)
        return f"{address}/?token={self.token}" if self.token else f"{address}/"

    def link_elsewhere(self) -> str:
        """The same for other machines; empty where the other link serves them, or none may come."""
        return self.link(self._address(_outward(self.host))) if self._anywhere else ""

    @property
    def _anywhere(self) -> bool:
        """Whether it is bound to all addresses of this machine."""
        return self.host in {"0.0.0.0", "::"}  # noqa: S104 - compared

    def _address(self, host: str) -> str:
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def answers_for(self, name: str) -> bool:
        """Whether a request that names this host is meant for us.

        A foreign page can make a name of its own lead to this machine, but not one of these.
        """
        if name in _LOOPBACK or name in self.names or name == self.host:
            return True
        if is_loopback(self.host):
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
        return True


def _outward(host: str) -> str:
    """The address by which others reach this machine, or its name where it has no network."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    test = "2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1"  # nobody's, by convention
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((test, 9))  # sends nothing: only the way there is looked up
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname().lower()


class Guard:
    """Lets through what the user asks from this very page, and tells browsers the rules."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refused = self._refusal(scope)
        await (self._app if refused is None else refused)(scope, receive, answer)

    def _refusal(self, scope: Scope) -> Response | None:
        """What to answer instead; None: the request is in order."""
        headers, method = Headers(scope=scope), str(scope["method"])
        host = headers.get("host", "")
        if not self._access.answers_for(_name(host)):
            return PlainTextResponse(
                f"This server does not answer for the host {_name(host)[:80]!r}. "
                "Use the address that was printed when it was started.\n",
                status_code=421,
            )
        if not _is_own(headers, host, page=not str(scope["path"]).startswith("/api/")):
            return PlainTextResponse("Requests of other sites are refused.\n", status_code=403)
        if self._access.token and (refused := self._without_token(scope, headers)) is not None:
            return refused
        return None if method in _SAFE else self._unsafe(headers)

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        access = self._access
        if _same(_cookie(headers, access.cookie), access.proof):
            return None
        query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
        if scope["method"] != "GET" or not _same(query.pop("token", ""), access.token):
            return PlainTextResponse(_UNKNOWN, status_code=401)
        place = f"{scope['path']}?{urlencode(query)}" if query else str(scope["path"])
        # A path that begins with two slashes would lead to another host.
        entered = RedirectResponse(f"/{place.lstrip('/')}", status_code=303)
        entered.set_cookie(
            access.cookie,
            access.proof,
            httponly=True,
            samesite="strict",
            secure=headers.get("x-forwarded-proto") == "https",
            max_age=30 * 86_400,
        )
        return entered

    def _unsafe(self, headers: Headers) -> Response | None:
        if not _same(headers.get(CSRF_HEADER, ""), self._access.csrf):
            return JSONResponse(
                {"error": "The page is older than the server. Reload it and try again."},
                status_code=403,
            )
        if self._access.read_only:
            return JSONResponse(
                {
                    "error": "This dashboard is read-only. Start it without --read-only to "
                    "launch, stop or review runs."
                },
                status_code=403,
            )
        return None


def _name(host: str) -> str:
    """The host without its port, in small letters."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _place(origin: str) -> str:
    """Host and port of an origin; empty for what is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_own(headers: Headers, host: str, *, page: bool) -> bool:
    """Whether a request comes from this page, from no page at all, or opens it by a link."""
    origin = headers.get("origin")
    if origin is not None and _place(origin) != host.lower():
        return False
    site = headers.get("sec-fetch-site", "none")
    if site in {"same-origin", "none"}:
        return True
    return page and headers.get("sec-fetch-mode") == "navigate"


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
