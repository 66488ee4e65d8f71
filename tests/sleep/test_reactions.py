from __future__ import annotations

import pytest

from skillopt_sleep.sources.reactions import Reactions
from skillopt_sleep.values import Mood


def moods(text: str, reactions: Reactions | None = None) -> str:
    found = (reactions or Reactions()).among(["Do it", text])
    return "".join({Mood.NEGATIVE: "-", Mood.POSITIVE: "+"}[each.mood] for each in found)


@pytest.mark.parametrize(
    "text",
    [
        "No, that is wrong: always use UTC dates.",
        "That\u2019s wrong, use the other file",
        "This answer is incorrect.",
        "it still doesn't work",
        "No. Use tabs",
        "not what I asked for",
        "Nope",
        "You forgot the tests!",
        "Nein, das ist falsch",
        "Das funktioniert nicht, versuch es nochmal",
        "Non, ce n'est pas ça",
        "Ça ne marche pas",
        "No, está mal",
        "Isso está errado, não funciona",
        "No, è sbagliato",
        "不对,应该用UTC",
        "还是不行",
        "違います。やり直してください",
        "いいえ、そうではなく",
        "아니요, 틀렸어요",
        "Нет, это неправильно",
        "всё ещё не работает",
    ],
)
def test_users_say_in_many_languages_that_an_answer_was_wrong(text: str) -> None:
    assert moods(text) == "-"


@pytest.mark.parametrize(
    "text",
    [
        "Thanks, that works!",
        "Perfect. Now the next one",
        "Great, thank you",
        "Yes, exactly",
        "Correct!",
        "lgtm",
        "Danke, sieht gut aus",
        "Merci, c'est parfait",
        "Gracias, ya funciona",
        "Obrigado, ficou bom",
        "Grazie, ora funziona",
        "谢谢,很好",
        "ありがとうございます、完璧です",
        "감사합니다, 완벽해요",
        "Спасибо, всё верно",
    ],
)
def test_users_say_in_many_languages_that_an_answer_was_right(text: str) -> None:
    assert moods(text) == "+"


@pytest.mark.parametrize(
    "text",
    [
        "Add a piano, a nocturne and a northern light",
        "No tests are needed for this",
        "Is there no option for it?",
        "no problem, go on",
        "Correct the spelling in the readme",
        "Please make sure it works on Windows",
        "Check whether that works with Python 3.10",
        "Print `that's wrong` when the input is bad",
        'The message should say "no, try again"',
        "> that's wrong\nWhat does this line of the log mean?",
        "```\nError: is incorrect\n```\nExplain the output",
        "Kein Problem, mach weiter",
        "Write the word thanks into the footer",
        "Use the incorrectness measure",
        "没关系,继续",
        "",
    ],
)
def test_what_only_looks_like_a_reaction_is_none(text: str) -> None:
    assert moods(text) == ""


def test_incorrect_is_not_correct_and_the_negation_of_praise_is_no_praise() -> None:
    assert moods("that is incorrect") == "-"
    assert moods("this is not correct") == "-"
    assert moods("it never works great") == ""
    assert moods("不正确") == "-"
    assert moods("неверно") == "-"


def test_praise_and_blame_in_one_prompt_are_both_told() -> None:
    assert moods("Great, but you forgot the changelog") == "-+"


def test_the_task_itself_is_no_reaction() -> None:
    reactions = Reactions().among(["That's wrong: the sum is 5. Thanks!", "ok", "No, it is 6."])
    assert [(each.turn, each.text) for each in reactions] == [(2, "No, it is 6.")]


def test_phrases_of_the_user_are_whole_words_too() -> None:
    own = Reactions(negative=("Quatsch",), positive=("top",))
    assert moods("Das ist quatsch", own) == "-"
    assert moods("Das ist Quatschen", own) == ""
    assert moods("Top!", own) == "+"
    assert moods("Stop it", own) == ""


def test_a_long_prompt_is_looked_at_in_no_time() -> None:
    assert moods("not " * 100_000) == ""
    assert moods("a, " * 100_000) == ""
