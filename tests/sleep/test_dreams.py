"""What a night practises on besides tonight's tasks, and what it must never practise on."""

from __future__ import annotations

from support_sleep import mined

from skillopt_sleep.dreams import held_out_again, kept_apart, recalled, variants

BREAD = "Write a mail to the customer whose rye bread came too late on Monday."
CAKE = "Draft the poster for the wedding cakes that we show in the window."
INDEX = "Commit message for the new index on the orders table, please."


def test_a_task_stays_in_the_split_in_which_it_came_up_first() -> None:
    archive = [mined("a", BREAD, split="val"), mined("b", CAKE, split="test")]
    tonight = [
        mined("a", BREAD, split="train"),
        mined("other", CAKE.replace("wedding", "the wedding"), split="train"),
        mined("new", INDEX, split="val"),
    ]
    assert [task.split for task in kept_apart(tonight, archive)] == ["val", "test", "val"]


def test_variants_are_made_of_real_training_tasks_only() -> None:
    tasks = [
        mined("a", BREAD),
        mined("b", CAKE, split="val"),
        mined("c", INDEX, split="test"),
        mined("d", INDEX, origin="recall"),
    ]
    made = variants(tasks, 2, seed=1)
    assert [task.derived_from for task in made] == ["a", "a"]
    assert all(task.split == "train" and task.origin == "dream" for task in made)
    assert len({task.intent for task in made} | {BREAD}) == 3
    assert all(BREAD in task.intent for task in made)
    assert made == variants(tasks, 2, seed=1)


def test_nothing_that_was_ever_held_out_is_recalled() -> None:
    tonight = [mined("now", BREAD), mined("held", CAKE, split="val")]
    archive = [
        mined("like", BREAD.replace("rye bread", "baguette order with twelve pieces")),
        mined("was val", "Mail to the customer about the rye bread from Monday", split="val"),
        mined("same as held", CAKE.replace("show", "show off")),
        mined("unlike", "Zwölf Boxkämpfer jagen Viktor quer durch Sylt"),
    ]
    found = recalled(tonight, archive, 5)
    assert [task.derived_from for task in found] == ["like"]
    assert found[0].origin == "recall"
    assert recalled(tonight, archive, 0) == []


def test_validation_is_filled_up_with_held_out_tasks_of_earlier_nights() -> None:
    tonight = [mined("now", BREAD), mined("held", CAKE, split="val")]
    archive = [
        mined("old", INDEX, split="val"),
        mined("trained", "Help text for vouchers", split="train"),
        mined("like tonight's", BREAD.replace("Monday", "Tuesday"), split="val"),
    ]
    found = held_out_again(tonight, archive, 10, "seed")
    assert [task.id for task in found] == ["old"]
    assert found[0].split == "val"
    assert held_out_again(tonight, archive, 1, "seed") == []
