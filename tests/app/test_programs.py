"""A whole training whose optimizer is a program."""

from __future__ import annotations

from pathlib import Path

from support_programs import make_program
from support_runs import ROOT, Job, facts, make_data

from skillopt.testing.simulator import Simulator

CLEVER = f"""\
sys.path.insert(0, {str(ROOT)!r})
from skillopt.testing.simulator.optimizer import SimulatedOptimizer, stage_of
system = call["instructions"]
prompt = call["stdin"]
stage = stage_of(system)
if stage is None:
    text = "OK"
else:
    turns = prompt.partition("<user>\\n")[2].partition("\\n</user>")[0]
    text = SimulatedOptimizer().answer(stage, system, turns or prompt, repairing=bool(turns))
usage = {{"input_tokens": 5, "output_tokens": 2}}
print(json.dumps({{"type": "result", "result": text, "usage": usage, "total_cost_usd": 0.5}}))
"""


async def test_an_optimizer_that_is_a_program_ends_as_a_served_one_does(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data", (8, 6, 4))
    program = make_program(tmp_path / "bin", "claude", CLEVER)
    async with Simulator() as sim:
        served = Job(url=sim.url, data=data, out=tmp_path / "served", epochs=1, batch=8)
        expected = await served.here()
        job = Job(url=sim.url, data=data, out=tmp_path / "run", epochs=1, batch=8)
        more = {
            "model.optimizer_backend": "claude_code_exec",
            "model.claude_code_exec_path": str(program.path),
            "model.optimizer_timeout_seconds": 300.0,
        }
        result = await job.here(more)
        again = await job.here(more)
    assert facts(job.out)[1:] == facts(served.out)[1:]
    assert result.best_skill == again.best_skill == expected.best_skill
    assert result.spent.dollars == 0.5 * len(program.calls) > 0
