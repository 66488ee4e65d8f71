"""What the page may ask: the routes, each a short function."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Final, TypeVar, cast

from starlette import responses
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from skillopt import __version__
from skillopt.analysis.differences import skill_differences
from skillopt.errors import Outdated, SkilloptError
from skillopt_webui import payloads
from skillopt_webui.launching import Invalid, Launcher, Refused
from skillopt_webui.live import Live
from skillopt_webui.logs import LOGS, last_error, log_of
from skillopt_webui.nights import Nights
from skillopt_webui.runs import (
    FAILED,
    NOT_BEGUN,
    Catalogue,
    Json,
    NotFound,
    OpenRun,
    RunCache,
    has_no_fact,
    summary_of,
)
from skillopt_webui.security import Access, Guard

T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]

_UPLOAD: Final = 64 << 20
_BODY: Final = 2 << 20
_DIGITS: Final = 16
"""Numbers with as many digits are no counts."""
GONE: Final = "no longer there"
_SCAN: Final = 2.0
"""Seconds between two looks at which runs there are, at least."""
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class JSONResponse(responses.JSONResponse):
    """In ASCII, so that names of files that are no Unicode come through as what they are."""

    def render(self, content: object) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


class Dashboard:
    """The runs below a root, and the page about them."""

    def __init__(self, root: Path, access: Access, place: Path, project: Path) -> None:
        self.access = access
        self.launcher = Launcher(root, place)
        self.catalogue = Catalogue(root, summary_of, awaited=self.launcher.awaits)
        self.run_cache = RunCache(self.catalogue)
        self.nights = Nights(project, root / LOGS / "sleep.log")
        self.live = Live(self, lambda: self.catalogue.version)
        self.run_cache.busy = self.live.follows
        self._assets: dict[str, tuple[bytes, str]] = {}
        self._asked = 0
        """Questions about runs that are being answered."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = 0
        """Processes that were over when the runs were last looked at."""

    def shown(self, run: OpenRun) -> Json | None:
        job = self.launcher.job(run.id)
        return None if job is None else job.shown()

    def output(self, run: OpenRun) -> Path | None:
        return self.launcher.log(run.folder)

    def standing(self, name: str, folder: Path, why: str) -> Json:
        """How a run stands whose record cannot be shown, for the reason `why`."""
        job = self.launcher.job(name)
        if job is not None and job.running:
            return {"status": "starting", "why": ""}
        log = log_of(self.catalogue.root, folder)
        said = last_error(log) if job is None else job.said if job.failed else ""
        if not folder.is_dir() and not said:
            return {"status": GONE, "why": f"{folder} was removed or renamed"}
        if not has_no_fact(folder):
            return {"status": "unreadable", "why": why}
        if said:
            return {"status": FAILED, "why": said}
        return {
            "status": NOT_BEGUN,
            "why": "the process ended before the initial skill was measured",
        }

    def app(self) -> Guard:
        """The server, behind what keeps others out."""
        routes = [
            *(Route(path, _answering(handler), methods=["GET"]) for path, handler in self._reads()),
            *(Route(path, _answering(work), methods=["POST"]) for path, work in self._writes()),
            Route("/static/{name:path}", self.static),
            Route("/plotly.js", self.plotly),
            Route("/api/{rest:path}", _unknown),
            Route("/{rest:path}", self.page),
        ]
        return Guard(Starlette(routes=routes, lifespan=self._lifespan), self.access)

    def _reads(self) -> list[tuple[str, Handler]]:
        return [
            ("/api/session", self.session),
            ("/api/runs", self.runs),
            ("/api/compare", self.compare),
            ("/api/compare/diff", self.compare_diff),
            ("/api/stream", self.stream),
            ("/api/configs", self.configs),
            ("/api/keys", self.keys),
            ("/api/means", self.means),
            ("/api/sleep", self.sleep),
            ("/api/sleep/{name}", self.night),
            ("/api/runs/{id}", self.overview),
            ("/api/runs/{id}/steps/{position:int}", self.step),
            ("/api/runs/{id}/skill", self.skill),
            ("/api/runs/{id}/skill.md", self.skill_file),
            ("/api/runs/{id}/skill.zip", self.skill_zip),
            ("/api/runs/{id}/items", self.items),
            ("/api/runs/{id}/attempts", self.attempts),
            ("/api/runs/{id}/cost", self.cost),
            ("/api/runs/{id}/log", self.log),
            ("/api/runs/{id}/settings", self.settings),
            ("/api/runs/{id}/proposals", self.proposals),
            ("/api/runs/{id}/proposals/text", self.proposal_text),
        ]

    def _writes(self) -> list[tuple[str, Handler]]:
        return [
            ("/api/resolve", self.resolve),
            ("/api/ask/{what}", self.ask),
            ("/api/data", self.data),
            ("/api/launch", self.launch),
            ("/api/runs/{id}/stop", self.stop),
            ("/api/runs/{id}/resume", self.resume),
            ("/api/runs/{id}/review", self.review),
            ("/api/runs/{id}/test", self.test),
            ("/api/sleep/{what}", self.sleep_act),
        ]

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncGenerator[None, None]:
        task = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            task.cancel()
            self.run_cache.close()

    async def _watch(self) -> None:
        """Keep the list of runs up to date, whatever happens."""
        while True:
            pause = _SCAN
            try:
                pause = await self._look()
            except Exception:  # noqa: BLE001 - one look fails, not all that follow
                traceback.print_exc(file=sys.stderr)
            await asyncio.sleep(pause)

    async def _look(self) -> float:
        """Look at the runs; seconds until the next look, more of them for a large folder."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.to_thread(self.catalogue.scan)
        if self._ended != self.launcher.ended:
            self._ended = self.launcher.ended
            self.catalogue.version += 1
        took = loop.time() - start
        while await asyncio.to_thread(self.catalogue.read_some):
            await self._idle.wait()  # who waits for an answer goes first
            if loop.time() - start > 10 * took + _SCAN:
                break
        return max(_SCAN, 5 * took)

    # What is read.

    async def session(self, _: Request) -> Response:
        access = self.access
        return JSONResponse(
            {
                "csrf": access.csrf,
                "readOnly": access.read_only,
                "version": __version__,
                "root": str(self.catalogue.root.resolve()),
            }
        )

    async def runs(self, _: Request) -> Response:
        catalogue = self.catalogue
        cards = [
            told | self.standing(card.id, card.folder, str(told["why"]))
            if (told := card.shown())["status"] == NOT_BEGUN
            else told
            for card in catalogue.cards()
        ]
        return JSONResponse({"version": catalogue.version, "runs": cards})

    async def overview(self, request: Request) -> Response:
        run = self._run(request)
        job = self.shown(run)
        self._asked += 1
        self._idle.clear()
        try:
            told = await run.ask(payloads.overview)
        except SkilloptError as error:
            told = {"begun": False, "position": 0, **self.standing(run.id, run.folder, str(error))}
            told["again"] = self.launcher.source(run.folder) is not None
            told["config"] = self.launcher.config_id(run.folder)
        finally:
            self._asked -= 1
            if not self._asked:
                self._idle.set()
        card = next(card for card in self.catalogue.cards() if card.id == run.id)
        return JSONResponse({**told, "id": run.id, "name": card.name, "job": job})

    async def step(self, request: Request) -> Response:
        position = int(request.path_params["position"])
        return await self._told(request, lambda run: payloads.step_detail(run.views, position))

    async def skill(self, request: Request) -> Response:
        name, against = _asked(request, "name", "best"), _asked(request, "against", "")
        return await self._told(request, lambda run: payloads.skill_view(run, name, against))

    async def skill_file(self, request: Request) -> Response:
        name = _asked(request, "name", "best")
        text = await self._run(request).ask(lambda run: payloads.skill_text(run, name))
        return _download(text.encode(), "SKILL.md", "text/markdown; charset=utf-8")

    async def skill_zip(self, request: Request) -> Response:
        name = _asked(request, "name", "best")
        packed = await self._run(request).ask(lambda run: payloads.skill_package(run, name))
        return _download(packed, "skill.zip", "application/zip")

    async def items(self, request: Request) -> Response:
        every = _asked(request, "all", "") == "1"
        return await self._told(request, lambda run: payloads.items_view(run, every=every))

    async def attempts(self, request: Request) -> Response:
        task = _asked(request, "task", "")
        skills = request.query_params.getlist("skill")[:2]
        return await self._told(request, lambda run: payloads.attempts_view(run, task, skills))

    async def cost(self, request: Request) -> Response:
        return await self._told(request, lambda run: cast("Json", payloads.plain(run.views.cost())))

    async def log(self, request: Request) -> Response:
        before = _number(request.query_params.get("before"))
        return await self._told(request, lambda run: payloads.log_view(run, before))

    async def settings(self, request: Request) -> Response:
        return await self._told(request, payloads.settings_view)

    async def proposals(self, request: Request) -> Response:
        return await self._told(request, payloads.proposals_view)

    async def proposal_text(self, request: Request) -> Response:
        about = _asked(request, "about", "")
        return await self._told(request, lambda run: payloads.edit_view(run, about))

    async def compare(self, request: Request) -> Response:
        names = request.query_params.getlist("run")[:8]
        return JSONResponse({"runs": [await self._compared(name) for name in names]})

    async def _compared(self, name: str) -> Json:
        """One run of a comparison; one that cannot be read leaves the others as they are."""
        try:
            return {"name": name, **await self.run_cache.run(name).ask(payloads.compare_view)}
        except SkilloptError as error:
            return {"name": name, "id": name, "problem": str(error)}

    async def compare_diff(self, request: Request) -> Response:
        """How the best skills of two runs differ."""
        names = request.query_params.getlist("run")
        if len(names) != 2:
            raise Refused("name two runs")
        old, new = [await self.run_cache.run(name).ask(payloads.best_skill) for name in names]
        return JSONResponse({"files": payloads.plain(skill_differences(old, new, 4))})

    async def stream(self, request: Request) -> Response:
        name = request.query_params.get("run", "")
        seen = request.headers.get("last-event-id") or request.query_params.get("after")
        run = self.run_cache.run(name) if name else None
        return StreamingResponse(
            self.live.stream(run, _number(seen)),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def configs(self, _: Request) -> Response:
        return JSONResponse({"configs": await asyncio.to_thread(self.launcher.configs)})

    async def keys(self, request: Request) -> Response:
        environment = _asked(request, "env", "")
        known = environment if environment.replace("_", "").isalnum() else ""
        return JSONResponse({"keys": await asyncio.to_thread(self.launcher.keys, known)})

    async def means(self, _: Request) -> Response:
        return JSONResponse(await asyncio.to_thread(self.launcher.means))

    async def sleep(self, _: Request) -> Response:
        return JSONResponse(await self.nights.view())

    async def night(self, request: Request) -> Response:
        name = str(request.path_params["name"])
        return JSONResponse(await asyncio.to_thread(self.nights.night, name))

    # What changes something.

    async def resolve(self, request: Request) -> Response:
        body = await _json(request)
        config, settings = _text(body, "config"), _settings(body)
        return JSONResponse(await asyncio.to_thread(self.launcher.resolve, config, settings))

    async def ask(self, request: Request) -> Response:
        what = str(request.path_params["what"])
        if what not in {"estimate", "check", "doctor"}:
            raise NotFound(f"nobody knows how to {what!r}")
        body = await _json(request)
        answer = await self.launcher.ask(
            what, _text(body, "config"), _settings(body), skill=_text(body, "skill")
        )
        return JSONResponse(answer)

    async def data(self, request: Request) -> Response:
        content = await _body(request, _UPLOAD)
        name, filename, earlier = (
            _asked(request, key, "") for key in ("name", "filename", "earlier")
        )
        return JSONResponse(
            await asyncio.to_thread(self.launcher.take_data, name, filename, content, earlier)
        )

    async def launch(self, request: Request) -> Response:
        body = await _json(request)
        name = _text(body, "name")
        if _text(body, "kind") == "simulated":
            told = await self.launcher.simulate(name, _whole(body, "seed") or 0)
        else:
            told = await self.launcher.launch(
                name, _text(body, "config"), _settings(body), skill=_text(body, "skill")
            )
        await asyncio.to_thread(self.catalogue.scan)
        return JSONResponse(told)

    async def stop(self, request: Request) -> Response:
        run = self._run(request)
        self.launcher.stop(run.id, run.folder)
        return JSONResponse({"id": run.id})

    async def resume(self, request: Request) -> Response:
        run, body = self._run(request), await _json(request)
        asked = {"num_epochs": _whole(body, "epochs"), "patience": _whole(body, "patience")}
        more = {key: number for key, number in asked.items() if number is not None}
        if "num_epochs" in more:
            done = await run.ask(payloads.epochs_done)
            if more["num_epochs"] <= done:
                raise Invalid(
                    f"epochs should be at least {done + 1}: the run has been through {done}"
                )
        return JSONResponse(await self.launcher.resume(run.folder, more))

    async def test(self, request: Request) -> Response:
        """The final test once more, with the skills as they are now."""
        run = self._run(request)
        return JSONResponse(await self.launcher.test(run.folder))

    async def review(self, request: Request) -> Response:
        """A person's decision: carried out and recorded by a process of its own."""
        run, body = self._run(request), await _json(request)
        return JSONResponse(
            await self.launcher.review(
                run.folder,
                _text(body, "verdict"),
                _text(body, "about"),
                text=_text(body, "text") if "text" in body else None,
                comment=_text(body, "comment"),
                if_better=body.get("if_better") is True,
                as_best=body.get("as_best") is True,
                base=_text(body, "base"),
                by=_text(body, "by"),
            )
        )

    async def sleep_act(self, request: Request) -> Response:
        body = await _json(request)
        what = str(request.path_params["what"])
        options = {key: _text(body, key) for key in ("target", "hour", "minute")}
        return JSONResponse(await self.nights.act(what, _text(body, "night"), options))

    # The page itself.

    async def page(self, _: Request) -> Response:
        return self._asset("index.html")

    async def static(self, request: Request) -> Response:
        return self._asset(str(request.path_params["name"]))

    async def plotly(self, request: Request) -> Response:
        """Plotly's JavaScript out of its package, compressed once."""
        content = await asyncio.to_thread(_plotly)
        if content is None:
            return PlainTextResponse("plotly is not installed\n", status_code=404)
        headers = {"cache-control": "private, max-age=604800", "vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return Response(content[1], media_type=_TYPES[".js"], headers=headers)
        return Response(content[0], media_type=_TYPES[".js"], headers=headers)

    def _asset(self, name: str) -> Response:
        found = self._assets.get(name)
        if found is None:
            known = {
                path.name: path for path in files("skillopt_webui").joinpath("static").iterdir()
            }
            path = known.get(name)
            if path is None or not path.is_file():
                return PlainTextResponse("There is no such file.\n", status_code=404)
            kind = _TYPES.get(Path(name).suffix, "application/octet-stream")
            found = self._assets[name] = path.read_bytes(), kind
        return Response(found[0], media_type=found[1], headers={"cache-control": "no-cache"})

    def _run(self, request: Request) -> OpenRun:
        return self.run_cache.run(str(request.path_params["id"]))

    async def _told(self, request: Request, work: Callable[[OpenRun], Json]) -> Response:
        return JSONResponse(await self._run(request).ask(work))


_PLOTLY: list[tuple[bytes, bytes]] = []


def _plotly() -> tuple[bytes, bytes] | None:
    if not _PLOTLY:
        try:
            script = (files("plotly") / "package_data" / "plotly.min.js").read_bytes()
        except (ModuleNotFoundError, OSError):
            return None
        _PLOTLY.append((script, gzip.compress(script, 5)))
    return _PLOTLY[0]


def _answering(handler: Handler) -> Handler:
    """The handler, with errors told as JSON: what, where, what to do."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except NotFound as error:
            return JSONResponse({"error": str(error)}, status_code=404)
        except (Refused, Outdated) as error:
            return JSONResponse({"error": str(error)}, status_code=409)
        except SkilloptError as error:
            return JSONResponse({"error": str(error)}, status_code=422)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception:  # noqa: BLE001 - one answer fails, not the server
            traceback.print_exc(file=sys.stderr)
            told = (
                "This is a bug in the dashboard; its terminal shows where. Finished work is safe."
            )
            return JSONResponse({"error": told}, status_code=500)

    return answer


async def _unknown(_: Request) -> Response:
    return JSONResponse({"error": "There is nothing at this address."}, status_code=404)


async def _body(request: Request, most: int) -> bytes:
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > most:
            raise Refused(f"this is larger than the {most >> 20} MB that are taken")
    return bytes(content)


async def _json(request: Request) -> Mapping[str, object]:
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise Invalid("send JSON")
    try:
        body: object = json.loads(await _body(request, _BODY))
    except ValueError:
        raise Invalid("this is not JSON") from None
    except RecursionError:
        raise Invalid("this is nested too deeply") from None
    if not isinstance(body, dict):
        raise Invalid("send a JSON object")
    return cast("Mapping[str, object]", body)


def _settings(body: Mapping[str, object]) -> dict[str, str]:
    given = body.get("settings", {})
    if not isinstance(given, dict):
        raise Invalid("settings should be an object of texts")
    settings = cast("Mapping[str, object]", given)
    return {key: _text(settings, key) for key in settings}


def _text(body: Mapping[str, object], key: str) -> str:
    value = body.get(key, "")
    if not isinstance(value, str):
        raise Invalid(f"{key} should be a text, not {json.dumps(value)[:80]}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{key} has characters that are not Unicode") from None
    return value


def _whole(body: Mapping[str, object], key: str) -> int | None:
    """A number of the page, which sends what was typed; none if nothing was."""
    given = body.get(key, "")
    if type(given) not in {int, str}:
        raise Invalid(f"{key} should be a whole number, not {json.dumps(given)[:80]}")
    text = str(given) if type(given) is int else _text(body, key)
    if text and not (text.isascii() and text.isdigit() and len(text) < _DIGITS):
        raise Invalid(
            f"{key} should be a whole number of at most {_DIGITS - 1} digits: {text[:80]!r}"
        )
    return int(text) if text else None


def _asked(request: Request, key: str, default: str) -> str:
    return request.query_params.get(key) or default


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < _DIGITS else 0


def _download(content: bytes, name: str, kind: str) -> Response:
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type=kind, headers=headers)
