"""What a run is recognised by when it is continued."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from support import analysis
from support_gguf import write_model
from support_wire import WireServer, completion, says

import skillopt
from skillopt.app.evaluation import evaluate
from skillopt.app.models import ModelFactory
from skillopt.app.run_spec import SuppliedParts, prepare
from skillopt.app.training import identity_of
from skillopt.config.load import load_config
from skillopt.config.secrets import Secrets
from skillopt.core.skill import Skill
from skillopt.errors import StoreError
from skillopt.harness.chat import Chat
from skillopt.model.budget import Budget, Meter
from skillopt.model.http import Http
from skillopt.testing.doubles import MemoryCache

ROWS: list[dict[str, object]] = [
    {"input": f"{n} + {n}", "answer": str(2 * n)} for n in range(1, 31)
]
KEYS = {"OPENAI_API_KEY": "sk-" + "x" * 20, "ANTHROPIC_API_KEY": "sk-" + "y" * 20}
PROVIDER = """
from pathlib import Path
from skillopt.core.chat import Reply
from skillopt.model.provider import Provider


class Versioned(Provider):
    def __init__(self, name):
        self.fingerprint = f"versioned/{name}/" + Path("version").read_text()

    @classmethod
    def create(cls, settings, http):
        return cls(settings.name)

    async def complete(self, request):
        return Reply(text="4" if "Double" in request.messages[0].text else "none")
"""


def make_rows(folder: Path) -> Path:
    file = folder / "rows.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    return file


async def identity(
    folder: Path, *overrides: str, variables: Mapping[str, str] = KEYS
) -> dict[str, str]:
    secrets = Secrets(variables)
    own = [f"env.data_path={make_rows(folder)}", "env.name=custom", "env.skill_init=blank"]
    brief = prepare(load_config(overrides=[*own, *overrides]), secrets=secrets)
    async with Http() as http:
        factory = ModelFactory(secrets, http, MemoryCache(), Budget(Meter()))
        models = factory.models_for(brief.config, brief.roles, {})
        return dict(identity_of(brief, Chat(models["target"]), models))


@pytest.mark.parametrize(
    ("override", "changed"),
    [
        ("target_model=m", {"target model"}),
        ("optimizer_model=m", {"optimizer model"}),
        ("temperature=0", {"target model", "optimizer model"}),
        ("target_max_tokens=9", {"target model"}),
        ("reasoning_effort=low", {"target model", "optimizer model"}),
        ("openai_chat_api=responses", {"target model", "optimizer model"}),
        ("target_backend=claude_chat", {"target model"}),
        ("rewrite_reasoning_effort=low", {"model.rewrite_reasoning_effort"}),
        ("env.instructions=Think.", {"env.instructions", "environment"}),
        ("seed=7", {"train.seed"}),
        ("timeout_seconds=9", set[str]()),
        ("retries=9", set[str]()),
        ("max_concurrency=9", set[str]()),
        ("base_url=http://localhost:1/v1", set[str]()),
        ("workers=3", set[str]()),
        ("input_price=1", set[str]()),
    ],
)
async def test_the_identity_of_a_run_follows_what_changes_its_results_and_nothing_else(
    override: str, changed: set[str], tmp_path: Path
) -> None:
    before, after = await identity(tmp_path), await identity(tmp_path, override)
    assert {key for key in {*before, *after} if before.get(key) != after.get(key)} == changed


@pytest.mark.parametrize(
    ("override", "same"),
    [
        ("local_context=512", False),
        ("local_parallel=2", False),
        ("local_batch=64", False),
        ("local_threads=1", True),
        ("local_slots=2", True),
    ],
)
async def test_the_identity_follows_an_embedded_model(
    override: str, same: bool, tmp_path: Path
) -> None:
    pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    model = write_model(tmp_path / "tiny.gguf")
    local = ("target_backend=local", f"target_model={model}")
    before, after = await identity(tmp_path, *local), await identity(tmp_path, *local, override)
    assert (before == after) is same


async def test_the_identity_follows_the_profile_of_a_program(tmp_path: Path) -> None:
    program = ("target_backend=codex_cli", "target_model=m")
    before = await identity(tmp_path, *program)
    after = await identity(tmp_path, *program, "codex_exec_profile=fast")
    assert {key for key in before if before[key] != after[key]} == {"target model"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("QWEN_CHAT_MODEL", "qwen-x"),
        ("QWEN_CHAT_TEMPERATURE", "0.1"),
        ("QWEN_CHAT_THINKING_MODE", "enabled"),
    ],
)
async def test_the_identity_follows_variables_of_the_environment(
    variable: str, value: str, tmp_path: Path
) -> None:
    qwen = ("target_backend=qwen_chat",)
    before = await identity(tmp_path, *qwen)
    after = await identity(tmp_path, *qwen, variables={**KEYS, variable: value})
    assert {key for key in before if before[key] != after[key]} == {"target model"}


def test_a_run_is_not_continued_on_another_version_of_its_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "versioned_models.py").write_text(PROVIDER, encoding="utf-8")

    def attempt(version: str, **more: object) -> None:
        (tmp_path / "version").write_text(version, encoding="utf-8")
        skillopt.train(
            data=ROWS,
            optimizer=lambda prompt: analysis("Double the number.") if prompt else "",
            skill="Add.",
            out=tmp_path / "run",
            settings={
                "model.target_backend": "versioned_models:Versioned",
                "model.target": "m",
                "num_epochs": 1,
                "batch_size": 3,
                **more,
            },
        )

    attempt("v1")
    before = (tmp_path / "run" / "events.jsonl").read_bytes()
    with pytest.raises(StoreError, match=r"target model: v1 there, v2 now") as caught:
        attempt("v2", num_epochs=2)
    assert "env.out_root" in str(caught.value)
    assert (tmp_path / "run" / "events.jsonl").read_bytes() == before
    attempt("v1", num_epochs=2, workers=2)


@pytest.mark.parametrize(
    ("backend", "variables", "name"),
    [
        ("qwen_chat", {"QWEN_CHAT_MODEL": "qwen-x"}, "qwen-x"),
        ("qwen_chat", {"TARGET_QWEN_CHAT_MODEL": "qwen-t"}, "qwen-t"),
        ("minimax_chat", {"MINIMAX_MODEL": "mini-x", "MINIMAX_API_KEY": "k" * 9}, "mini-x"),
        ("minimax_chat", {"MINIMAX_API_KEY": "k" * 9}, "MiniMax-M3"),
        ("openai_compatible", {"OPENAI_COMPATIBLE_MODEL": "c"}, "c"),
        ("claude_chat", {"ANTHROPIC_MODEL": "claude-x", **KEYS}, "claude-x"),
        ("openai_chat", {"TARGET_DEPLOYMENT": "mine", **KEYS}, "mine"),
    ],
)
async def test_the_model_that_is_asked_is_the_model_that_is_told(
    backend: str, variables: dict[str, str], name: str, tmp_path: Path
) -> None:
    own = [
        f"env.data_path={make_rows(tmp_path)}", "env.name=custom", "env.skill_init=blank",
        f"target_backend={backend}", "optimizer_backend=handoff",
    ]  # fmt: skip
    async with WireServer([says(completion("4"))]) as server:
        more = (
            f"base_url={server.url}",
            "retries=0",
            "max_failure_share=1",
            f"out_root={tmp_path}/o",
        )
        config = load_config(overrides=[*own, *more])
        secrets = Secrets(variables)
        if backend != "claude_chat":  # whose answers have another shape
            await evaluate(
                config, SuppliedParts(skill=Skill()), lambda _: None, secrets, split="val"
            )
            assert {seen.body["model"] for seen in server.seen} == {name}
    brief = prepare(config, secrets=secrets)
    assert brief.config.model.role("target").model == name
    assert brief.config.flat()["target_model"] == name
    if backend in {"qwen_chat", "minimax_chat"}:
        assert brief.config.flat()["target_temperature"] == 0.7


def test_a_function_that_was_asked_is_recorded_and_not_the_default_model(tmp_path: Path) -> None:
    def pupil(prompt: str) -> str:
        return "4" if prompt else ""

    skillopt.train(
        data=ROWS, target=pupil, optimizer=pupil, skill="Add.", out=tmp_path / "run",
        settings={"num_epochs": 1},
    )  # fmt: skip
    for file in ("config.json", "summary.json"):
        assert "gpt-5.5" not in (tmp_path / "run" / file).read_text(encoding="utf-8")
    told = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert told["target_model"].endswith("pupil")
    assert told["target_backend"] == "scripted"
