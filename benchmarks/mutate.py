"""Mutation test of core, engine and gates: are changes of their code noticed by their tests?

Takes a sample of all mutants that mutmut makes (`SAMPLE` of them, chosen by `SEED`) and runs the
tests that reach each of them. What these do not notice is shown to fast tests of the packages that
use core, engine and gates. Prints how many were noticed by whom, with the others as a diff.
`make mutate` installs mutmut and calls this.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

mutmut: Any = import_module("mutmut.__main__")  # installed by `make mutate` only

LOG = Path("mutants/mutmut.log")
NOTICED = {"killed", "timeout", "segfault"}
USERS = """analysis optimizer prompts app/test_handoff.py app/test_reach.py app/test_report.py
app/test_views.py cli/test_show.py modes/test_skill_size.py store/test_codec.py
store/test_projector.py test_files_within_limits.py"""
"""Fast tests of the packages that use core, engine and gates."""
MINUTES = 10
"""More than the tests above take on a busy machine; a change that makes them last is noticed."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sample", type=int, default=40)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--jobs", type=int, default=2)
    given = options.parse_args()
    names = mutant_names(given.jobs)
    sample = random.Random(given.seed).sample(sorted(names), min(given.sample, len(names)))
    print(f"{len(sample)} of {len(names)} mutants, seed {given.seed}", flush=True)
    command = [sys.executable, "-m", "mutmut", "run", "--max-children", str(given.jobs), *sample]
    with LOG.open("w", encoding="utf-8") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        print(f"mutmut ended with {done.returncode}; its output is in {LOG}")
        return done.returncode
    return report(sample)


def mutant_names(jobs: int) -> list[str]:
    """Write all mutants to `mutants/`, as `mutmut run` does first, and name them."""
    mutmut.set_mutant_under_test("mutant_generation")
    Path("mutants").mkdir(exist_ok=True)
    with redirect_stdout(io.StringIO()):
        mutmut.copy_src_dir()
        mutmut.copy_also_copy_files()
        mutmut.setup_source_paths()
        mutmut.create_mutants(jobs)
    mutants, _ = mutmut.collect_source_file_mutation_data(mutant_names=())
    return [name for _, name, _ in mutants]


def report(sample: list[str]) -> int:
    mutants, _ = mutmut.collect_source_file_mutation_data(mutant_names=sample)
    statuses = {name: mutmut.status_by_exit_code[code] for _, name, code in mutants}
    left = sorted(name for name, status in statuses.items() if status not in NOTICED)
    if left and noticed_by_users(""):
        print("tests of other packages fail in mutants/ without any change, and are left out")
        elsewhere = set[str]()
    else:
        elsewhere = {name for name in left if noticed_by_users(name)}
    for name in left:
        if name not in elsewhere:
            print(f"\n{statuses[name]}: {name}")
            print(mutmut.get_diff_for_mutant(name))
    for name in sorted(elsewhere):
        print(f"noticed by tests of other packages only: {name}")
    counts = Counter(statuses.values())
    listed = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    own, total = len(statuses) - len(left), max(1, len(statuses))
    both = own + len(elsewhere)
    print(f"\n{listed}: score {own / total:.0%}, with tests of other packages {both / total:.0%}")
    return 0


def noticed_by_users(name: str) -> bool:
    """Whether a test of `USERS` fails with this mutant; without a name: with none."""
    command = [sys.executable, "-m", "pytest", "-x", *mutmut.config().pytest_add_cli_args]
    folder = Path("mutants").resolve()
    try:
        done = subprocess.run(
            [*command, *(f"tests/{each}" for each in USERS.split())],
            cwd=folder,
            env={**os.environ, "MUTANT_UNDER_TEST": name, "PYTHONPATH": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            timeout=MINUTES * 60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


if __name__ == "__main__":
    sys.exit(main())
