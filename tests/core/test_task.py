from __future__ import annotations

import pytest

from skillopt.core.seeds import blocks, shuffled
from skillopt.core.task import Task, short_place


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("", ""),
        ("items.jsonl:12", "items.jsonl:12"),
        ("val/items.jsonl:12", "val/items.jsonl:12"),
        ("/home/x/data/val/items.jsonl:12", "val/items.jsonl:12"),
        ("C:\\data\\val\\items.jsonl:12", "val/items.jsonl:12"),
    ],
)
def test_a_place_is_told_without_the_folders_that_all_items_share(where: str, told: str) -> None:
    assert short_place(where) == told
    assert Task("t", where=where).told == (told or "t")


def test_a_task_is_what_it_asks_and_not_where_it_stands() -> None:
    task = Task("t", "sum", {"q": "é", "a": 1})
    assert task.digest == Task("t", "sum", {"a": 1, "q": "é"}, "x:1").digest == "209478cced1c66ae"
    assert task == Task("t", "sum", {"a": 1, "q": "é"}, "x:1")
    others = [Task("u", "sum", task.data), Task("t", "add", task.data), Task("t", "sum")]
    assert task.digest not in {other.digest for other in others}


def test_an_order_depends_on_the_seed_only_and_stays_for_later_versions_of_ours() -> None:
    assert shuffled("abcdef", 1) == shuffled(list("abcdef"), 1) == list("cdfaeb")
    assert shuffled("abcdef", "1 race 2") == list("dcbefa")
    assert blocks("abcde", 2) == ["ab", "cd", "e"]
