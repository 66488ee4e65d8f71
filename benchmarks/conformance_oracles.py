"""Public implementations of scorers, asked by conformance.py in virtual environments of their own.

    python conformance_oracles.py NAME    cases as JSON on stdin, their values on stdout

What these packages import for other purposes (datasets, networks, models) is large; packages that
would bring it are entered without their `__init__`.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

Case = Mapping[str, Any]


def _bare(*names: str) -> None:
    """Packages whose modules can be imported, without running their `__init__`."""
    for name in names:
        above, _, last = name.rpartition(".")
        if above:
            place = Path(sys.modules[above].__path__[0]) / last
        else:
            spec = find_spec(name)
            if spec is None or not spec.submodule_search_locations:
                raise SystemExit(f"{name} is not installed")
            place = Path(spec.submodule_search_locations[0])
        package = ModuleType(name)
        package.__path__ = [str(place)]
        sys.modules[name] = package


def _inspect_docvqa() -> Callable[[Case], object]:
    module: Any = importlib.import_module("inspect_evals.docvqa.docvqa")
    similarity = module._best_normalized_levenshtein_similiarity
    return lambda case: similarity(case["answer"], case["golds"], 0.5)


def _lmms_docvqa() -> Callable[[Case], object]:
    _bare("lmms_eval", "lmms_eval.api")

    def unchanged(*_: object, **__: object) -> Callable[[object], object]:
        return lambda function: function

    registry: Any = SimpleNamespace(register_aggregation=unchanged, register_metric=unchanged)
    sys.modules["lmms_eval.api.registry"] = registry
    sys.modules["sacrebleu"] = ModuleType("sacrebleu")
    metrics: Any = importlib.import_module("lmms_eval.api.metrics")
    return lambda case: metrics.anls(case["golds"], [case["answer"]])["anls"]


def _inspect_squad() -> Callable[[Case], object]:
    module: Any = importlib.import_module("inspect_ai.scorer._classification")

    def ask(case: Case) -> object:
        answer, golds = case["answer"], case["golds"]
        return [module.max_exact_score(answer, golds), module.max_f1_score(answer, golds)]

    return ask


def _evalscope_officeqa() -> Callable[[Case], object]:
    _bare("evalscope", "evalscope.benchmarks", "evalscope.benchmarks.officeqa")
    module: Any = importlib.import_module("evalscope.benchmarks.officeqa.utils")

    def ask(case: Case) -> object:
        answer = module.extract_final_answer(case["answer"])
        return module.score_answer(case["gold"], answer, case["tolerance"])

    return ask


def _evalscope_math() -> ModuleType:
    _bare("evalscope", "evalscope.metrics", "evalscope.api")
    api: Any = SimpleNamespace(MetricUnavailableError=RuntimeError)
    sys.modules["evalscope.api.metric"] = api
    return importlib.import_module("evalscope.metrics.math.parser")


def _evalscope_choice() -> Callable[[Case], object]:
    parser: Any = _evalscope_math()
    return lambda case: parser.choice_answer_clean(case["answer"]).strip().upper() == case["gold"]


def _evalscope_expression() -> Callable[[Case], object]:
    parser: Any = _evalscope_math()
    return lambda case: bool(parser.math_equal(case["answer"], case["gold"]))


def _lmms_boxed() -> Callable[[Case], object]:
    _bare("lmms_eval", "lmms_eval.tasks", "lmms_eval.tasks.babyvision")
    module: Any = importlib.import_module("lmms_eval.tasks.babyvision.utils")
    return lambda case: module.extract_boxed_answer(case["answer"])


def _inspect_swebench() -> Callable[[Case], object]:
    _bare("inspect_evals", "inspect_evals.swe_bench")
    module: Any = importlib.import_module("inspect_evals.swe_bench.scorers")

    def ask(case: Case) -> object:
        row = case["instance"]
        state = SimpleNamespace(sample_id=row["instance_id"], metadata=row, input="")
        try:
            return float(module.get_score_and_explanation_from_test_output(case["log"], state)[0])
        except RuntimeError:
            return None  # it says that no test was run, or that they did not come to an end

    return ask


ORACLES = {
    "inspect_docvqa": _inspect_docvqa,
    "lmms_docvqa": _lmms_docvqa,
    "inspect_squad": _inspect_squad,
    "evalscope_officeqa": _evalscope_officeqa,
    "evalscope_choice": _evalscope_choice,
    "evalscope_expression": _evalscope_expression,
    "lmms_boxed": _lmms_boxed,
    "inspect_swebench": _inspect_swebench,
}


def main() -> None:
    out, sys.stdout = sys.stdout, sys.stderr
    ask = ORACLES[sys.argv[1]]()
    json.dump([ask(case) for case in json.load(sys.stdin)], out)


if __name__ == "__main__":
    main()
