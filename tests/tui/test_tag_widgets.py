"""The form of one default tag, its bytes and its rules, and the dialogs that decide about a whole set."""

from typing import Any

import pytest
from textual.app import App
from textual.content import Content
from textual.widgets import Static

from client.models.validation import Problem
from tests.tui.screens import listened
from tui.default_tags.dialogs import ListingConfirm, TagConflict, TagForm, problem_text
from tui.state.tag_draft import TagDraft

SIZES = [(80, 24), (120, 36)]


class Alone(App[None]):
    """A dialog over nothing."""

    answer: Any = "none yet"

    def ask(self, dialog: Any) -> None:
        self.push_screen(dialog, lambda answer: setattr(self, "answer", answer))

    @property
    def text(self) -> str:
        return "\n".join(strip.text.rstrip() for strip in self.screen._compositor.render_strips())


def form(draft: TagDraft, tag: tuple[str, str] = ("", ""), instead_of: str = "") -> TagForm:
    return TagForm("New tag", tag, lambda key, value: draft.problem_of(key, value, instead_of), count="3/10 tags")


async def test_bytes_are_counted_as_typed_and_a_text_too_long_says_so() -> None:
    app = Alone()
    async with app.run_test(size=(80, 24)) as pilot:
        dialog = form(TagDraft({}, 1))
        app.ask(dialog)
        await pilot.pause()
        await pilot.press(*"cost-center".replace("-", "!").replace("!", "_"), "tab", *"eu7")
        assert "11/64 bytes" in app.text
        assert "3/255 bytes" in app.text
        dialog._entry("value").value = "ö" * 128
        await pilot.pause()
        assert "256/255 bytes" in app.text
        assert "a value has at most 255 bytes, not 256" in app.text
        await pilot.press("enter")
        assert app.answer == "none yet", "a tag that is refused was put"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("OS_Type", "", "keys that begin with os_ are reserved"),
        ("Customer-Id", "", "this key is reserved"),
        ("team/owner", "", "character 5: team►/"),
        ("-lead", "", "character 1: ►-"),
        ("trail.", "", "begins and ends with a letter or digit"),
        ("k", 'a"b', 'character 2: a►"'),
        ("k", "x\tz", "character 2: x►␉"),
        ("k", "a\u202eb", "‹U+202E›"),
        ("env", "", "in the set already"),
        ("x" * 65, "", "a key has 1 to 64 bytes, not 65"),
        ("", "v", "a key has 1 to 64 bytes, not 0"),
    ],
)
async def test_each_rule_is_told_while_typing_in_its_own_words(key: str, value: str, words: str) -> None:
    app = Alone()
    async with app.run_test(size=(80, 24)) as pilot:
        dialog = form(TagDraft({"env": "prod"}, 1))
        app.ask(dialog)
        await pilot.pause()
        dialog._entry("key").value, dialog._entry("value").value = key, value
        await pilot.pause()
        assert words in " ".join(str(dialog.query_one(".tag--problem", Static).content).split())
        await pilot.press("enter")
        assert app.answer == "none yet"


@pytest.mark.parametrize(("key", "value"), [("a", ""), ("cost-center", "eu.team:42"), ("x" * 64, "v" * 255)])
async def test_what_the_rules_allow_is_given_back(key: str, value: str) -> None:
    app = Alone()
    async with app.run_test() as pilot:
        dialog = form(TagDraft({}, 1))
        app.ask(dialog)
        await pilot.pause()
        dialog._entry("key").value, dialog._entry("value").value = key, value
        await pilot.press("enter")
        await pilot.pause()
        assert app.answer == (key, value)


async def test_a_tag_typed_as_a_command_takes_it_is_parted_at_the_first_equals_sign() -> None:
    app = Alone()
    async with app.run_test() as pilot:
        app.ask(form(TagDraft({}, 1)))
        await pilot.pause()
        await pilot.press(*"eq", "equals_sign", *"x", "equals_sign", *"y", "enter")
        await pilot.pause()
        assert app.answer == ("eq", "x=y")


@pytest.mark.parametrize("size", SIZES)
async def test_the_form_has_room_for_its_longest_words_and_nothing_is_clipped(size: tuple[int, int]) -> None:
    app = Alone()
    async with app.run_test(size=size) as pilot:
        dialog = form(TagDraft({}, 1), ("x" * 64, "v" * 300))
        app.ask(dialog)
        await pilot.pause()
        dialog._entry("key").value = "x" * 30 + "/" + "y" * 30
        await pilot.pause()
        for words in (
            "61/64 bytes",
            "300/255 bytes",
            "character 31",
            "begins and ends",
            "digit",
            "3/10 tags",
            "Cancel",
        ):
            assert words in app.text, app.text
        assert app.text.splitlines()[-1].strip()[:1] in "╰", app.text


def test_where_the_stray_character_stands_is_shown_also_deep_in_a_text() -> None:
    problem = Problem("value_charset", "rule", "k", 200)
    words = problem_text(problem, "k", "a" * 200 + "\x1b" + "b")
    assert words.splitlines()[0] == "character 201: aaaaaaaaaaaa►␛"
    assert problem_text(None, "k", "") == ""


@pytest.mark.parametrize("size", SIZES)
async def test_a_conflict_shows_theirs_and_ours_and_enter_leaves_everything(size: tuple[int, int]) -> None:
    theirs = [Content(f"+ k{number} = theirs") for number in range(10)]
    ours = [Content(f"~ k{number} = ours") for number in range(10)]
    app = Alone()
    async with app.run_test(size=size) as pilot:
        app.ask(TagConflict("Version 4 was stored by [/x] Jonas.", theirs, ours))
        await listened(pilot)
        for words in (
            "[/x] Jonas",
            "What they changed",
            "+ k0 = theirs",
            "Leave it",
            "Merge",
            "Overwrite",
            "Esc keeps",
        ):
            assert words in app.text, app.text
        await pilot.press(*["down"] * 12)
        assert "k9 = ours" in app.text
        await pilot.press("enter")
        await pilot.pause()
        assert app.answer is None
        for key, way in (("m", "merge"), ("o", "overwrite")):
            app.ask(TagConflict("Version 4", [], []))
            await listened(pilot)
            await pilot.press(key)
            await pilot.pause()
            assert app.answer == way


@pytest.mark.parametrize("size", [(60, 16), *SIZES])
async def test_a_question_with_many_lines_keeps_its_buttons_and_scrolls_to_the_last(size: tuple[int, int]) -> None:
    facts = [("Tenant", "Web Shop"), ("Effect", "adds only; " * 9)]
    app = Alone()
    async with app.run_test(size=size) as pilot:
        app.ask(ListingConfirm("Apply?", facts, [Content(f"line {n} end") for n in range(60)], yes="Apply"))
        await listened(pilot)
        assert "line 0 end" in app.text
        assert "n or Esc No" in app.text, app.text
        await pilot.press(*["pagedown"] * 8)
        await pilot.pause()
        assert "line 59 end" in app.text, app.text
        assert "Apply" in app.text
        await pilot.press("enter")
        await pilot.pause()
        assert app.answer is False
