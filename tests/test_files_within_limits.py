"""Files from outside: what is too large, nested too deeply or no file at all is a clear error."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from skillopt.config.load import load_config
from skillopt.core.intake import (
    CONFIG_BYTES,
    MANIFEST_BYTES,
    NESTING,
    PROMPT_BYTES,
    ROW_BYTES,
    SKILL_BYTES,
)
from skillopt.datasets.manifests import MANIFEST, check_manifest_place, holds_ids_only
from skillopt.datasets.rows import read_rows
from skillopt.datasets.splits import Splits
from skillopt.errors import ConfigError, DataError, SkillError
from skillopt.prompts.library import Library
from skillopt.store.packages import read_skill

DEVICE = Path("/dev/zero")


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe.jsonl"
    os.mkfifo(path)
    return path


def test_a_skill_that_is_a_device_or_a_pipe_is_refused_at_once(pipe: Path) -> None:
    for path in (DEVICE, pipe):
        with pytest.raises(SkillError, match="a pipe or a device, not a regular file") as caught:
            read_skill(path)
        assert str(path) in str(caught.value)


def test_a_skill_is_read_up_to_its_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "skill.md"
    path.write_bytes(b"x" * SKILL_BYTES)
    assert len(read_skill(path).render()) == SKILL_BYTES
    path.write_bytes(b"x" * (SKILL_BYTES + 1))
    with pytest.raises(SkillError, match="larger than 1 MB"):
        read_skill(path)


def test_data_that_is_a_pipe_or_sparse_and_huge_is_refused_at_once(
    pipe: Path, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="a pipe or a device"):
        read_rows(pipe)
    table = tmp_path / "data.xlsx"
    with zipfile.ZipFile(table, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"")
    content = bytearray(table.read_bytes())
    at = content.index(b"PK\x01\x02") + 24  # its unpacked size, in the directory of the archive
    content[at : at + 4] = (2**32 - 2).to_bytes(4, "little")
    table.write_bytes(content)
    with pytest.raises(DataError, match="unpacked it has 4 GB; at most 1 GB"):
        read_rows(table)


def test_a_row_beyond_the_limit_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    small = json.dumps({"input": "q", "answer": "a"})
    path.write_text(f"{small}\n{json.dumps({'input': 'x' * ROW_BYTES})}\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"data\.jsonl:2: the row has 8 MB; at most 8 MB are read"):
        read_rows(path)


def test_a_row_that_is_nested_too_deeply_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    for depth in (NESTING + 1, 50_000):
        path.write_text('{"a": 1}\n{"a": %s}\n' % ("[" * depth + "]" * depth), encoding="utf-8")
        with pytest.raises(DataError, match=r"data\.jsonl:2: .*(nested|recursion)"):
            read_rows(path)


BOMB = "".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x]\n"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)]
)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)


@pytest.mark.parametrize("text", [BOMB, MERGES, "train:\n" + "  - x\n" * 20_000])
def test_a_configuration_that_aliases_blow_up_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"config\.yaml:\d+: more than 10,000 values"):
        load_config(path)


def test_a_value_on_the_command_line_that_aliases_blow_up_is_not_expanded() -> None:
    inner = "&a0 [x, x]"
    for n in range(1, 40):
        inner = f"&a{n} [{inner}, *a{n - 1}, *a{n - 1}]"
    with pytest.raises(ConfigError):
        load_config(overrides=[f"train.num_epochs={inner}"])


def test_a_configuration_that_is_huge_or_deep_or_no_file_is_refused(
    tmp_path: Path, pipe: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"#" * (CONFIG_BYTES + 1))
    with pytest.raises(ConfigError, match="larger than 1 MB"):
        load_config(path)
    path.write_text("train: " + "[" * 100_000, encoding="utf-8")
    with pytest.raises(ConfigError, match="nested too deeply"):
        load_config(path)
    for other in (pipe, DEVICE):
        with pytest.raises(ConfigError, match="a pipe or a device"):
            load_config(other)


def test_a_manifest_that_is_huge_or_no_file_is_refused_by_name(tmp_path: Path) -> None:
    huge, device, deep = (tmp_path / name for name in ("huge", "device", "deep"))
    for folder in (huge, device, deep):
        folder.mkdir()
    (huge / MANIFEST).write_bytes(b" " * (MANIFEST_BYTES + 1))
    (device / MANIFEST).symlink_to(DEVICE)
    (deep / MANIFEST).write_bytes(b"[" * 100_000)
    for folder, reason in ((huge, "larger than 8 MB"), (device, "a pipe or a device")):
        with pytest.raises(DataError, match=reason):
            holds_ids_only(folder)
    assert not holds_ids_only(deep)
    for folder in (huge, device, deep):
        with pytest.raises(DataError, match=rf"{MANIFEST} is there already"):
            check_manifest_place(folder, Splits((), (), ()))


def test_a_split_that_is_a_device_is_not_compared_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "items.json").symlink_to(DEVICE)
    with pytest.raises(DataError, match=r"items\.json is there already"):
        check_manifest_place(tmp_path, Splits((), (), ()))


def test_a_prompt_that_is_huge_or_no_file_is_refused_by_name(tmp_path: Path) -> None:
    library = Library((tmp_path,))
    prompt = tmp_path / "slow_update.md"
    prompt.write_bytes(b"x" * (PROMPT_BYTES + 1))
    for reason in ("larger than 1 MB", "a pipe or a device"):
        for read in (lambda: library.text("slow_update"), lambda: library.fingerprint):
            with pytest.raises(ConfigError, match=rf"slow_update\.md cannot be read: .*{reason}"):
                read()
        prompt.unlink()
        os.mkfifo(prompt)
