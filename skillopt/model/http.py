"""The one place that opens connections to providers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp

from skillopt.errors import AccessError, ModelError
from skillopt.model.failures import Unreached, place
from skillopt.model.provider import Answer

CONNECT_SECONDS = 10.0
"""A server that does not accept a connection by then is not there."""


class Http:
    """One pool of connections for all models of a run; `async with` closes it.

    Proxies, cookies and `.netrc` of the surroundings are not used, redirects not followed: a key
    goes to the address it was given for, and nowhere else.
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Http:
        """Nothing yet: the pool opens with the first request."""
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes, timeout: float
    ) -> Answer:
        """Send and read all; past `timeout` seconds the request is cancelled.

        Raises:
            Unreached: no answer, or not the whole of it in time.
            ModelError: the answer broke off, or was no HTTP; retryable.
            AccessError: the address or the server's certificate is no good.
        """
        return await self._send("POST", url, headers, body, timeout)

    async def get(self, url: str, *, headers: Mapping[str, str], timeout: float) -> Answer:
        """Fetch and read all, as `post` does."""
        return await self._send("GET", url, headers, None, timeout)

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> Answer:
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        try:
            async with self._pool().request(
                method, url, headers=headers, data=body, timeout=limits, allow_redirects=False
            ) as response:
                return Answer(response.status, response.headers, await response.read())
        except asyncio.TimeoutError as error:
            late = "accept a connection" if _connecting(error) else f"answer within {timeout:g} s"
            raise Unreached(f"{place(url)} did not {late}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _explain(error, place(url)) from error

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


def _connecting(error: Exception) -> bool:
    return isinstance(error, aiohttp.ConnectionTimeoutError)


def _explain(error: aiohttp.ClientError | OSError, where: str) -> ModelError | AccessError:
    match error:
        case aiohttp.InvalidURL():
            return AccessError(f"{where} is not an address; check base_url")
        case aiohttp.ClientConnectorCertificateError():
            return AccessError(f"{where}: the certificate is not trusted ({error})")
        case aiohttp.ClientPayloadError():
            return ModelError(f"{where}: the answer broke off", retryable=True)
        case aiohttp.ClientResponseError():
            return ModelError(f"{where}: the answer is not HTTP", retryable=True)
        case aiohttp.ClientConnectorError():
            return Unreached(f"{where} cannot be reached ({error.os_error}); is it running?")
        case _:
            return Unreached(f"{where} closed the connection without an answer")
