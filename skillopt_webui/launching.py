"""Runs that are started, stopped and taken up again from the page, each as a process."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import signal
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Final, cast

from skillopt.api import config_keys, effective_config, local_models, open_run
from skillopt.app.reviewing import check_base
from skillopt.config import yaml12
from skillopt.config.given import read
from skillopt.config.load import STARTED_IN, load_config
from skillopt.config.redaction import HIDDEN
from skillopt.config.sections import SECTIONS
from skillopt.core.starting import module_command
from skillopt.datasets.rows import read_rows
from skillopt.errors import ConfigError, SkilloptError
from skillopt.store.layout import Layout
from skillopt.store.lock import at_work, lock_holder
from skillopt_webui.logs import last_words, log_of, run_id
from skillopt_webui.payloads import plain
from skillopt_webui.runs import Json, NotFound, planned, stamp_of

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CONFIG: Final = re.compile(r"^(?:_base_|model|env|train):", re.MULTILINE)
_DATA: Final = (".csv", ".jsonl", ".json", ".xlsx")
_MOST_CONFIGS: Final = 300
_SKIPPED: Final = frozenset(("node_modules", "__pycache__", "site-packages", "steps", "skills"))
_QUICKSTART: Final = "# The configuration of your first run."
_SKILL: Final = "env.skill_init"
_GRACE: Final = 20.0
"""Seconds for a process to end that is done with its run."""
_LOOK: Final = 0.1
"""Seconds between two looks at whether it has."""
_BUSY: Final = "a process is at work on this run; wait until it is done, or stop it first"
_SECONDS: Final = 180.0
"""After which a question about a configuration is given up."""
_COMMENT: Final = 20_000
"""Characters of a comment at most: it is an argument of a process."""
_NAMED: Final = 80
"""Characters of a person's name at most."""


class Refused(SkilloptError):
    """What was asked for cannot be done; says why, and what to do."""


class Invalid(SkilloptError):
    """What was sent cannot be meant; says what should be sent."""


@dataclass(slots=True)
class Job:
    """A process that trains."""

    folder: Path
    words: list[str]
    process: asyncio.subprocess.Process
    log: Path
    started: str
    draft: Path | None = None
    """The text that it was given; kept for as long as it was not taken over."""
    stopping: bool = False

    def shown(self) -> Json:
        return {
            "command": _shown(self.words),
            "pid": self.process.pid,
            "started": self.started,
            "running": self.running,
            "stopping": self.stopping and self.running,
            "code": self.process.returncode,
            "said": self.said if self.failed else "",
        }

    @property
    def running(self) -> bool:
        return self.process.returncode is None

    @property
    def failed(self) -> bool:
        """Whether it ended, and neither in order nor because it was asked to."""
        return self.process.returncode not in {None, 0, 130, -signal.SIGINT}

    @property
    def said(self) -> str:
        """Why it ended, if it has failed."""
        kept = "" if self.draft is None else f" Your text is kept in {self.draft}."
        code = self.process.returncode or 0
        why = f"it was killed (signal {-code})" if code < 0 else last_words(self.log)
        return f"{why}{'.' if code < 0 and kept else ''}{kept}"


class Launcher:
    """Starts and stops training processes; the runs of a page all lie below one root."""

    def __init__(self, root: Path, place: Path) -> None:
        self.root = root
        self._place = place
        """Where the server was started: relative paths of a configuration begin there."""
        self._jobs: dict[str, Job] = {}
        self._begun: set[str] = set()
        """Runs for which a process is being started."""
        self._more: dict[str, tuple[object, dict[str, int]]] = {}
        """By run: what it was to go on with, until the settings that it keeps are others."""
        self._configs: dict[str, Path] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._uploads: dict[Path, list[Path]] = {}
        """Folders that were made here for rows, with the rows; no run is in them yet."""

    def job(self, name: str) -> Job | None:
        """The last process that was started for a run from here."""
        return self._jobs.get(name)

    def awaits(self, folder: Path) -> bool:
        """Whether a process that was started here has yet to begin this run, or failed to."""
        job = self._jobs.get(run_id(self.root, folder))
        return job is not None and (job.running or job.failed) and folder.parent.is_dir()

    @property
    def ended(self) -> int:
        """How many of these processes are over."""
        return sum(not job.running for job in self._jobs.values())

    def log(self, folder: Path) -> Path | None:
        """What the processes of a run have written that were started from here."""
        path = log_of(self.root, folder)
        return path if path.exists() else None

    def configs(self) -> list[Json]:
        """Configuration files near the server and below the root."""
        found: dict[str, Path] = {}
        for path in [*_configs(self._place), *_configs(self.root)]:
            found.setdefault(run_id(self._place, path.resolve()), path)
        self._configs = dict(list(found.items())[:_MOST_CONFIGS])
        return [
            {"id": name, "path": _told(path, self._place), "about": _first_words(path)}
            for name, path in self._configs.items()
        ]

    def config(self, name: str) -> Path | None:
        """A file that `configs` has listed; none for an empty name."""
        if not name:
            return None
        if name not in self._configs:
            self.configs()
        if name not in self._configs:
            raise NotFound("this configuration is no longer there; reload the page")
        return self._configs[name]

    def keys(self, environment: str) -> list[Json]:
        """Every setting with what the page needs to offer it."""
        try:
            entries = config_keys(environment)
        except ConfigError:
            entries = config_keys()
        return [
            cast("Json", plain(entry)) | {"section": entry.section, "name": entry.name}
            for entry in entries
        ]

    def resolve(self, name: str, settings: Mapping[str, str]) -> Json:
        """The whole configuration as it would be used, without secrets; or what is wrong."""
        path = self.config(name)
        try:
            config = effective_config(load_config(path, overrides=_overrides(settings)))
        except ConfigError as error:
            return {"problems": _problems(str(error), settings)}
        return {
            "yaml": config.dump(),
            "values": config.shown(),
            "given": sorted(config.given),
            "warnings": list(config.warnings),
            "problems": {},
        }

    async def ask(
        self, what: str, name: str, settings: Mapping[str, str], *, skill: str = ""
    ) -> Json:
        """`estimate`, `check` or `doctor`, in a process of its own."""
        config = self.config(name)
        with TemporaryDirectory(prefix="skillopt-") as place:
            values = dict(settings)
            if skill.strip():
                path = _written(Path(place), "skill", ".md", skill.encode())
                values[_SKILL] = json.dumps(str(path))
            return await self._asked(what, config, values)

    async def _asked(self, what: str, config: Path | None, settings: Mapping[str, str]) -> Json:
        question = {
            "what": what,
            "config": None if config is None else str(config),
            "overrides": _overrides(settings),
        }
        process = await asyncio.create_subprocess_exec(
            *module_command("skillopt_webui.asking"),
            cwd=self._place,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        work = asyncio.ensure_future(process.communicate(json.dumps(question).encode()))
        done, _ = await asyncio.wait((work,), timeout=_SECONDS)
        if not done:
            process.kill()
            await work
            raise Refused(f"{what} took longer than {_SECONDS:.0f} s and was given up")
        output, errors = work.result()
        try:
            return cast("Json", json.loads(output))
        except ValueError:
            last = errors.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no reason"]
            raise Refused(f"{what} did not work: {last[0]}") from None

    def take_data(self, name: str, filename: str, content: bytes, earlier: str = "") -> Json:
        """Keep uploaded rows in a new folder below the root, and say what is in them.

        `earlier` is the path of rows that the same page has sent before: their folder is taken.
        """
        suffix = Path(filename).suffix.lower()
        if suffix not in _DATA:
            raise Refused(f"{filename!r} is no data file; use {', '.join(_DATA)}")
        folder = self._folder(name)
        with TemporaryDirectory(prefix="skillopt-") as place:
            tried = Path(place) / f"data{suffix}"
            tried.write_bytes(content)
            try:
                rows = read_rows(tried)
            except SkilloptError as error:
                raise SkilloptError(str(error).replace(str(tried), filename)) from None
        if not rows:
            raise Invalid(f"{filename} has no rows; below the names of the columns, write some")
        self._claim(folder, earlier)
        path = _written(folder, "data", suffix, content)
        self._uploads.setdefault(folder, []).append(path)
        columns = list(dict.fromkeys(key for row in rows for key in row.data))
        return {
            "path": str(path),
            "rows": len(rows),
            "columns": columns,
            "sample": plain([row.data for row in rows[:3]]),
        }

    def means(self) -> Json:
        """What a first run could use on this machine."""
        return {
            "embedded": find_spec("xllamacpp") is not None,
            "models": [
                {
                    "name": model.weights.name,
                    "here": model.is_here,
                    "size": model.weights.size,
                }
                for model in local_models()
            ],
        }

    async def launch(
        self, name: str, config: str, settings: Mapping[str, str], *, skill: str = ""
    ) -> Json:
        """Write a configuration with these settings on top of another one, and train with it."""
        base = self.config(config)
        folder = self._folder(name)
        values = {**settings, "env.out_root": json.dumps(str(folder / "run"))}
        if skill.strip():
            values[_SKILL] = json.dumps(str(folder / "skill.md"))
        # What is wrong is told before anything is written.
        checked = load_config(base, overrides=_overrides(values)).values()
        document = _document(base, values)
        self._claim(folder, str(checked.get("env.data_path", "")))
        self._uploads.pop(folder, None)
        if skill.strip():
            _written(folder, "skill", ".md", skill.encode())
        path = _written(folder, "config", ".yaml", document.encode())
        async with self._alone(folder / "run"):
            return await self._start(folder / "run", ["train", str(path)])

    async def simulate(self, name: str, seed: int) -> Json:
        """Train with simulated models on made-up data: what to look at, in seconds."""
        folder = self._folder(name)
        self._claim(folder)
        words = ["quickstart", "--sim", "--yes", "--out", str(folder), "--seed", str(seed)]
        async with self._alone(folder / "run"):
            return await self._start(folder / "run", words)

    def config_id(self, folder: Path) -> str:
        """What `configs` calls the configuration with which a run was started; empty: none."""
        made = folder.parent / "config.yaml"
        return run_id(self._place, made.resolve()) if planned(folder) else ""

    async def resume(self, folder: Path, more: Mapping[str, int] | None = None) -> Json:
        """Take a run up where it stopped; `more` are settings of `train` to go on with."""
        async with self._alone(folder):
            return await self._resumed(folder, more or {})

    async def _resumed(self, folder: Path, more: Mapping[str, int]) -> Json:
        made = folder.parent / "config.yaml"
        if folder.name == "run" and _is_simulated(made):
            load_config(made, overrides=_train(more))
            made.write_text(_with_train(made.read_text("utf-8"), more), encoding="utf-8")
            words = ["quickstart", "--sim", "--yes", "--out", str(folder.parent)]
            return await self._start(folder, words)
        source = self.source(folder)
        if source is None:
            kept = Layout(folder).settings
            raise Refused(f"{kept} is missing; `skillopt show {folder} --rebuild` writes it again")
        more = self._remembered(folder, more)
        if source != made and HIDDEN in source.read_text("utf-8") and planned(folder):
            # What is hidden in the record still stands in what the run was started with.
            before, source = load_config(source).train, made
            more = {"num_epochs": before.num_epochs, "patience": before.patience, **more}
        words = ["train", str(source), f"env.out_root={json.dumps(str(folder))}", *_train(more)]
        if more:
            load_config(source, overrides=words[2:])
        return await self._start(folder, words)

    def source(self, folder: Path) -> Path | None:
        """The configuration that a run is taken up with: its own, or the one it was started with.

        None: there is neither.
        """
        kept = Layout(folder).settings
        made = folder.parent / kept.name
        return kept if kept.exists() else made if planned(folder) else None

    def _remembered(self, folder: Path, more: Mapping[str, int]) -> Mapping[str, int]:
        """With what was asked for the last time, if the process ended before the run kept it."""
        name, stamp = run_id(self.root, folder), stamp_of(Layout(folder).config)
        before, asked = self._more.get(name, (stamp, {}))
        asked = {**(asked if before == stamp else {}), **more}
        self._more[name] = stamp, asked
        return asked

    async def review(
        self,
        folder: Path,
        verdict: str,
        about: str,
        *,
        text: str | None = None,
        comment: str = "",
        if_better: bool = False,
        as_best: bool = False,
        base: str = "",
        by: str = "",
    ) -> Json:
        """Carry out a person's decision: `skillopt review` measures and records it.

        `base` is the digest of the skill that an edited text was begun from, `by` the name of the
        person.
        """
        if verdict not in {"accept", "reject", "edit"}:
            raise Invalid(f"{verdict!r} is no decision; accept, reject or edit")
        if (verdict == "edit") != (text is not None):
            raise Invalid("an edit needs the new text of the skill, and nothing else takes one")
        if text is not None and not base:
            raise Invalid("an edit needs the digest of the skill that its text was begun from")
        for what, given in (("comment", comment), ("about", about), ("base", base)):
            _check_argument(what, given)
        _check_argument("by", by, _NAMED)
        words = ["review", str(folder), f"--{verdict}={about or 'current'}", f"--comment={comment}"]
        words += [f"--by={by.strip() or 'dashboard'}", *(["--best"] if as_best else [])]
        words += [f"--base={base}"] if base else []
        words += ["--if-better"] if if_better and text is not None else []
        async with self._alone(folder):
            if base:
                await asyncio.to_thread(_check_base, folder, base)
            return await self._with_models(folder, words, text)

    async def test(self, folder: Path) -> Json:
        """Repeat the final test of a run with the skills as they are now."""
        async with self._alone(folder):
            return await self._with_models(folder, ["review", str(folder), "--test"])

    async def _with_models(
        self, folder: Path, words: Sequence[str], text: str | None = None
    ) -> Json:
        """Start a command about a run, with simulated models if it had such."""
        draft = None if text is None else self._draft(folder, text)
        simulator = None
        try:
            if _is_simulated(folder.parent / "config.yaml"):
                simulator, url = await self._simulator(folder)
                words = [*words, f"model.base_url={url}"]
            told = await self._start(folder, words, draft)
        except BaseException:  # nothing was begun: nothing of it stays
            if draft is not None:
                draft.unlink(missing_ok=True)
            await _end(simulator)
            raise
        job = self._jobs[str(told["id"])]
        self._ending.add(task := asyncio.create_task(_tidied(job, simulator)))
        task.add_done_callback(self._ending.discard)
        return told

    @asynccontextmanager
    async def _alone(self, folder: Path) -> AsyncGenerator[None, None]:
        """Nothing is at work on this run, and nothing else is begun for it meanwhile."""
        name = run_id(self.root, folder)
        if name in self._begun:
            raise Refused(_BUSY)
        self._begun.add(name)
        try:
            job = self._jobs.get(name)
            if at_work(folder) or (job is not None and not await _has_ended(job)):
                raise Refused(_BUSY)
            yield
        finally:
            self._begun.discard(name)

    def _draft(self, folder: Path, text: str) -> Path:
        """A text that was edited by hand, in a file of its own for the process that measures it."""
        log = log_of(self.root, folder)
        log.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(
            prefix=f"{log.stem}-", suffix=".md", dir=log.parent, delete=False
        ) as file:
            file.write(text.encode())
        return Path(file.name)

    async def _simulator(self, folder: Path) -> tuple[asyncio.subprocess.Process, str]:
        """The simulated models of a quickstart, as they were; they end with our standard input."""
        seed = load_config(folder.parent / "config.yaml").train.seed
        process = await asyncio.create_subprocess_exec(
            *module_command("skillopt.testing.simulator"),
            "--watch-stdin",
            *("--seed", str(seed), "--latency-ms", "15-45"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        line = await process.stdout.readline() if process.stdout else b""
        url = line.decode().strip().rpartition(" ")[2]
        if not url.startswith("http"):
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise Refused("the simulator did not start; try again")
        return process, url

    def stop(self, name: str, folder: Path) -> None:
        """Ask the process that trains a run to end in order: finished work is saved."""
        job = self._jobs.get(name)
        if job is not None and job.running:
            job.stopping = True
            job.process.send_signal(signal.SIGINT)
            return
        holder = re.match(r"pid (\d+) on (\S+) since", lock_holder(folder) or "")
        if holder is None:
            raise Refused("no process is at work on this run")
        if holder[2] != platform.node():
            raise Refused(f"this run is being trained on {holder[2]}; stop it there (Ctrl-C)")
        with suppress(ProcessLookupError):
            os.kill(int(holder[1]), signal.SIGINT)

    async def _start(self, folder: Path, words: Sequence[str], draft: Path | None = None) -> Json:
        """Begin a process; its run is to be had alone."""
        name = run_id(self.root, folder)
        log = log_of(self.root, folder)
        log.parent.mkdir(parents=True, exist_ok=True)
        given = [] if draft is None else ["--file", str(draft)]
        command = [*module_command("skillopt"), *words, *given]
        with log.open("ab") as file:
            file.write(os.fsencode(f"$ {_shown(command)}\n"))
            file.flush()
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self._folder_of(folder),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                # Ctrl-C at the server is not meant for runs: they go on without it.
                start_new_session=True,
            )
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._jobs[name] = job = Job(folder, command, process, log, now, draft)
        return {"id": name, "job": job.shown()}

    def _folder_of(self, folder: Path) -> Path:
        """Where a run was started, as its relative paths begin there; else where the server was."""
        with suppress(OSError, ValueError):
            kept = cast("Json", json.loads(Layout(folder).config.read_bytes()))
            if (started := Path(str(kept.get(STARTED_IN, "")))).is_absolute() and started.is_dir():
                return started
        return self._place

    def _folder(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise Refused(
                f"{name!r} cannot be the name of a run: use letters, digits, '.', '_' and '-'"
            )
        return self.root / name

    def _claim(self, folder: Path, data: str = "") -> None:
        """Make a folder that did not exist, or take the one that holds rows sent before."""
        sent = self._uploads.get(folder, [])
        if data in map(str, sent) and not folder.is_symlink() and folder.is_dir():
            if set(folder.iterdir()) <= set(sent):
                return
        else:
            with suppress(FileExistsError):
                folder.mkdir(parents=True)
                return
        raise Refused(f"{folder} exists already; choose another name")


def _written(folder: Path, stem: str, suffix: str, content: bytes) -> Path:
    """A new file with this content; what exists is neither overwritten nor followed."""
    names = (f"{stem}{suffix}", *(f"{stem}-{number}{suffix}" for number in range(2, 1_000)))
    for name in names if stem == "data" else names[:1]:
        with suppress(FileExistsError), (folder / name).open("xb") as file:
            file.write(content)
            return folder / name
    raise Refused(f"{folder / names[0]} exists already; choose another name")


async def _tidied(job: Job, server: asyncio.subprocess.Process | None) -> None:
    """When a process is over: remove the text that was taken over, and end the server it used."""
    if await job.process.wait() == 0 and job.draft is not None:
        job.draft.unlink(missing_ok=True)
    await _end(server)


async def _end(server: asyncio.subprocess.Process | None) -> None:
    """End simulated models, if there are any: they do with their standard input."""
    if server is not None:
        if server.stdin is not None:
            server.stdin.close()
        await server.wait()


async def _has_ended(job: Job) -> bool:
    """Whether a process is over, or is within a moment because it has let go of its run."""
    end = asyncio.ensure_future(job.process.wait())
    loop = asyncio.get_running_loop()
    late = loop.time() + _GRACE
    while not end.done() and not at_work(job.folder) and loop.time() < late:
        await asyncio.wait((end,), timeout=_LOOK)
    return not job.running


def _check_argument(what: str, given: str, most: int = _COMMENT) -> None:
    """Refuse what cannot be handed to a process."""
    if "\0" in given:
        raise Invalid(f"{what} has a character that no text has (NUL); leave it out")
    if len(given) > most:
        raise Invalid(f"{what} has {len(given):,} characters; {most:,} are taken, shorten it")


def _check_base(folder: Path, base: str) -> None:
    """Refuse a decision that was begun from another skill than the current one."""
    with open_run(folder) as reader:
        check_base(reader.state, base)


def _configs(folder: Path) -> Iterator[Path]:
    """YAML files up to three levels below a folder that look like configurations."""
    todo = [(folder, 0)]
    seen = 0
    while todo and seen < 5_000:
        place, depth = todo.pop(0)
        try:
            entries = sorted(os.scandir(place), key=lambda entry: entry.name)
        except OSError:
            continue
        if any(entry.name == "events.jsonl" for entry in entries):
            continue  # what a run has written about itself
        for entry in entries:
            seen += 1
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                hidden = entry.name.startswith(".") or entry.name in _SKIPPED
                if depth < 3 and not hidden:
                    todo.append((path, depth + 1))
            elif path.suffix in {".yaml", ".yml"} and _CONFIG.search(_beginning(path)):
                yield path


def _beginning(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(20_000).decode("utf-8", "replace")
    except OSError:
        return ""


def _first_words(path: Path) -> str:
    """The comment at the top of a file, which says what it is."""
    line = next(iter(_beginning(path).splitlines()), "")
    return line.lstrip("# ").strip()[:160] if line.startswith("#") else ""


def _told(path: Path, place: Path) -> str:
    with suppress(ValueError):
        return path.relative_to(place).as_posix()
    return str(path)


def _overrides(settings: Mapping[str, str]) -> list[str]:
    return [f"{key}={value}" for key, value in settings.items()]


def _problems(text: str, settings: Mapping[str, str]) -> dict[str, str]:
    """What is wrong, by key; the rest under an empty one."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, colon, what = line.partition(": ")
        known = colon and (key in settings or key.partition(".")[0] in SECTIONS)
        where, said = (key, what) if known else ("", line)
        said = re.sub(r" \[command line \(.*\)\]$", "", said)
        found[where] = f"{found[where]}\n{said}" if where in found else said
    return found


def _document(base: Path | None, settings: Mapping[str, str]) -> str:
    """A configuration file: what it is based on, and the settings that differ."""
    document: dict[str, object] = {} if base is None else {"_base_": str(base.resolve())}
    for key, text in settings.items():
        section, dot, name = key.partition(".")
        if not dot:
            raise Refused(f"{key!r} has no section; write it as in train.num_epochs")
        inside = cast("dict[str, object]", document.setdefault(section, {}))
        inside[name] = read(yaml12.read_value(text))
    return yaml12.write(document)


def _is_simulated(config: Path) -> bool:
    text = _beginning(config)
    return text.startswith(_QUICKSTART) and "simulated-target" in text


def _train(more: Mapping[str, int]) -> list[str]:
    return [f"train.{key}={number}" for key, number in more.items()]


def _with_train(text: str, more: Mapping[str, int]) -> str:
    """The same configuration with other settings of `train`; comments stay."""
    for key, value in more.items():
        text = re.sub(rf"^  {key}:.*\n", "", text, flags=re.MULTILINE)
        text = re.sub(r"^train:\n", f"train:\n  {key}: {value}\n", text, flags=re.MULTILINE)
    return text


def _shown(words: Sequence[str]) -> str:
    """A command as a person would type it."""
    rest = [word if re.fullmatch(r"[\w./:=@%+,-]+", word) else repr(word) for word in words[3:]]
    return " ".join(["skillopt", *rest])
