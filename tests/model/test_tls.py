"""Certificates: an unknown one is refused by name, one of a company's own authority is taken."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from support_wire import WireServer, completion, says

from skillopt.core.chat import Message, Request
from skillopt.errors import AccessError
from skillopt.model.http import Http
from skillopt.model.openai import OpenAICompatible
from skillopt.model.provider import ModelSettings

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")

CLIENT = """
import asyncio, sys
from skillopt.core.chat import Message, Request
from skillopt.model.http import Http
from skillopt.model.openai import OpenAICompatible
from skillopt.model.provider import ModelSettings

async def main():
    async with Http() as http:
        settings = ModelSettings(role="target", name="m", base_url=sys.argv[1])
        request = Request(stage="s", messages=(Message("user", "Why?"),))
        print((await OpenAICompatible.create(settings, http).complete(request)).text)

asyncio.run(main())
"""


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """One for the loopback address that vouches for itself."""
    file, key = folder / "cert.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    argv += ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    argv += ["-keyout", str(key), "-out", str(file)]
    subprocess.run(argv, check=True, capture_output=True)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(file, key)
    return file, context


async def test_an_unknown_certificate_is_no_reason_to_retry(tmp_path: Path) -> None:
    _, context = certificate(tmp_path)
    async with WireServer([says(completion())], tls=context) as server, Http() as http:
        settings = ModelSettings(role="target", name="m", base_url=server.url)
        with pytest.raises(AccessError, match="the certificate is not trusted"):
            await OpenAICompatible.create(settings, http).complete(
                Request(stage="s", messages=(Message("user", "Why?"),))
            )
    assert server.seen == []


async def test_an_authority_of_ones_own_is_named_by_a_variable(tmp_path: Path) -> None:
    file, context = certificate(tmp_path)
    async with WireServer([says(completion("by tls"))], tls=context) as server:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", CLIENT, server.url),
            env={**os.environ, "SSL_CERT_FILE": str(file)},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    assert out.decode().strip() == "by tls"
