"""A skill in the place and the format in which each agent program looks for it."""

from __future__ import annotations

import pytest
import yaml

from skillopt.core.skill import Skill
from skillopt.errors import ConfigError, SkillError
from skillopt.harness.places import (
    LONGEST_DESCRIPTION,
    LONGEST_NAME,
    PLACES,
    TARGET_NAME,
    packaged,
    place_of,
    valid_name,
)

PACKAGE = Skill.parse(
    "# Money\n\n- Whole cents.\n"
    "\n<!-- FILE references/vat.md -->\n- 19 %.\n<!-- END OF FILE references/vat.md -->\n"
)


@pytest.mark.parametrize("program", PLACES)
def test_a_program_finds_a_folder_with_the_name_of_the_skill(program: str) -> None:
    files = place_of(program).files(PACKAGE, "money")
    folder = f"{PLACES[program].workspace}/money"
    assert files.keys() == {f"{folder}/SKILL.md", f"{folder}/references/vat.md"}
    front = yaml.safe_load(files[f"{folder}/SKILL.md"].split("---\n")[1])
    assert front["name"] == "money"
    assert "Money" in front["description"]
    assert files[f"{folder}/SKILL.md"].endswith("---\n# Money\n\n- Whole cents.\n")
    assert files[f"{folder}/references/vat.md"] == "- 19 %.\n"


def test_the_place_in_a_home_may_be_another_one() -> None:
    (path,) = place_of("opencode").files(Skill.parse("- A rule.\n"), home=True)
    assert path == f".config/opencode/skills/{TARGET_NAME}/SKILL.md"


def test_front_matter_that_is_right_stays_the_same_byte_for_byte() -> None:
    text = (
        "---\r\nname: money # ours\r\ndescription: 'Cents.'\r\nlicense: MIT\r\n---\r\n- Rule.\r\n"
    )
    made = packaged(Skill.parse(text))
    assert (made.name, made.description, made.files["SKILL.md"]) == ("money", "Cents.", text)


def test_front_matter_that_no_program_accepts_is_put_right_and_the_rest_of_it_kept() -> None:
    long = "About <b>money</b>,\n  " + "and more of it " * 100
    front = yaml.safe_dump({"license": "MIT", "name": "Our Claude: Money!", "description": long})
    made = packaged(Skill.parse(f"---\n{front}---\n- Rule.\n"))
    said = yaml.safe_load(made.files["SKILL.md"].split("---\n")[1])
    assert (said["name"], said["license"]) == ("our-money", "MIT")
    assert said["description"].startswith("About b money /b , and more of it and")
    assert len(said["description"]) <= LONGEST_DESCRIPTION
    assert list(said) == ["name", "description", "license"]


@pytest.mark.parametrize(
    ("given", "made"),
    [("a-b", "a-b"), ("A  b_c", "a-b-c"), ("x" * 70, "x" * LONGEST_NAME), ("ü", ""), ("-", "")],
)
def test_a_name_has_small_letters_digits_and_single_hyphens(given: str, made: str) -> None:
    assert valid_name(given) == made


@pytest.mark.parametrize("front", ["name: [", "just words"])
def test_front_matter_that_cannot_be_read_is_an_error(front: str) -> None:
    with pytest.raises(SkillError, match="the front matter of the skill"):
        packaged(Skill.parse(f"---\n{front}\n---\n- Rule.\n"))


def test_an_unknown_program_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'claude'"):
        place_of("claud")
