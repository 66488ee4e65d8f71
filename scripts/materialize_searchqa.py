"""Create a split folder from a manifest of ids and the SearchQA data on this machine.

    python scripts/materialize_searchqa.py --manifest-dir data/searchqa_id_split \
        --output-dir data/searchqa_split --dataset searchqa.jsonl
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

# So that it works without installation.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from skillopt.api import materialize
from skillopt.errors import SkilloptError


def main() -> None:
    """Read the arguments, write the folder, say what is in it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        *("--manifest-dir", "--manifest_dir"),
        type=Path,
        default=Path("data/searchqa_id_split"),
        help="folder with the ids of train, val and test [default: %(default)s]",
    )
    parser.add_argument(
        *("--output-dir", "--output_dir"),
        type=Path,
        default=Path("data/searchqa_split"),
        help="folder to write the items to [default: %(default)s]",
    )
    parser.add_argument(
        "--dataset",
        type=Path,
        required=True,
        help="the items: a JSON, JSONL, CSV or Parquet file, or a folder of them",
    )
    parser.add_argument(
        "--partial", action="store_true", help="leave out ids that the items do not have"
    )
    given = parser.parse_args()
    try:
        made = materialize(
            "searchqa",
            raw=given.dataset,
            out=given.output_dir,
            manifest=given.manifest_dir,
            partial=given.partial,
        )
    except SkilloptError as error:
        sys.exit(f"error: {error}")
    told = ", ".join(f"{count} {split}" for split, count in made.counts.items())
    sys.stdout.write(f"{given.output_dir}: {told}\n")


if __name__ == "__main__":
    main()
