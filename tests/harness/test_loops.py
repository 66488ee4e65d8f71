"""Plain chat models that work with tools, or with code, in a sandbox."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import skillopt
from skillopt.core.chat import Model, Reply, Request, Tool, ToolCall, Usage
from skillopt.core.episode import EpisodeLimits, EpisodeNeed, Workspace
from skillopt.core.rollout import Score, Trajectory
from skillopt.core.skill import Skill
from skillopt.core.task import Split, Task
from skillopt.errors import ConfigError, TooLong
from skillopt.harness.sandbox import Bubblewrap
from skillopt.harness.text_tools import CODE_BLOCKS, JSON_CALLS
from skillopt.harness.tools import Code, LoopSettings, Tools, ToolSettings, interpreter
from skillopt.model.anthropic import ClaudeChat
from skillopt.model.http import Http
from skillopt.model.local import Local
from skillopt.model.openai import OpenAICompatible
from skillopt.model.provider import ModelSettings
from skillopt.model.scripted import Scripted, from_callable
from skillopt.model.weights import Folder, default_root, find
from skillopt.testing.contracts.harnesses import check_harness
from skillopt.testing.model_server import LoopbackServer, ModelServer
from skillopt.testing.wires import Call, Say

try:
    BOX = Bubblewrap.create()
except ConfigError as reason:
    pytest.skip(str(reason), allow_module_level=True)
LOOK = Tool("look_up", "Finds a price.", {"type": "object", "properties": {}})
SUM = "print(sum(int(line) for line in open('table.csv')))"


@dataclass(frozen=True)
class Table:
    """Add up a table, write the sum into a file."""

    instructions: str = "You are careful."
    brief: str = "Write the sum of table.csv to sum.txt."
    tools: tuple[Tool, ...] = ()
    workspace: Workspace | None = field(
        default_factory=lambda: Workspace(files={"table.csv": b"1\n2\n"}, collect=("*.txt",))
    )
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)

    async def call(self, call: ToolCall) -> str:
        return f"{call.name} of the episode"

    async def score(self, trajectory: Trajectory) -> Score:
        hit = float(trajectory.files.get("sum.txt", b"").strip() == b"3")
        return Score(hit, hit)


@dataclass
class Acting:
    """Makes these turns, one after the other, and then answers."""

    turns: Sequence[Sequence[ToolCall]]
    asked: list[Request] = field(default_factory=list[Request])
    fingerprint: str = "m/1"

    async def complete(self, request: Request) -> Reply:
        self.asked.append(request)
        turn = len(self.asked) - 1
        calls = tuple(self.turns[turn]) if turn < len(self.turns) else ()
        return Reply(text="" if calls else "done", calls=calls, usage=Usage(1, 10, 5))


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(f"c{len(arguments)}", name, json.dumps(arguments))


async def told(name: str, *before: ToolCall, **arguments: object) -> str:
    """What the model is told after a call."""
    model = Acting([*([each] for each in before), [call(name, **arguments)]])
    trajectory = await Tools(model, BOX).run(Table(), Skill())
    return trajectory.messages[-2].text


def wire(name: str, url: str, http: Http) -> Model:
    kind = {"openai": OpenAICompatible, "anthropic": ClaudeChat}[name]
    base = f"{url}/v1" if name == "openai" else url
    settings = ModelSettings(role="target", name="m", base_url=base, api_key="k", max_tokens=100)
    return kind.create(settings, http)


@pytest.mark.parametrize("name", ["openai", "anthropic"])
async def test_a_model_works_on_files_that_stay_between_its_calls(name: str) -> None:
    script = [
        Call("python", {"code": f"import os; os.makedirs('out'); {SUM}"}),
        Call("write_file", {"path": "out/../sum.txt", "content": "?"}),
        Call("write_file", {"path": "sum.txt", "content": "4\n"}),
        Call("edit_file", {"path": "sum.txt", "old": "4", "new": "3"}),
        Call("bash", {"command": "ls -d out; cat sum.txt >&2; exit 2"}),
        Call("read_file", {"path": "/workspace/sum.txt"}),
        Say("The sum is 3."),
    ]
    async with ModelServer(script) as server, Http() as http:
        harness = Tools(wire(name, server.url, http), BOX)
        trajectory = await harness.run(Table(), Skill.parse("- Use tools."))
    assert server.questions[0].tools == ("bash", "python", "read_file", "write_file", "edit_file")
    results = [message.text for message in trajectory.messages if message.role == "tool"]
    assert results == [
        "3",
        "error: ValueError: 'out/../sum.txt' is not a relative path inside of the workspace",
        "wrote 2 bytes to sum.txt",
        "changed sum.txt",
        "out\nstderr:\n3\nexit status 2",
        "3\n",
    ]
    assert trajectory.messages[0].text.endswith("## Skill\n\n- Use tools.")
    assert (trajectory.answer, trajectory.turns) == ("The sum is 3.", 7)
    assert trajectory.files == {"sum.txt": b"3\n"}
    assert (await Table().score(trajectory)).passed


async def test_several_calls_of_one_turn_are_answered_in_their_order() -> None:
    calls = [
        ToolCall("a", "bash", '{"command": "echo 1 > n; echo first"}'),
        ToolCall("b", "nonsense", "{}"),
        ToolCall("c", "bash", '{"command": "cat n"}'),
    ]
    model = Acting([calls])
    await Tools(model, BOX).run(Table(), Skill())
    answers = [(m.answers, m.text) for m in model.asked[1].messages if m.role == "tool"]
    assert [each for each in answers if each[0] != "b"] == [("a", "first"), ("c", "1")]
    assert dict(answers)["b"].startswith("error: there is no tool 'nonsense'; the tools are bash")


async def test_an_episodes_own_tools_go_before_those_of_the_harness() -> None:
    bash = Tool("bash", "Not a shell.", {"type": "object", "properties": {}})
    model = Acting([[call("bash"), call("look_up")]])
    trajectory = await Tools(model, BOX).run(Table(tools=(LOOK, bash)), Skill())
    results = [message.text for message in trajectory.messages if message.role == "tool"]
    assert results == ["bash of the episode", "look_up of the episode"]
    assert [tool.name for tool in model.asked[0].tools].count("bash") == 1


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("read_file", {"path": "nothing"}, "FileNotFoundError"),
        ("read_file", {"path": "/etc/passwd"}, "not a relative path inside of the workspace"),
        ("read_file", {"path": 1}, "the argument 'path' should be a text, not 1"),
        ("read_file", {"path": "table.csv", "start": "x"}, "should be a whole number"),
        ("write_file", {"path": "../x", "content": ""}, "not a relative path"),
        ("edit_file", {"path": "table.csv", "old": "9", "new": ""}, "occurs 0 times"),
        ("edit_file", {"path": "table.csv", "old": "", "new": ""}, "occurs 0 times"),
        ("bash", {}, "the argument 'command' should be a text"),
    ],
)
async def test_what_is_wrong_with_a_call_is_told_to_the_model(
    name: str, arguments: dict[str, Any], error: str
) -> None:
    text = await told(name, **arguments)
    assert text.startswith("error: ")
    assert error in text


@pytest.mark.parametrize(
    ("trick", "path"),
    [
        ("ln -s /etc/passwd x", "x"),
        ("ln -s / d", "d/etc/passwd"),
        ("mkfifo x", "x"),
        ("ln -s /proc/self/root/etc d", "d/passwd"),
    ],
)
@pytest.mark.parametrize("way", ["read_file", "write_file"])
async def test_no_link_or_pipe_leads_a_file_tool_astray(trick: str, path: str, way: str) -> None:
    more = {"content": "x"} if way == "write_file" else {}
    text = await told(way, call("bash", command=trick), path=path, **more)
    assert text.startswith("error: ")
    assert "Error: " in text


async def test_a_part_of_a_file_can_be_read_and_long_results_are_cut_in_the_middle() -> None:
    made = call("bash", command="seq 1 9999 > n; head -c 9 /dev/urandom > b; touch e")
    assert await told("read_file", made, path="n", start=9998, lines=1) == "9998\n"
    assert await told("read_file", made, path="e") == "(empty file)"
    assert await told("read_file", made, path="n", start=10**6) == "(n has fewer lines)"
    whole = await told("read_file", made, path="n")
    assert whole.startswith("1\n2\n")
    assert whole.endswith("9999\n")
    assert "characters left out" in whole
    assert len(whole) < 17_000


async def test_programs_are_ended_at_their_time_limit_and_the_model_is_told() -> None:
    model = Acting([[call("bash", command="echo begun; sleep 60")]])
    harness = Tools(model, BOX, ToolSettings(tool_seconds=0.5))
    trajectory = await harness.run(Table(), Skill())
    assert trajectory.messages[-2].text == "begun\nended: it took more than 0.5 s"


async def test_code_may_be_of_any_length_and_hold_any_character() -> None:
    assert await told("python", code=f"x = {'1' * 10**6!r}; print(len(x))") == "1000000"
    assert await told("bash", command="echo a # \ud800") == "a"


async def test_modules_of_the_workspace_can_be_imported() -> None:
    wrote = call("write_file", path="mine.py", content="answer = 42")
    assert await told("python", wrote, code="import mine; print(mine.answer)") == "42"


async def test_the_turns_are_limited_by_the_settings_or_by_the_episode() -> None:
    for settings, limits in ((3, EpisodeLimits()), (9, EpisodeLimits(turns=3))):
        model = Acting([[call("bash", command="true")]] * 9)
        harness = Tools(model, BOX, ToolSettings(max_turns=settings))
        trajectory = await harness.run(Table(limits=limits), Skill())
        assert (len(model.asked), trajectory.reached_limit) == (3, "turns")
        assert model.asked[-1].tool_choice == "none"


def words(*replies: str) -> tuple[Scripted, list[str]]:
    """A model that knows only text, and what it was asked."""
    asked: list[str] = []

    def speak(prompt: str) -> str:
        asked.append(prompt)
        return replies[min(len(asked), len(replies)) - 1]

    return from_callable(speak), asked


async def test_a_model_without_tools_calls_them_in_words() -> None:
    wanted = json.dumps({"name": "python", "arguments": {"code": SUM}})
    first = f"I add up.\n<tool_call>\n{wanted}\n</tool_call>"
    second = '<tool_call>{"name": "bash", "arguments": {"command": "echo 3 > sum.txt"}}'
    model, asked = words(first, second, "The sum is 3.")
    trajectory = await Tools(model, BOX).run(Table(), Skill())
    assert trajectory.files == {"sum.txt": b"3\n"}
    assert (trajectory.answer, trajectory.turns) == ("The sum is 3.", 3)
    assert [each.name for message in trajectory.messages for each in message.calls] == [
        *("python", "bash")
    ]
    assert "<tools>" in asked[0]
    assert '"name": "edit_file"' in asked[0]
    assert "<tool_response>\n3\n</tool_response>" in asked[1]


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', [("f", '{"a": 1}')]),
        ('<tool_call>{"name": "f", "arguments": {"a": "x\ny"},}', [("f", '{"a": "x\\ny"}')]),
        ('```json\n{"name": "f", "arguments": {"a": 1}}\n```', [("f", '{"a": 1}')]),
        ('```json\n{"name": "f", "parameters": {"a": 1}}\n```', [("f", '{"a": 1}')]),
        ('```json\n{"name": "f"}\n```', []),
        ('```json\n{"name": "Ann", "arguments": {}}\n```', []),
        ("<tool_call>what?</tool_call>", [("", "")]),
        (
            '<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g"}</tool_call>',
            [("f", "{}"), ("g", "{}")],
        ),
        ("No call at all.", []),
    ],
)
def test_calls_in_words_are_found(reply: str, found: list[tuple[str, str]]) -> None:
    assert JSON_CALLS.find(reply, [Tool("f", "", {}), Tool("g", "", {})]) == found


async def test_the_last_turn_in_words_asks_for_the_answer() -> None:
    model, asked = words('<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>')
    trajectory = await Tools(model, BOX, ToolSettings(max_turns=2)).run(Table(), Skill())
    assert asked[1].rstrip().endswith("Give your final answer now.")
    assert trajectory.turns == 2


@dataclass
class ToolessServer(LoopbackServer):
    """A server that refuses requests with tools, as several do."""

    message: str = ""
    bodies: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.content.read())
        self.bodies.append(body)
        if "tools" in body:
            return web.json_response({"error": {"message": self.message}}, status=400)
        said = {"role": "assistant", "content": "3"}
        choice = {"index": 0, "message": said, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": {}})


@pytest.mark.parametrize(
    "message",
    [
        "registry.ollama.ai/library/gemma:2b does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "No endpoints found that support tool use.",
        "tools is not supported in this model.",
    ],
)
async def test_a_server_without_tools_is_asked_in_words(message: str) -> None:
    async with ToolessServer(message=message) as server, Http() as http:
        model = wire("openai", server.root, http)
        trajectory = await Tools(model, BOX).run(Table(), Skill())
    assert trajectory.answer == "3"
    assert "<tools>" in json.dumps(server.bodies[1])


async def test_code_in_blocks_is_run_until_there_is_a_final_answer() -> None:
    answer = "Good.\n\n**FINAL ANSWER**\n```python\nprint('not run')\n```"
    model, asked = words(
        f"First:\n```python\n{SUM}\n```",
        "```bash\necho 3 > sum.txt\n```\n```sh\ncat sum.txt\n```",
        answer,
    )
    trajectory = await Code(model, BOX).run(Table(), Skill.parse("- Rule."))
    assert trajectory.files == {"sum.txt": b"3\n"}
    assert trajectory.answer == "```python\nprint('not run')\n```"
    assert trajectory.messages[-1].text == answer
    assert "Output:\n```\n3\n```" in asked[1]
    assert "Output:\n```\n(no output)\n```\nOutput:\n```\n3\n```" in asked[2]


async def test_a_reply_without_code_is_the_answer() -> None:
    model, _ = words("It is ```3```, as in\n```json\n{}\n```")
    trajectory = await Code(model, BOX).run(Table(), Skill())
    assert (trajectory.answer, trajectory.turns) == ("It is ```3```, as in\n```json\n{}\n```", 1)


def test_a_block_that_is_cut_off_is_run_as_far_as_it_goes() -> None:
    bash = Tool("bash", "", {})
    assert CODE_BLOCKS.find("```bash\nls\n", [bash]) == [("bash", '{"code": "ls\\n"}')]
    assert CODE_BLOCKS.find("```python\nx\n```", [bash]) == []


@dataclass
class Narrow(Acting):
    """Refuses conversations of more than so many characters."""

    room: int = 0
    refused: int = 0

    async def complete(self, request: Request) -> Reply:
        if sum(len(message.text) for message in request.messages) > self.room:
            self.refused += 1
            raise TooLong("too long")
        return await Acting.complete(self, request)


async def test_old_results_are_shortened_when_the_context_is_full() -> None:
    model = Narrow([[call("bash", command="seq 1 700")]] * 4, room=7000)
    trajectory = await Tools(model, BOX).run(Table(), Skill())
    assert (trajectory.answer, trajectory.reached_limit) == ("done", "")
    assert model.refused > 0
    sent = [message for message in model.asked[-1].messages if message.role == "tool"]
    assert [("characters left out" in message.text) for message in sent] == [
        *(True, True, False, False)
    ] or "characters left out" in sent[0].text
    assert "characters left out" not in sent[-1].text
    kept = [message.text for message in trajectory.messages if message.role == "tool"]
    assert all(text.startswith("1\n2") and text.endswith("700") for text in kept)


async def test_results_are_shortened_before_the_model_refuses_if_its_context_is_known() -> None:
    model = Narrow([[call("bash", command="seq 1 700")]] * 4, room=7000)
    harness = Tools(model, BOX, ToolSettings(context_tokens=1500))
    trajectory = await harness.run(Table(), Skill())
    assert (trajectory.answer, model.refused) == ("done", 0)


async def test_an_attempt_that_no_longer_fits_ends_in_order_and_is_scored() -> None:
    turns = [[call("bash", command="echo 3 > sum.txt; seq 1 700")]] * 9
    model = Narrow(turns, room=2200)
    trajectory = await Tools(model, BOX).run(Table(), Skill())
    assert trajectory.reached_limit == "context"
    assert trajectory.turns == len(model.asked) < 9
    assert (await Table().score(trajectory)).passed


async def test_a_task_that_never_fits_is_no_attempt() -> None:
    with pytest.raises(TooLong):
        await Tools(Narrow([], room=10), BOX).run(Table(), Skill())


@pytest.mark.parametrize("kind", [Tools, Code])
async def test_both_keep_the_contract_of_a_harness(kind: Callable[..., Tools | Code]) -> None:
    def speak(request: Request) -> Reply:
        begun = len(request.messages) == 2 and request.tool_choice != "none"
        calls = (call("bash", command="ls"),) if begun and request.tools else ()
        return Reply(text="```bash\nls\n```" if begun else "OK", calls=calls)

    await check_harness(kind(from_callable(speak), BOX))


def test_a_setting_that_allows_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="tool_seconds should be above 0"):
        LoopSettings(tool_seconds=0)


async def test_another_interpreter_can_be_used_and_is_seen_with_its_packages() -> None:
    python = str(Path(sys.prefix) / "bin" / "python")
    model = Acting([[call("python", code="import pydantic, sys; print(sys.prefix)")]])
    harness = Tools(model, BOX, ToolSettings(tool_python=python))
    trajectory = await harness.run(Table(), Skill())
    assert trajectory.messages[-2].text == sys.prefix


def test_an_interpreter_that_would_show_everything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no interpreter"):
        interpreter(str(tmp_path / "none"))
    own = Path.home() / f"bin-{os.getpid()}"
    own.mkdir()
    try:
        (own / "python").write_text("")
        with pytest.raises(ConfigError, match="would see all of"):
            interpreter(str(own / "python"))
    finally:
        (own / "python").unlink()
        own.rmdir()


@dataclass(frozen=True)
class Tables:
    """An environment that scores the files that are left."""

    name: str = "tables"
    fingerprint: str = "tables/1"
    needs: tuple[EpisodeNeed, ...] = ("workspace",)

    def tasks(self, split: Split) -> Sequence[Task]:
        return [Task(f"{split}-{n}", data={"n": n}) for n in range(2)]

    @asynccontextmanager
    async def open(self, task: Task) -> AsyncGenerator[Table, None]:
        rows = b"1\n2\n" if task.data["n"] == 0 else b"5\n"
        yield Table(workspace=Workspace(files={"table.csv": rows}, collect=("sum.txt",)))


@pytest.mark.parametrize("harness", ["tools", "code"])
def test_an_evaluation_scores_the_files_that_are_left(tmp_path: Path, harness: str) -> None:
    def target(prompt: str) -> str:
        if "<tool_response>\n" in prompt or "Output:" in prompt:
            return "done"
        script = "awk '{s+=$1} END {print s}' table.csv > sum.txt"
        if harness == "code":
            return f"```bash\n{script}\n```"
        wanted = {"name": "bash", "arguments": {"command": script}}
        return f"<tool_call>{json.dumps(wanted)}</tool_call>"

    result = skillopt.evaluate(
        "# Tables\n",
        environment=Tables(),
        target=target,
        split="val",
        out=tmp_path / "out",
        settings={"env.harness": harness, "env.tool_seconds": 20},
        progress=False,
    )
    scores = result.evaluations["val"].replicates[0]
    assert [scores[f"val-{n}"].hard for n in range(2)] == [1, 0]


def test_a_misspelt_key_of_the_harness_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"env\.tool_second.*did you mean.*tool_seconds"):
        skillopt.evaluate(
            "# Tables\n",
            environment=Tables(),
            target="m",
            out=tmp_path / "out",
            settings={"env.harness": "tools", "env.tool_second": 20},
            progress=False,
        )


@dataclass(frozen=True)
class Greeting(Table):
    instructions: str = "You are an assistant that works with files."
    brief: str = "Create the file greeting.txt with the text hello in it."


@pytest.mark.weights
async def test_a_real_local_model_makes_a_file_though_it_knows_no_tools() -> None:
    pytest.importorskip("xllamacpp", reason="pip install xllamacpp")
    weights, root = find("qwen2.5-coder-0.5b"), default_root(os.environ.get)
    if not Folder(root).has(weights):
        pytest.skip(f"not on this machine: skillopt model fetch {weights.name}")
    extra = {"folder": root, "context": 4096}
    settings = ModelSettings(role="target", name=weights.name, max_tokens=70, extra=extra)
    model, skill = Local.create(settings, Http()), Skill.parse("- Make files with code.\n")
    coded = await Code(model, BOX, LoopSettings(max_turns=2)).run(Greeting(), skill)
    assert coded.files["greeting.txt"].strip() == b"hello"
    called = await Tools(model, BOX, ToolSettings(max_turns=2)).run(Greeting(), skill)
    assert [call.name for message in called.messages for call in message.calls] == ["bash"]
    assert called.messages[-1].role == "assistant"
