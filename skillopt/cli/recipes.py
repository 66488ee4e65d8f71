"""The settings of the quickstart, depending on the optimizer model."""

from __future__ import annotations

SMALL = """gradient:
  proposer: instruct               # short prompts: one instruction per group of failures
  samples: 2                       # instructions per group
  merge_mode: union                # merge without calling the optimizer

optimizer:
  select_mode: trial               # try each proposal on a few of its tasks before the gate sees it
  trial_tasks: 4
  learning_rate: 6                 # edits per step
  min_learning_rate: 6
  use_slow_update: false           # both need a capable optimizer
  use_meta_skill: false
"""

CAPABLE = """optimizer:
  learning_rate: 4                 # edits per step, at the start
  min_learning_rate: 2             # edits per step, at the end
"""
