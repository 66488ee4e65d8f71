from __future__ import annotations

from pathlib import Path

from support_cli import make_project, skillopt

from skillopt.testing.simulator import Simulator


async def test_calibrate_tells_the_noise_and_training_does_not_pay_for_it_again(
    tmp_path: Path,
) -> None:
    async with Simulator(noise=0.3, fresh=True) as simulator:
        make_project(tmp_path, simulator.url)
        done = await skillopt("calibrate", "c.yaml", "--effect", "0.2", cwd=tmp_path)
        assert done.code == 0, done.err
        assert "noise floor" in done.out
        assert "settings to detect a gain of 0.2" in done.out
        asked = simulator.stats().requests
        again = await skillopt("calibrate", "c.yaml", "--effect", "0.2", cwd=tmp_path)
        assert again.out == done.out
        assert simulator.stats().requests == asked
        trained = await skillopt("train", "c.yaml", "evaluation.calibrate=true", cwd=tmp_path)
        assert trained.code == 0, trained.err
        assert "noise floor" in trained.out


async def test_a_gain_of_nothing_is_refused(tmp_path: Path) -> None:
    done = await skillopt("calibrate", "c.yaml", "--effect", "0", cwd=tmp_path)
    assert done.code == 2
    assert "--effect" in done.err
