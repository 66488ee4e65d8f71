"""What all benchmarks with questions have in common, each on data in the format of its owners."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from support_bench import (
    COUNT,
    RULE,
    SEEING,
    SIZES,
    WRITERS,
    SeeingModel,
    Teacher,
    png,
    verdict_of,
    write,
    write_raw,
)
from support_benchmark_agents import real_agents, trained_by_agent
from support_original import ROOT
from support_wire import WireServer

from skillopt.api import check_async, evaluate_async, materialize, train_async
from skillopt.app.environment import ENVIRONMENTS, open_environment
from skillopt.config.load import load_config
from skillopt.core.chat import Request
from skillopt.core.ports import AsksModels, Environment, TellsGold
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.datasets.splits import SPLITS
from skillopt.errors import ConfigError, DataError, EnvironmentFault
from skillopt.model.scripted import Scripted
from skillopt.testing.contracts.environments import ENVIRONMENT_CHECKS, Check

NAMES = sorted(WRITERS)
WORDS: Mapping[str, tuple[str, str]] = {"sealqa": ("A", "B"), "mmrb": ("present", "absent")}


def grader(name: str) -> Callable[[Request], str]:
    right, wrong = WORDS.get(name, ("correct", "incorrect"))

    def grade(request: Request) -> str:
        return verdict_of(request, right, wrong)

    return grade


def split_folder(name: str, folder: Path) -> Path:
    raw = write_raw(name, folder)
    materialize(name, raw=raw, out=folder / "split", manifest=folder / "ids")
    return folder / "split"


def opened(name: str, folder: Path, **settings: object) -> Environment:
    values = {"env.name": name, "env.split_mode": "split_dir", "env.split_dir": str(folder)}
    environment, _, _ = open_environment(load_config(values={**values, **settings}), SPLITS)
    return environment


def all_tasks(environment: Environment) -> list[Task]:
    return [task for split in SPLITS for task in environment.tasks(split)]


async def number(environment: Environment, task: Task) -> int:
    async with environment.open(task) as episode:
        found = re.search(r"item-(\d+)", episode.brief)
    assert found is not None
    return int(found[1])


async def right_replies(environment: Environment) -> dict[int, str]:
    assert isinstance(environment, TellsGold)
    replies: dict[int, str] = {}
    for task in all_tasks(environment):
        gold = environment.gold(task)
        assert gold is not None
        reply = gold.reply or f"<answer>{gold.answers[0]}</answer>"
        replies[await number(environment, task)] = reply
    return replies


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("check", ENVIRONMENT_CHECKS)
async def test_every_benchmark_keeps_the_contract(name: str, check: Check, tmp_path: Path) -> None:
    environment = opened(name, split_folder(name, tmp_path))
    if isinstance(environment, AsksModels):
        environment = environment.with_models({"judge": Scripted(grader(name), "grader")})
    await check(environment)


@pytest.mark.parametrize("name", NAMES)
def test_ids_of_a_manifest_and_published_data_become_a_split_folder(
    name: str, tmp_path: Path
) -> None:
    environment = opened(name, split_folder(name, tmp_path))
    for split, size in SIZES.items():
        ids = json.loads((tmp_path / "ids" / split / "items.json").read_text("utf-8"))
        found = [task.id for task in environment.tasks(cast("Split", split))]
        assert (len(found), found) == (size, [row["id"] for row in ids])


@pytest.mark.parametrize("name", NAMES)
def test_published_data_is_split_by_ratio_as_it_is_or_written_out(
    name: str, tmp_path: Path
) -> None:
    raw = write_raw(name, tmp_path)
    config = load_config(
        values={"env.name": name, "env.data_path": str(raw), "env.split_ratio": "2:1:7"}
    )
    environment, _, _ = open_environment(config, SPLITS)
    made = materialize(name, raw=raw, out=tmp_path / "cut")
    written = opened(name, tmp_path / "cut")
    assert sum(made.counts.values()) == COUNT
    for split in SPLITS:
        here = [task.digest for task in environment.tasks(split)]
        assert here == [task.digest for task in written.tasks(split)]


@pytest.mark.parametrize("name", NAMES)
async def test_the_same_task_has_the_same_identity_wherever_its_data_lies(
    name: str, tmp_path: Path
) -> None:
    one, two = (opened(name, split_folder(name, tmp_path / place)) for place in ("a", "b"))
    assert one.fingerprint == two.fingerprint
    assert [task.digest for task in all_tasks(one)] == [task.digest for task in all_tasks(two)]


@pytest.mark.parametrize("name", NAMES)
async def test_two_steps_of_training_raise_the_score_and_no_answer_leaks(
    name: str, tmp_path: Path
) -> None:
    folder = split_folder(name, tmp_path)
    replies = await right_replies(opened(name, folder))
    model, teacher = SeeingModel(name, replies), Teacher()
    async with WireServer([model]) as server:
        result = await train_async(
            optimizer=teacher,
            judge=grader(name),
            skill="# Skill\n",
            out=tmp_path / "run",
            progress=False,
            settings={
                "env.name": name,
                "env.split_mode": "split_dir",
                "env.split_dir": str(folder),
                "model.target": "seeing",
                "model.target_backend": "openai_compatible",
                "model.target_base_url": server.url,
                "train.num_epochs": 1,
                "train.batch_size": 4,
                "evaluation.gate": "strict",
            },
        )
    steps = json.loads((tmp_path / "run" / "history.json").read_text("utf-8"))
    assert len(steps) == 2
    assert (result.before.mean, result.score, result.test_score) == (0, 1, 1)
    assert RULE in result.best_skill
    _check_canaries(model.asked, teacher.asked, {n: n < SIZES["train"] for n in range(COUNT)})


def _check_canaries(
    asked: Sequence[Mapping[str, Any]], taught: Sequence[Request], trained: Mapping[int, bool]
) -> None:
    """What only the data holds reaches no target; what it holds of val and test, no optimizer."""
    said = json.dumps(asked)
    assert asked
    assert "gold-canary" not in said
    told = "\n".join(message.text for request in taught for message in request.messages)
    canaries = {int(found) for found in re.findall(r"gold-canary-(\d+)", told)}
    assert all(trained[number] for number in canaries)


@pytest.mark.parametrize("name", SEEING)
async def test_an_image_that_is_missing_broken_or_changed_is_told_in_one_line(
    name: str, tmp_path: Path
) -> None:
    folder = split_folder(name, tmp_path)
    environment = opened(name, folder)
    image = min((folder / "files").rglob("*.png"))
    content = image.read_bytes()
    image.unlink()
    image.write_bytes(content + b"other")
    for task in all_tasks(environment):
        if f'/{image.name}"' in json.dumps(task.data):
            with pytest.raises(EnvironmentFault, match="was changed meanwhile"):
                async with environment.open(task):
                    pass
    image.write_bytes(b"<html>not an image</html>")
    with pytest.raises(DataError, match=r"is no PNG, JPEG, GIF or WebP image") as caught:
        opened(name, folder)
    told, hint = str(caught.value).split("\n")
    assert (image.name in told, "env.drop_bad_rows" in hint) == (True, True)
    image.unlink()
    with pytest.raises(DataError, match=r"no image '.*'.*; set env.data_root to its folder"):
        opened(name, folder)
    raw = next(file for file in (tmp_path / "raw").rglob("*.png") if file.name == image.name)
    raw.unlink()
    with pytest.raises(DataError, match=r"no file '.*' in "):
        materialize(name, raw=tmp_path / "raw", out=tmp_path / "new")


@pytest.mark.parametrize("name", SEEING)
def test_data_root_says_where_images_are(name: str, tmp_path: Path) -> None:
    folder = split_folder(name, tmp_path)
    (folder / "files").rename(tmp_path / "elsewhere")
    with pytest.raises(DataError, match=r"set env\.data_root"):
        opened(name, folder)
    found = opened(name, folder, **{"env.data_root": str(tmp_path / "elsewhere")})
    assert len(all_tasks(found)) == COUNT


def babyvision_rows(folder: Path, image: str) -> Path:
    for split in SPLITS:
        row = {"id": split, "question": f"{split}?", "ansType": "blank", "blankAns": "1"}
        write(folder / split / "items.json", [{**row, "image": image}])
    return folder


@pytest.mark.parametrize("way", ["above", "absolute", "link", "folder that is a link", "circle"])
def test_an_image_outside_of_the_data_is_refused(way: str, tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "a.png", png(1))
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "link.png").symlink_to(outside)
    (folder / "more").symlink_to(outside.parent)
    (folder / "circle.png").symlink_to("circle.png")
    image = {
        "above": "../outside/a.png",
        "absolute": str(outside),
        "link": "link.png",
        "folder that is a link": "more/a.png",
        "circle": "circle.png",
    }[way]
    told = "no image 'circle.png'" if way == "circle" else f"'{image}' leads out of {folder}"
    with pytest.raises(DataError, match=rf"items\.json\[0\].*{told}.*; set env\.data_root"):
        opened("babyvision", babyvision_rows(folder, image))


def test_an_image_of_the_working_directory_is_not_taken_for_one_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "here" / "a.png", png(1))
    monkeypatch.chdir(tmp_path / "here")
    folder = babyvision_rows(tmp_path / "data", "a.png")
    with pytest.raises(DataError, match=r"no image 'a\.png' in .*data; set env\.data_root"):
        opened("babyvision", folder)
    assert len(all_tasks(opened("babyvision", folder, **{"env.data_root": "."}))) == 3


def test_images_of_a_cache_of_the_hub_are_links_into_its_blobs(tmp_path: Path) -> None:
    write(tmp_path / "blobs" / "abc", png(1))
    folder = babyvision_rows(tmp_path / "snapshots" / "rev", "images/a.png")
    (folder / "images").mkdir()
    (folder / "images" / "a.png").symlink_to("../../../blobs/abc")
    assert len(all_tasks(opened("babyvision", folder))) == 3


@pytest.mark.parametrize("content", [png(1)[:-6], b"\xff\xd8\xff\xe0 a photograph"])
def test_an_image_that_was_cut_off_is_refused(content: bytes, tmp_path: Path) -> None:
    folder = babyvision_rows(tmp_path, "a.png")
    write(folder / "a.png", content)
    with pytest.raises(DataError, match=r"a\.png has no end, it was cut off; fetch it again"):
        opened("babyvision", folder)


@pytest.mark.parametrize("name", SEEING)
def test_a_harness_for_text_alone_is_refused(name: str, tmp_path: Path) -> None:
    folder = split_folder(name, tmp_path)
    write(tmp_path / "deaf.py", "")
    with pytest.raises(ConfigError, match="need images"):
        opened(name, folder, **{"env.harness": "support_harness_text:Deaf"})


def rows_of_four(folder: Path) -> list[dict[str, Any]]:
    """The first four items of a split folder, with images relative to it."""
    rows = json.loads(next((folder / "train").glob("*.json")).read_text("utf-8"))
    return rows[:4]


@pytest.mark.agents
@real_agents
async def test_a_real_agent_finds_the_image_of_a_page_as_a_file(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = split_folder("docvqa", tmp_path)
    known = {hashlib.sha256(png(number)).hexdigest(): number for number in range(COUNT)}

    def answer(task: str, printed: str) -> str:
        found = re.search(r"[0-9a-f]{64}", printed)
        assert found is not None, printed
        assert f"item-{known[found[0]]}?" in task
        return f"<answer>{known[found[0]]}.00 dollars</answer>"

    result, asked = await trained_by_agent(
        agent,
        "docvqa",
        rows_of_four(folder),
        lambda _: "sha256sum attachments/*.png",
        answer,
        tmp_path / "run",
        monkeypatch,
        data_root=str(folder / "files"),
    )
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    assert not any("gold-canary" in text for text in asked)


@pytest.mark.agents
@real_agents
async def test_a_real_agent_finds_the_documents_of_a_question_as_files(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(task: str, printed: str) -> str:
        assert "the folder documents/" in task
        found = re.search(r"exactly (\d+ crews)", printed)
        assert found is not None, printed
        return f"<answer>{found[1]}</answer>"

    rows = rows_of_four(split_folder("sealqa", tmp_path))
    result, asked = await trained_by_agent(
        agent,
        "sealqa",
        rows,
        lambda _: "cat documents/*.md",
        answer,
        tmp_path / "run",
        monkeypatch,
        judge=grader("sealqa"),
    )
    assert (result.state.initial.value, result.score, result.test_score) == (0.0, 1.0, 1.0)
    assert not any("gold-canary" in text for text in asked)


def test_what_an_agent_cannot_serve_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = split_folder("sealqa", tmp_path)
    agent = {"env.harness": "claude_code_exec"}
    assert opened("sealqa", folder, **agent).needs == ("workspace",)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"env\.search: a function can be called as a tool only"):
        opened("sealqa", folder, **agent, **{"env.search": "json:loads"})
    told = (
        "env.harness: tasks of environment 'sealqa' need tools, but the harness "
        "'support_harness_text:Deaf' serves text only; choose another harness (chat, tools)"
    )
    with pytest.raises(ConfigError, match=re.escape(told)):
        opened("sealqa", folder, **{"env.harness": "support_harness_text:Deaf"})


@pytest.mark.parametrize("name", NAMES)
def test_wrong_columns_are_told_with_file_and_field(name: str, tmp_path: Path) -> None:
    write(tmp_path / "raw" / "rows.json", [{"prompt": "Why?"}])
    with pytest.raises(DataError, match=r"rows\.json\[0\].*no "):
        materialize(name, raw=tmp_path / "raw", out=tmp_path / "out")


@pytest.mark.parametrize("name", NAMES)
async def test_the_check_of_data_and_scorer_finds_nothing_bad_in_the_scorer(
    name: str, tmp_path: Path
) -> None:
    folder = split_folder(name, tmp_path)
    settings = {"env.name": name, "env.split_mode": "split_dir", "env.split_dir": str(folder)}
    found = await check_async(settings=settings)
    assert [each for each in found if each.check == "scorer" and each.verdict == "bad"] == []


@pytest.mark.parametrize("name", [*NAMES, "searchqa"])
def test_every_benchmark_has_a_first_skill_and_a_configuration(name: str) -> None:
    kind = ENVIRONMENTS.load(name)
    assert kind.initial_skill is not None
    assert Skill.parse(kind.initial_skill.read_text("utf-8")).body.strip()
    config = load_config(ROOT / "configs" / name / "default.yaml")
    assert config.env.name == name
    with pytest.raises((ConfigError, DataError), match="skillopt materialize"):
        open_environment(config, SPLITS)


@pytest.mark.parametrize("name", ["docvqa", "babyvision", "mathverse", "mmrb"])
async def test_the_detail_of_images_reaches_a_provider_that_has_it(
    name: str, tmp_path: Path
) -> None:
    folder = split_folder(name, tmp_path)
    model = SeeingModel(name, await right_replies(opened(name, folder)))
    async with WireServer([model]) as server:
        found = await evaluate_async(
            f"# Skill\n\n- {RULE}\n",
            split="test",
            judge=grader(name),
            out=tmp_path / "out",
            progress=False,
            settings={
                "env.name": name,
                "env.split_mode": "split_dir",
                "env.split_dir": str(folder),
                "env.image_detail": "high",
                "model.target": "seeing",
                "model.target_backend": "openai_compatible",
                "model.target_base_url": server.url,
            },
        )
    assert found.whole.hard == 1
    sent = [
        part["image_url"]["detail"]
        for body in model.asked
        for part in body["messages"][-1]["content"]
        if part["type"] == "image_url"
    ]
    assert sent == ["high"] * len(sent) != []
