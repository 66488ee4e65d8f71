from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillopt.core.rules import Rule, rules_in, without
from skillopt.core.skill import Reference, Region, Skill

DOCUMENT = """\
---
name: clerk
---
# Clerk

You are kind.

## Dates

House style:

- ISO dates
  with dashes
  - also for weeks

  and years
* no slashes
even in quotes

Ask if unsure.

1. step one
   ```
   - not a bullet
   # nor a heading
   ```
2) step two

## Tone

Be brief.
Be clear.

### Letters

- Sign them.

<!-- SLOW_UPDATE_START -->
- protected
<!-- SLOW_UPDATE_END -->

- last
"""
SKILL = Skill.parse(DOCUMENT)


def texts(skill: Skill) -> list[str]:
    return [rule.text for rule in rules_in(skill)]


def rule(start: str, skill: Skill = SKILL) -> Skill:
    """The skill without the rule that starts so."""
    (found,) = [each for each in rules_in(skill) if each.text.startswith(start)]
    return without(skill, [found])


def test_a_rule_is_an_outermost_bullet_with_its_lines_or_a_section_without_bullets() -> None:
    assert texts(SKILL) == [
        "You are kind.",
        "- ISO dates\n  with dashes\n  - also for weeks\n\n  and years",
        "* no slashes\neven in quotes",
        "1. step one\n   ```\n   - not a bullet\n   # nor a heading\n   ```",
        "2) step two",
        "Be brief.\nBe clear.",
        "- Sign them.",
        "- last",
    ]


def test_a_rule_knows_its_lines() -> None:
    lines = DOCUMENT.splitlines()
    for each in rules_in(SKILL):
        assert lines[each.line - 1 : each.last] == each.text.splitlines()


def test_leaving_out_a_bullet_leaves_everything_else() -> None:
    removed = "* no slashes\neven in quotes\n"
    assert rule("* no slashes").render() == DOCUMENT.replace(removed, "")
    assert rule("- last").render() == DOCUMENT.replace("- last\n", "")


def test_a_heading_goes_with_the_last_thing_below_it() -> None:
    assert "### Letters" not in rule("- Sign").render()
    assert "## Tone" in rule("- Sign").render()
    # Letters are still below it.
    assert "## Tone" in rule("Be brief").render()
    tone = [each for each in rules_in(SKILL) if each.text.startswith(("Be brief", "- Sign"))]
    left = without(SKILL, tone).render()
    assert "## Tone" not in left
    assert "step two\n\n<!-- SLOW" in left


def test_titles_and_what_leads_up_to_bullets_stay() -> None:
    bare = without(SKILL, rules_in(SKILL)).render()
    assert bare.startswith("---\nname: clerk\n---\n# Clerk\n\n## Dates\n\nHouse style:\n\nAsk if")
    assert "<!-- SLOW_UPDATE_START -->\n- protected\n<!-- SLOW_UPDATE_END -->" in bare


def test_of_two_equal_rules_either_can_go_alone() -> None:
    skill = Skill.parse("## A\n- same\n## B\n- same\n")
    first, second = rules_in(skill)
    assert without(skill, [first]).render() == "## B\n- same\n"
    assert without(skill, [second]).render() == "## A\n- same\n"


def test_a_package_has_the_rules_of_all_its_files() -> None:
    skill = Skill.parse("- main\n").with_reference(Reference("references/a.md", "# A\n\n- far\n"))
    assert [(each.file, each.line) for each in rules_in(skill)] == [
        ("SKILL.md", 1),
        ("references/a.md", 3),
    ]
    (reference,) = without(skill, [rules_in(skill)[1]]).references
    assert reference.text == "# A\n\n"


def test_what_would_turn_the_rest_into_something_else_stays() -> None:
    skill = Skill.parse("- a\n\n---\nname: x\n---\nrest\n")
    assert not skill.front
    assert without(skill, rules_in(skill)[:1]) == skill


def joined(*pieces: str) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=14).map("".join)


TEXT = joined(
    "- a", "- b\n", "  c\n", "\n", "\r\n", "# T\n", "## H\n", "```\n", "x\n", "\t", "---\n"
)


@st.composite
def skills(draw: st.DrawFn) -> Skill:
    front = draw(st.sampled_from(["", "---\nname: x\n---\n"]))
    guidance = draw(st.sampled_from(["", Region("guidance", draw(TEXT)).render()]))
    return Skill.parse(front + draw(TEXT) + guidance + draw(TEXT))


@given(skills(), st.data())
def test_only_the_chosen_rules_go_and_regions_never(skill: Skill, data: st.DataObject) -> None:
    rules = rules_in(skill)
    chosen = data.draw(st.sets(st.sampled_from(rules)) if rules else st.just(set[Rule]()))
    left = without(skill, chosen)
    assert Skill.parse(left.render()) == left
    assert (left.front, left.guidance) == (skill.front, skill.guidance)
    if not chosen:
        assert left == skill
    kept, before = worded(left.render()), worded(skill.render())
    assert kept <= before
    for each in rules:
        assert each in chosen or worded(each.text) <= kept


def worded(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()} - {""}


@given(skills())
def test_rules_do_not_overlap_and_stand_where_they_say(skill: Skill) -> None:
    lines = skill.render().split("\n")
    end = 0
    for each in rules_in(skill):
        assert each.line > end
        end = each.last
        assert each.text.split("\n")[0].strip() in lines[each.line - 1]


def test_what_stands_on_a_line_with_a_mark_is_no_rule_and_stays() -> None:
    marked = "- before <!-- SLOW_UPDATE_START -->g<!-- SLOW_UPDATE_END --> after\n- own\n- last"
    for skill in (Skill.parse(f"- one\n{marked}"), Skill.parse(f"---\na: b\n---\n- one\n{marked}")):
        assert texts(skill) == ["- one", "- own", "- last"]
        left = without(skill, rules_in(skill)).render()
        assert left.removeprefix("---\na: b\n---\n") == (
            "- before <!-- SLOW_UPDATE_START -->g<!-- SLOW_UPDATE_END --> after\n"
        )
    ends = Skill.parse("- one\n- before <!-- SLOW_UPDATE_START -->g<!-- SLOW_UPDATE_END -->")
    assert texts(ends) == ["- one"]


def test_a_heading_that_had_nothing_below_it_stays() -> None:
    skill = Skill.parse("## Empty\n## Tone\n- Be brief.\n")
    assert without(skill, rules_in(skill)).render() == "## Empty\n"


def test_only_blank_lines_between_two_that_are_left_out_are_drawn_together() -> None:
    skill = Skill.parse("- a\n\n- b\n\n\nprose\n\n- c\n\n\n- d\n")
    (gone,) = [each for each in rules_in(skill) if each.text == "- b"]
    assert without(skill, [gone]).render() == "- a\n\nprose\n\n- c\n\n\n- d\n"


def test_tabs_indent_by_four_and_text_below_a_bullet_needs_no_blank_line() -> None:
    assert texts(Skill.parse("- a\n\tb\n\n\tc\n- d\n")) == ["- a\n\tb\n\n\tc", "- d"]
    assert texts(Skill.parse("1.  a\n\n    b\n\n   c\n2. d\n")) == ["1.  a\n\n    b", "2. d"]
    assert texts(Skill.parse("lead\n- a\nstill a\n\nprose\n")) == ["- a\nstill a"]


def test_in_a_code_block_nothing_is_a_bullet_or_a_heading() -> None:
    fenced = "- a\n~~~\n- no\n# no\n```\n\n- no\n~~~~\n- b\n"
    assert texts(Skill.parse(fenced)) == ["- a\n~~~\n- no\n# no\n```\n\n- no\n~~~~", "- b"]
    assert texts(Skill.parse("```\n- no\n")) == ["```\n- no"]
