"""Mutation test of core, engine and gates: are changes of their code noticed by their tests?

Takes a sample of all mutants that mutmut makes (`SAMPLE` of them, chosen by `SEED`), runs the
tests that reach each of them, and prints how many were noticed, with the others as a diff.
`make mutate` installs mutmut and calls this.
"""

from __future__ import annotations

import argparse
import io
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
    for name, status in sorted(statuses.items()):
        if status not in NOTICED:
            print(f"\n{status}: {name}")
            print(mutmut.get_diff_for_mutant(name))
    counts = Counter(statuses.values())
    noticed = sum(counts[status] for status in NOTICED)
    listed = ", ".join(f"{count} {status}" for status, count in counts.most_common())
    print(f"\n{listed}: score {noticed / max(1, len(statuses)):.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
