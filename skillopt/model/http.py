"""HTTP connections to providers; no other module opens any."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Mapping

import aiohttp

from skillopt.core.intake import BODY_BYTES, ERROR_BYTES, size
from skillopt.errors import AccessError, ModelError
from skillopt.model.errors import Unreachable, place
from skillopt.model.provider import HttpAnswer

CONNECT_SECONDS = 10.0
"""A server that does not accept a connection by then is not there."""

_PIECE = 2**16
"""Bytes that are unpacked at a time."""


class Http:
    """One pool of connections for all models of a run; `async with` closes it.

    Proxies, cookies and `.netrc` of the surroundings are not used, redirects not followed: a key
    goes to the address it was given for, and nowhere else.
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Http:
        return self  # the pool opens with the first request

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(
        self, url: str, *, headers: Mapping[str, str], timeout: float, body: bytes | None = None
    ) -> HttpAnswer:
        """POST a body, or GET without one, and read all; cancelled past `timeout` seconds.

        Raises:
            Unreachable: no answer, or not the whole of it in time.
            ModelError: the answer broke off, or was no HTTP; retryable.
            AccessError: the address or the server's certificate is no good.
        """
        method = "GET" if body is None else "POST"
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        try:
            async with self._pool().request(
                method, url, headers=headers, data=body, timeout=limits, allow_redirects=False
            ) as response:
                return HttpAnswer(response.status, response.headers, await _body(response, url))
        except asyncio.TimeoutError as error:
            connecting = isinstance(error, aiohttp.ConnectionTimeoutError)
            late = "accept a connection" if connecting else f"answer within {timeout:g} s"
            raise Unreachable(f"{place(url)} did not {late}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _explain(error, place(url)) from error

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                headers={"Accept-Encoding": "gzip, deflate"},
                auto_decompress=False,  # not bounded; see `_body`
            )
        return self._session


async def _body(response: aiohttp.ClientResponse, url: str) -> bytes:
    """What the server sent, unpacked, and never more of it than there is room for.

    Of an error, its beginning; an answer that is too large is an error.
    """
    limit = BODY_BYTES if response.status == 200 else ERROR_BYTES
    packing = response.headers.get("Content-Encoding", "identity").strip().lower()
    unpack = _unpacker(packing)
    if unpack is None:
        raise ModelError(f"{place(url)}: the answer is packed as {packing[:20]!r}", retryable=True)
    body, sent = bytearray(), 0
    try:
        async for piece in response.content.iter_chunked(_PIECE):
            sent += len(piece)
            body += unpack(piece, limit + 1 - len(body))
            if max(len(body), sent) > limit:
                break
    except zlib.error as error:
        raise ModelError(f"{place(url)}: the answer cannot be unpacked", retryable=True) from error
    if max(len(body), sent) <= limit:
        return bytes(body)
    response.close()
    if response.status != 200:
        return bytes(body[:limit])
    told = f"the answer is larger than {size(limit)} and was not read to its end"
    raise ModelError(f"{place(url)}: {told}", retryable=True)


def _unpacker(packing: str) -> Callable[[bytes, int], bytes] | None:
    """What turns a piece of a body into at most so many bytes of content; None: unknown to us."""
    match packing:
        case "" | "identity":
            return lambda piece, _: piece
        case "gzip" | "x-gzip" | "deflate":
            stream = zlib.decompressobj(zlib.MAX_WBITS | 32)
            return lambda piece, room: stream.decompress(stream.unconsumed_tail + piece, room)
        case _:
            return None


def _explain(error: aiohttp.ClientError | OSError, where: str) -> ModelError | AccessError:
    match error:
        case aiohttp.InvalidURL():
            return AccessError(f"{where} is not an address; check base_url")
        case aiohttp.ClientConnectorCertificateError():
            return AccessError(f"{where}: the certificate is not trusted ({error})")
        case aiohttp.ClientPayloadError():
            return ModelError(f"{where}: the connection was lost during the answer", retryable=True)
        case aiohttp.ClientResponseError():
            return ModelError(f"{where}: the answer is not HTTP", retryable=True)
        case aiohttp.ClientConnectorError():
            return Unreachable(f"{where} cannot be reached ({error.os_error}); is it running?")
        case _:
            return Unreachable(f"{where} closed the connection without an answer")
