from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support_runs import Job, make_data

import skillopt
from skillopt.core.rollout import RolloutSpec
from skillopt.core.skill import MAIN, MOST, Reference, Skill, Text
from skillopt.core.task import Task
from skillopt.errors import SkillError, StoreError
from skillopt.store.layout import Layout
from skillopt.store.packages import LARGEST, read_skill, skill_files
from skillopt.store.reader import RunReader
from skillopt.testing.simulator import Simulator

GOLDEN = Path(__file__).parent / "golden"
BEST = "9facf74fbf207719"
TEXT = st.text(st.sampled_from("a é\r\n-#"), max_size=12)


def write(path: Path, skill: Skill) -> None:
    for file, data in skill_files(path, skill):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def make(folder: Path, **references: str | bytes) -> Path:
    (folder / "references").mkdir(parents=True)
    (folder / MAIN).write_bytes(b"---\nname: x\n---\n# X\r\n")
    for name, text in references.items():
        data = text.encode() if isinstance(text, str) else text
        (folder / "references" / f"{name}.md").write_bytes(data)
    return folder


@given(TEXT, st.dictionaries(st.sampled_from(["a", "b-2", "C.d"]), TEXT, min_size=1))
def test_a_package_comes_back_from_its_folder_and_from_its_single_file(
    tmp_path_factory: pytest.TempPathFactory, body: str, texts: dict[str, str]
) -> None:
    references = [Reference(f"references/{name}.md", text) for name, text in texts.items()]
    skill = Skill.of("---\nname: x\n---\n", [Text(body)], references)
    place = tmp_path_factory.mktemp("skill") / "best_skill.md"
    write(place, skill)
    assert read_skill(place) == skill
    assert read_skill(place.with_suffix("")) == skill


def test_only_the_files_of_the_skill_are_read_and_every_byte_of_them(tmp_path: Path) -> None:
    folder = make(tmp_path / "p", b="no newline", a="é\r\n")
    (folder / "LICENSE").write_bytes(b"\xff")
    (folder / "references" / "picture.png").write_bytes(b"\xff")
    (folder / "references" / "._b.md").write_bytes(b"\xff")
    skill = read_skill(folder)
    assert skill.main.render() == "---\nname: x\n---\n# X\r\n"
    assert skill.references == (
        Reference("references/a.md", "é\r\n"),
        Reference("references/b.md", "no newline"),
    )
    assert read_skill(folder / MAIN).references == ()


def test_a_folder_with_one_document_is_that_document(tmp_path: Path) -> None:
    folder = make(tmp_path / "p")
    assert read_skill(folder) == read_skill(folder / MAIN)
    assert [path.name for path, _ in skill_files(tmp_path / "x.md", read_skill(folder))] == ["x.md"]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("a", b"\xff", "references/a.md is not UTF-8"),
        ("a b", "", "references/a b.md' is no file of a skill package"),
        ("a", "<!-- SLOW_UPDATE_START -->", "references/a.md has a region mark"),
        ("a", "<!-- FILE references/b.md -->", "references/a.md holds the mark"),
        ("a", "x" * LARGEST, "bytes; at most 1,000,000"),
    ],
)
def test_a_file_that_cannot_be_part_of_a_skill_is_named(
    name: str, text: str | bytes, complaint: str, tmp_path: Path
) -> None:
    folder = make(tmp_path / "p", **{name: text})
    with pytest.raises(SkillError, match=re.escape(complaint)) as caught:
        read_skill(folder)
    assert str(caught.value).startswith(str(folder))


def test_a_folder_that_is_no_package_says_so(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"no SKILL.md in this folder"):
        read_skill(tmp_path)
    with pytest.raises(SkillError, match="there is no skill document"):
        read_skill(tmp_path / "absent")
    many = make(tmp_path / "many", **{f"r{n}": "" for n in range(MOST + 1)})
    with pytest.raises(SkillError, match=f"at most {MOST}"):
        read_skill(many)
    inlined = make(tmp_path / "inlined")
    (inlined / MAIN).write_text(Reference("references/a.md", "x").render(), encoding="utf-8")
    with pytest.raises(SkillError, match="put each file into references/"):
        read_skill(inlined)


@pytest.mark.parametrize("link", [MAIN, "references/a.md", "references"])
def test_a_link_that_leads_out_of_the_folder_is_refused(link: str, tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", a="secret")
    folder = tmp_path / "p"
    folder.mkdir()
    (folder / MAIN).write_text("x", encoding="utf-8")
    if link == MAIN:
        (folder / MAIN).unlink()
    elif link != "references":
        (folder / "references").mkdir()
    (folder / link).symlink_to(outside / link)
    with pytest.raises(SkillError, match="is a link to a file outside the folder"):
        read_skill(folder)


async def test_a_run_of_an_earlier_format_is_refused_unchanged_with_the_way_out(
    tmp_path: Path,
) -> None:
    layout = Layout(tmp_path / "run")
    layout.root.mkdir()
    old = (GOLDEN / "events.jsonl").read_bytes()
    layout.events.write_bytes(old)
    way_out = (
        r"earlier version of skillopt \(record format 1, .*"
        r"Only the version that wrote it \(0\.3\.0 or earlier\) can .*best_skill.md"
    )
    assert skillopt.__version__.partition(".dev")[0] not in {"0.3.0", "0.2.0", "0.1.0"}
    with pytest.raises(StoreError, match=way_out):
        RunReader(layout.root)
    async with Simulator(seed=1) as sim:
        data = make_data(tmp_path / "data", (8, 6, 4))
        job = Job(url=sim.url, data=data, out=layout.root, epochs=2, batch=4)
        with pytest.raises(StoreError, match=way_out):
            await job.here()
    assert layout.events.read_bytes() == old


def test_the_digest_and_the_cache_key_of_a_document_are_what_they_were() -> None:
    skill = Skill.parse(
        "---\nname: x\n---\n# Rules\r\n- é\n"
        "<!-- SLOW_UPDATE_START -->\ng\n<!-- SLOW_UPDATE_END -->\n"
    )
    spec = RolloutSpec(
        task=Task("t", "k", {"a": "b"}),
        skill=skill,
        digest=skill.digest,
        environment="env/1",
        harness="chat/1/m",
    )
    assert skill.digest == "9a4dd6afc58e305b"
    assert spec.key == "90814a2525f1bd71ecbf63b9d129a378f5500e458844e1db1dc0bcce3c03cb44"
