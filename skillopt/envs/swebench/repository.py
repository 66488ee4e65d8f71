"""The repository of a task as an agent gets it: one commit without history, in a sandbox."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from skillopt.aio import in_thread
from skillopt.core.episode import Workspace
from skillopt.core.intake import MIB
from skillopt.core.ports import KeepsFolder, Sandbox, SandboxFolder
from skillopt.core.sandbox import SandboxLimits, SandboxResult
from skillopt.core.temporary import swept
from skillopt.envs.processes import python_folders, running
from skillopt.errors import ConfigError, EnvironmentFault

PLACE: Final = "/workspace/repo"
"""Where the repository is in the sandbox."""
STATE: Final = "changes.patch"
_PATCH_BYTES: Final = 32 * MIB
_OUTPUT_BYTES: Final = 32 * MIB
_MEMORY: Final = 8 * 2**30
_COPYING: Final = 600.0
"""Seconds in which any repository is copied or compared."""
_CLEAN: Final = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
}
"""Variables of a git that knows no settings but those of the repository."""
_NOBODY: Final = {
    "GIT_AUTHOR_NAME": "nobody",
    "GIT_AUTHOR_EMAIL": "nobody@localhost",
    "GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "nobody",
    "GIT_COMMITTER_EMAIL": "nobody@localhost",
    "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z",
}
_SUBMODULE: Final = "160000 "
"""How git lists what is a commit of another repository."""
_LONG_AGO: Final = 946684800
"""Seconds of the epoch: 2000-01-01."""
_SETUP: Final = """\
base=$1 python=$2 installed=/tmp/installed
shift 2
exec 2>&1
export PATH="$python/bin:$installed/bin:$PATH" GIT_CONFIG_COUNT=1
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_PAGER=cat PAGER=cat
export PIP_DISABLE_PIP_VERSION_CHECK=1 SETUPTOOLS_SCM_PRETEND_VERSION=9.9.9
version=$("$python/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
export PYTHONPATH="$installed/lib/python$version/site-packages:/workspace/repo:/workspace/repo/src"
export PYTHONDONTWRITEBYTECODE=1
"""
"""Whoever has installed nothing uses the repository as it is."""
_COPY: Final = """\
cp -a "$base/." /workspace/repo && cd /workspace/repo || exit 125
"""
_APPLY: Final = """\
if [ -s ../changes.patch ]; then
    git apply --whitespace=nowarn ../changes.patch ||
        patch --batch --forward --fuzz=5 -p1 -i ../changes.patch || exit 125
fi
"""
_COMMAND: Final = """\
cd /workspace/repo 2>/dev/null || cd /workspace
"$@"
"""
_DIFF: Final = """\
mkdir -p /workspace/repo
chmod -R u+rwX /workspace
cd /workspace/repo && rm -rf ../changes.patch && own=$(mktemp -d) || exit 125
cp "$base/.git/index" "$own/index" && mkdir "$own/objects" || exit 125
export GIT_INDEX_FILE="$own/index" GIT_OBJECT_DIRECTORY="$own/objects" GIT_CONFIG_GLOBAL=/dev/null
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$base/.git/objects"
ours() {
    git --git-dir="$base/.git" --work-tree=/workspace/repo -c core.checkStat=minimal \\
        -c core.trustctime=false -c core.fileMode=false -c core.hooksPath=/dev/null "$@"
}
ours add -A . && ours diff --cached --binary HEAD > ../changes.patch
"""
"""Writes down what is different now, whatever was done to `.git`."""
_GIVEN: Final = """\
find . -name .git -prune -o -type f -exec rm -f {} + && cp -r ../given/. . || exit 125
"""
"""Puts the given files in the place of all others; links are in no workspace, and stay."""


def find_repository(folder: Path, repo: str) -> Path | None:
    """The clone of `owner/name` in a folder, under one of the usual names."""
    name = repo.rpartition("/")[2]
    for each in (repo, repo.replace("/", "__"), name):
        for place in (folder / each, folder / f"{each}.git"):
            if (place / ".git").exists() or (place / "objects").is_dir():
                return place.absolute()
    return None


def find_python(folder: Path | None, instance: str, repo: str, version: str) -> Path | None:
    """The virtual environment of a task: its own, or that of the version of its project."""
    if folder is None:
        return Path(sys.prefix)
    names = (instance, f"{repo.replace('/', '__')}-{version}", repo.replace("/", "__"))
    places = (folder.absolute() / name for name in names)
    return next((place for place in places if (place / "bin/python").exists()), None)


async def git(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What a git command prints; an `EnvironmentFault` if it fails."""
    starting = asyncio.create_subprocess_exec(
        *("git", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", *arguments),
        cwd=folder,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env={**_CLEAN, **(environment or {})},
    )
    async with running(starting) as process:
        printed, errors = await process.communicate()
    if process.returncode:
        told = errors.decode(errors="replace").strip()
        raise EnvironmentFault(f"git {arguments[0]} failed in {folder}: {told}")
    return printed.decode(errors="replace")


async def commit_of(repository: Path, name: str) -> str:
    """The hash of a commit; an `EnvironmentFault` if the repository does not have it."""
    try:
        # What begins with a dash would be an option, and no commit is called so.
        asked = name if not name.startswith("-") else ""
        found = await git("rev-parse", "--verify", f"{asked}^{{commit}}", folder=repository)
    except (EnvironmentFault, OSError):
        raise EnvironmentFault(f"{repository} has no commit {name!r}") from None
    return found.strip()


@asynccontextmanager
async def checked_out(repository: Path, commit: str) -> AsyncGenerator[Path, None]:
    """A folder with the files of a commit as the only commit: what came later is not in it."""
    commit = await commit_of(repository, commit)
    with swept("swebench") as prefix:
        folder = _temporary_folder(prefix)
        try:
            base = folder / "base"
            await _export(repository, commit, base, folder / "index")
            await in_thread(_age, base)
            await git("init", "-q", "-b", "main", folder=base)
            await git("add", "-A", "-f", ".", folder=base)
            await git(
                "commit", "-q", "--allow-empty", "-m", "base", folder=base, environment=_NOBODY
            )
            yield base
        finally:
            shutil.rmtree(folder, ignore_errors=True)


async def _export(repository: Path, commit: str, place: Path, index: Path) -> None:
    """Write the files of a commit, and of its submodules as far as they are here."""
    own, there = {"GIT_INDEX_FILE": str(index)}, ("--work-tree", str(place))
    await git(*there, "read-tree", commit, folder=repository, environment=own)
    await git(*there, "checkout-index", "-a", "-f", folder=repository, environment=own)
    listed = await git(*there, "ls-files", "-s", "-z", folder=repository, environment=own)
    for number, line in enumerate(listed.split("\0")):
        kind, _, name = line.partition("\t")
        if kind.startswith(_SUBMODULE):
            source, part = repository / name, kind.split()[1]
            with suppress(EnvironmentFault):  # it was never fetched: the folder stays empty
                await commit_of(source, part)
                await _export(source, part, place / name, index.with_name(f"{index.name}-{number}"))


def _age(folder: Path) -> None:
    """Make all files old, so that a change is seen by its time even if it keeps the size."""
    for place, _, names in os.walk(folder):
        for name in names:
            os.utime(Path(place) / name, (_LONG_AGO, _LONG_AGO), follow_symlinks=False)


def _temporary_folder(prefix: str) -> Path:
    folder = Path(mkdtemp(prefix=prefix))
    folder.chmod(0o755)  # the user of a sandbox reads it
    (folder / "base").mkdir()
    return folder


@dataclass(frozen=True, slots=True)
class Checkout:
    """A checked out repository, which is never changed: all work is done on copies."""

    sandbox: Sandbox
    base: Path
    python: Path
    """The virtual environment whose programs come first."""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[WorkingCopy, None]:
        """A copy for one command after another."""
        if not isinstance(self.sandbox, KeepsFolder):
            raise ConfigError(
                "env.sandbox: the tools of swebench work in a folder that stays, and this sandbox "
                "has none (skillopt.core.ports.KeepsFolder)"
            )
        async with self.sandbox.open() as folder:
            yield WorkingCopy(self, folder)

    async def tested(self, patch: bytes, script: str, seconds: float) -> SandboxResult:
        """Run a script in a copy with a patch."""
        files = Workspace(files={STATE: patch, "eval.sh": script.encode()})
        command = self.command(_COPY + _APPLY + '"$@"\n', "bash", "../eval.sh")
        return await self.sandbox.run(command, files, _limits(seconds), programs=self.programs)

    async def patch_of(self, files: Mapping[str, bytes], seconds: float) -> bytes:
        """The patch that makes these the files of the repository."""
        workspace = Workspace(
            files={f"given/{name}": content for name, content in files.items()},
            collect=(STATE,),
            max_file_bytes=_PATCH_BYTES,
            max_bytes=_PATCH_BYTES,
        )
        result = await self.sandbox.run(
            self.command(_COPY + _GIVEN + _DIFF),
            workspace,
            _limits(seconds),
            programs=self.programs,
        )
        if result.ended_by or result.status or STATE not in result.files:
            told = result.left_out.get(STATE, "") or result.stdout[-300:]
            raise EnvironmentFault(f"the files cannot be compared: {told}")
        return result.files[STATE]

    def command(self, script: str, *arguments: str) -> list[str]:
        """A script that finds the repository as `$base`, and its Python."""
        given = (str(self.base), str(self.python), *arguments)
        return ["/bin/sh", "-c", _SETUP + script, "sh", *given]

    @property
    def programs(self) -> list[Path]:
        """What a sandbox has to show."""
        return [self.base, *python_folders(self.python)]

    def files(self) -> dict[str, bytes]:
        """The files of the repository, for an agent that works on a copy."""
        found: dict[str, bytes] = {}
        for place, folders, names in os.walk(self.base):
            if ".git" in folders:
                folders.remove(".git")
            for path in (Path(place) / name for name in sorted(names)):
                if path.is_file() and not path.is_symlink():
                    found[path.relative_to(self.base).as_posix()] = path.read_bytes()
        return found


@dataclass(slots=True)
class WorkingCopy:
    """A copy of a repository in a sandbox, in which commands of an agent run."""

    checkout: Checkout
    folder: SandboxFolder
    made: bool = False
    """Made when the first command asks for it."""

    async def run(self, command: Sequence[str], seconds: float) -> SandboxResult:
        """Run a command in the repository; what it has changed stays, also if it does not end."""
        if not self.made:
            copied = await self._run(_COPY, seconds=_COPYING)
            if copied.ended_by or copied.status:
                raise EnvironmentFault(f"the repository cannot be copied: {copied.stdout[-300:]}")
            self.made = True
        return await self._run(_COMMAND, *command, seconds=seconds)

    async def patch(self) -> bytes:
        """The difference to the repository."""
        if not self.made:
            return b""
        result = await self._run(_DIFF, seconds=_COPYING)
        if result.ended_by or result.status:
            raise EnvironmentFault(f"the changes cannot be read: {result.stdout[-300:]}")
        try:
            return self.folder.read(STATE, _PATCH_BYTES)
        except (OSError, ValueError) as error:
            raise EnvironmentFault(f"the changes cannot be read: {error}") from error

    async def _run(self, script: str, *arguments: str, seconds: float) -> SandboxResult:
        command = self.checkout.command(script, *arguments)
        return await self.folder.run(command, _limits(seconds), programs=self.checkout.programs)


def _limits(seconds: float) -> SandboxLimits:
    return SandboxLimits(seconds=seconds, memory=_MEMORY, processes=256, output_bytes=_OUTPUT_BYTES)


_EDIT: Final = """\
import json, pathlib, sys
call = json.loads(sys.argv[1])
file = pathlib.Path(call["path"])
if file.is_absolute() or ".." in file.parts or ".git" in file.parts:
    sys.exit("the path should lead to a file in the repository")
if call["old"]:
    text = file.read_text()
    found = text.count(call["old"])
    if found != 1:
        sys.exit("the text to replace is in the file %d times; it should be there once" % found)
    file.write_text(text.replace(call["old"], call["new"]))
elif file.exists():
    sys.exit("the file is there already; give the text to replace")
else:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(call["new"])
print("done")
"""


def edit_command(python: Path, path: str, old: str, new: str) -> list[str]:
    """The command that edits a file."""
    call = json.dumps({"path": path, "old": old, "new": new})
    return [str(python / "bin/python"), "-c", _EDIT, call]
