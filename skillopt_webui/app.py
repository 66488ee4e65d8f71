"""`skillopt web` and `python -m skillopt_webui.app`: start the dashboard."""

from __future__ import annotations

import gc
import logging
import secrets
import socket
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from skillopt import __version__
from skillopt.core.extras import install_command, packages_of
from skillopt.core.paths import similar_path
from skillopt.errors import ConfigError, SkilloptError

DEFAULT_PORT = 7860


@dataclass(frozen=True, slots=True, kw_only=True)
class WebOptions:
    runs: Path
    """Folder with run directories."""
    project: Path
    """Whose nights of Sleep are shown."""
    host: str
    port: int
    share: bool
    read_only: bool


def web(options: WebOptions) -> None:
    """Serve the dashboard until Ctrl-C."""
    _check_installed()
    for folder, option in ((options.runs, "--runs"), (options.project, "--project")):
        if not folder.is_dir():
            near = similar_path(folder)
            hint = f"did you mean {near}?" if near else f"make it, or name another with {option}"
            raise ConfigError(f"{folder} is not a directory; {hint}")
    with ExitStack() as stack:
        _serve(stack, options)


def _serve(stack: ExitStack, options: WebOptions) -> None:
    import uvicorn

    from skillopt_webui.security import Access, is_loopback
    from skillopt_webui.server import Dashboard
    from skillopt_webui.sharing import tunnel

    listening = stack.enter_context(_listening(options.host, options.port))
    port = int(listening.getsockname()[1])
    needs_token = options.share or not is_loopback(options.host)
    token = secrets.token_urlsafe(24) if needs_token else ""
    access = Access(options.host, port, token, options.read_only)
    link = access.link()
    if options.share:
        address = stack.enter_context(tunnel(port))
        access.names.add((urlsplit(address).hostname or "").lower())
        link = access.link(address)
        _tell(f"on this machine: http://127.0.0.1:{port}/")
    # Records are many small values that stay: looking for cycles in them takes half the time.
    gc.set_threshold(100_000, 50, 50)
    runs, project = options.runs.absolute(), options.project.absolute()
    dashboard = Dashboard(runs, access, Path.cwd(), project)
    _tell(f"skillopt {__version__}: runs in {runs.resolve()}")
    _tell(f"dashboard: {link}")
    if elsewhere := "" if options.share else access.link_elsewhere():
        _tell(f"from other machines: {elsewhere}")
    if needs_token:
        may = "look at the runs" if options.read_only else "start and stop runs"
        _tell(f"Whoever has this link can {may} here. It is shown only once.")
    _tell("Ctrl-C ends the dashboard; runs that it has started go on.")
    config = uvicorn.Config(
        dashboard.app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="none",
        # The address of the browser is not needed, and a proxy's word for it not believed.
        proxy_headers=False,
    )

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """End the streams, which pages keep open for as long as they can."""
            dashboard.live.close()
            logging.getLogger("uvicorn.error").disabled = True  # requests that are cut off now
            await super().shutdown(sockets)

    with suppress(KeyboardInterrupt):  # the way to end it
        Server(config).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, so that a port in use is told before anything else."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"the dashboard cannot listen on {host} port {port}: {why}. "
            "Choose another port with --port, or 0 for any that is free."
        ) from error
    return listening


def _check_installed() -> None:
    missing = [name for name in packages_of("webui") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"the dashboard needs {', '.join(missing)}; install it with {install_command('webui')}"
        )


def _tell(line: str) -> None:
    click.echo(line, err=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--runs", type=click.Path(path_type=Path), default=Path(), help="Folder with run directories."
)
@click.option(
    "--project", type=click.Path(path_type=Path), default=Path(), help="Whose nights are shown."
)
@click.option("--port", type=click.IntRange(0, 65_535), default=DEFAULT_PORT, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--share", is_flag=True, help="Public address through cloudflared, ngrok or ssh.")
@click.option("--read-only", is_flag=True, help="Show runs; start, stop and change nothing.")
def main(**options: Any) -> None:  # noqa: ANN401 - click's
    """Show runs in the browser, and start, stop and review them."""
    try:
        web(WebOptions(**options))
    except SkilloptError as error:
        _tell(f"error: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
