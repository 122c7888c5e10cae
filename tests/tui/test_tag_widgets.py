"""The form of a default tag, and the dialogs about a set."""

from textual.content import Content
from textual.events import Paste
from textual.widgets import Static

from client.models.validation import Problem
from tests.tui.alone import Alone, asked
from tests.tui.screens import listened
from tui.default_tags.dialogs import ListingConfirm, TagConflict, TagForm, problem_text
from tui.state.tag_draft import TagDraft


def form(draft: TagDraft, tag: tuple[str, str] = ("", ""), instead_of: str = "") -> TagForm:
    return TagForm("New tag", tag, draft, instead_of, count="3/10 tags")


def paste(app: Alone, text: str) -> None:
    assert app.screen.focused is not None
    app.screen.focused.post_message(Paste(text))


async def test_bytes_are_counted_while_typing() -> None:
    dialog = form(TagDraft({}, 1))
    async with asked(dialog) as (app, pilot):
        await pilot.press(*"cost_center", "tab", *"eu7")
        assert "11/64 bytes" in app.text
        assert "3/255 bytes" in app.text
        dialog._entry("value").value = "ö" * 128
        await pilot.pause()
        assert "256/255 bytes" in app.text
        assert "a value has at most 255 bytes, not 256" in app.text
        await pilot.press("enter")
        assert app.answer == "none yet", "a tag that is refused was put"


BROKEN = (
    ("OS_Type", "", "keys that start with os_ are reserved"),
    ("Customer-Id", "", "this key is reserved"),
    ("team/owner", "", "character 5: team►/"),
    ("-lead", "", "character 1: ►-"),
    ("trail.", "", "starts and ends with a letter or digit"),
    ("k", 'a"b', 'character 2: a►"'),
    ("k", "x\tz", "character 2: x►␉"),
    ("a b", "", "character 2: a►␠"),
    ("k", "a\u202eb", "‹U+202E›"),
    ("env", "", "exists already"),
    ("x" * 65, "", "a key has 1 to 64 bytes, not 65"),
    ("", "v", "a key has 1 to 64 bytes, not 0"),
)


async def test_a_broken_rule_is_named_while_typing() -> None:
    dialog = form(TagDraft({"env": "prod"}, 1))
    async with asked(dialog) as (app, pilot):
        for key, value, words in BROKEN:
            dialog._entry("key").value, dialog._entry("value").value = key, value
            await pilot.pause()
            assert words in " ".join(str(dialog.query_one(".tag--problem", Static).content).split())
            await pilot.press("enter")
            assert app.answer == "none yet"


async def test_what_the_rules_allow_is_the_answer() -> None:
    async with asked(form(TagDraft({}, 1))) as (app, pilot):
        await pilot.press(*"eq", "equals_sign", *"x", "equals_sign", *"y", "enter")
        await pilot.pause()
        assert app.answer == {"eq": "x=y"}
        for key, value in (("a", ""), ("cost-center", "eu.team:42"), ("x" * 64, "v" * 255)):
            dialog = form(TagDraft({}, 1))
            app.ask(dialog)
            await pilot.pause()
            dialog._entry("key").value, dialog._entry("value").value = key, value
            await pilot.press("enter")
            await pilot.pause()
            assert app.answer == {key: value}


async def test_pasted_lines_are_all_added_or_none() -> None:
    dialog = form(TagDraft({"env": "prod"}, 1))
    async with asked(dialog) as (app, pilot):
        for text, words in (
            ("a=1\nbad key=2", ("line 2", "character 4: bad►␠", "nothing was added")),
            ("a=1\nteam", ("line 2", "expected key=value", "nothing was added")),
            (
                "\n".join(f"k{number}=" for number in range(11)),
                ("at most 10 default tags, not 12", "nothing was added"),
            ),
        ):
            paste(app, text)
            await pilot.pause()
            for word in words:
                assert word in str(dialog.query_one(".tag--problem", Static).content)
            assert app.answer == "none yet"
        paste(app, "env=dev\n\n  team = web=1 \r\nempty=\n")
        await pilot.pause()
        assert app.answer == {"env": "dev", "team": "web=1", "empty": ""}
        app.ask(form(TagDraft({}, 1)))
        await pilot.pause()
        paste(app, "one=line\n")
        await pilot.pause()
        assert isinstance(app.screen, TagForm)
        assert app.screen.texts == ("one", "line")


async def test_the_form_fits_its_longest_words() -> None:
    dialog = form(TagDraft({}, 1), ("x" * 64, "v" * 300))
    async with asked(dialog) as (app, pilot):
        dialog._entry("key").value = "x" * 30 + "/" + "y" * 30
        await pilot.pause()
        texts = ("61/64 bytes", "300/255 bytes", "character 31", "starts and ends", "digit", "3/10 tags", "Cancel")
        assert [words for words in texts if words not in app.text] == []
        assert app.text.splitlines()[-1].strip()[:1] in "╰", app.text


def test_a_stray_character_is_shown_deep_in_a_text() -> None:
    problem = Problem("value_charset", "rule", "k", 200)
    words = problem_text(problem, "k", "a" * 200 + "\x1b" + "b")
    assert words.splitlines()[0] == "character 201: aaaaaaaaaaaa►␛"
    assert problem_text(None, "k", "") == ""


async def test_a_conflict_shows_both_sides_and_enter_cancels() -> None:
    theirs = [Content(f"+ k{number} = theirs") for number in range(10)]
    ours = [Content(f"~ k{number} = ours") for number in range(10)]
    async with asked(TagConflict("Version 4 was stored by [/x] Jonas.", theirs, ours)) as (app, pilot):
        for words in ("[/x] Jonas", "Their changes", "+ k0 = theirs", "Keep editing", "Merge", "Overwrite", "Esc keep"):
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


async def test_a_question_with_lines_uses_a_wide_terminal() -> None:
    line = "bucket  8 would change, 3 skipped, 1 would fail  over its tag limit, changed since, deleted"
    dialog = ListingConfirm("Apply?", [], [Content(line)], yes="Apply", wrap=False)
    async with asked(dialog, size=(200, 50)) as (app, pilot):
        assert line in app.text
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert line not in app.text
        assert "…" in app.text


async def test_a_long_question_scrolls_and_keeps_its_buttons() -> None:
    facts = [("Tenant", "Web Shop"), ("Effect", "adds only; " * 9)]
    lines = [Content(f"line {number} end") for number in range(60)]
    async with asked(ListingConfirm("Apply?", facts, lines, yes="Apply"), size=(60, 16)) as (app, pilot):
        assert "line 0 end" in app.text
        assert "n or Esc cancel" in app.text, app.text
        await pilot.press(*["pagedown"] * 8)
        await pilot.pause()
        assert "line 59 end" in app.text, app.text
        assert "Apply" in app.text
        await pilot.press("enter")
        await pilot.pause()
        assert app.answer is False
