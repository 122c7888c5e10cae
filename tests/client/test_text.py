"""Foreign text on a terminal."""

import unicodedata
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from client.text import MARKS, cut, mixed_scripts, safe, width, wrapped
from tests.effort import effort

NASTY = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b\x9b\x07\r\b\t\n\x00\x7f\u202e\u2066\u2028\u200b\u200d\ufe0f\u0301\u20e3\ud800\U000e0041"),
        st.sampled_from("日한👩👍🏽🇸❤◌ａ\u1160\u3164\xad"),
    )
)


@given(NASTY)
def test_safe_text_has_nothing_that_a_terminal_acts_on(text: str) -> None:
    whole = safe(text)
    assert not {unicodedata.category(one) for one in whole} & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert safe(whole) == whole
    assert width(whole) == cell_len(whole) == sum(cell_len(character) for character in whole)


@given(NASTY, st.integers(-1, 40))
def test_a_text_is_cut_only_when_it_does_not_fit_and_then_fits(text: str, cells: int) -> None:
    whole = safe(text)
    for shown in (safe(text, cells), cut(text, cells), cut(whole, cells)):
        assert width(shown) <= max(cells, 0)
    if cells > 0:
        assert (safe(text, cells) == whole) is (width(whole) <= cells)
        assert width(whole) <= cells or safe(text, cells).endswith("…")
        assert (cut(whole, cells) == whole) is (width(whole) <= cells)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Web Shop", "Web Shop"),
        ("Åäö — 日本", "Åäö — 日本"),
        ("evil\x1b]0;PWNED\x07\x1b[31m", "evil␛]0;PWNED␇␛[31m"),
        ("\x1b]52;c;ZXZpbA==\x1b\\", "␛]52;c;ZXZpbA==␛\\"),
        ("\x1b]8;;https://evil.example\x07x", "␛]8;;https://evil.example␇x"),
        ("a\r\b\t\f\x00\x7f\n", "a␍␈␉␌␀␡␊"),
        ("\x9b31m", "‹U+009B›31m"),
        ("a\u202eb\u2067c", "a‹U+202E›b‹U+2067›c"),
        ("a\u200bb\u2028c\u2029\ufeff", "a‹U+200B›b‹U+2028›c‹U+2029›‹U+FEFF›"),
        ("\ud800", "‹U+D800›"),
        ("a\ufe00", "a‹U+FE00›"),
        ("❤️", "❤"),
        ("a️", "a‹U+FE0F›"),
        ("👩‍👧", "👩‹U+200D›👧"),
        ("\u0301x", "◌\u0301x"),
        ("ㅤ", "‹U+3164›"),
        ("\U000e0041", "‹U+E0041›"),
        ("[bold red]DELETED[/]", "[bold red]DELETED[/]"),
    ],
)
def test_text_is_shown_as(text: str, shown: str) -> None:
    assert safe(text) == shown


def test_marks_and_wide_characters_are_kept_or_left_out_whole() -> None:
    assert safe("e" + "\u0301" * 300 + "x") == "e" + "\u0301" * MARKS + f"‹+{300 - MARKS} marks›x"
    assert [safe(7), safe(None), safe(b"\x1b")] == ["7", "None", "b'\\x1b'"]
    assert [cut("日本語", cells) for cells in range(1, 7)] == ["…", "…", "日…", "日…", "日本…", "日本語"]
    assert cut("e\u0301e\u0301e\u0301", 2) == "e\u0301…"


def test_a_megabyte_is_cut_within_a_frame() -> None:
    for text in ("x" * 2**20, "é" * 2**20, "\x1b" * 2**20, "e" + "\u0301" * 10_000):
        result, taken = effort(partial(safe, text, 80))
        assert width(result) <= 80
        assert taken < 20


def test_look_alike_letters_of_two_scripts_in_a_word_are_noticed() -> None:
    words = ("Prоd", "my ｐrod", "Prod", "Прод", "Prod Прод", "日本prod 7")
    assert [word for word in words if mixed_scripts(word)] == ["Prоd", "my ｐrod"]


@pytest.mark.parametrize(
    ("text", "cells", "lines"),
    [
        ("", 10, [""]),
        ("one two three", 8, ["one two", "three"]),
        ("a name  (a group)", 40, ["a name  (a group)"]),
        ("on frn:secrets:*:*:secrets/checkout-*", 30, ["on frn:secrets:*:*:secrets/", "checkout-*"]),
        ("on frn:secrets:*:*:secrets/a-rather-long-name", 26, ["on frn:secrets:*:*:", "secrets/a-rather-long-name"]),
        ("a line frn:secrets:*:*:secrets/a-name", 18, ["a line frn:", "secrets:*:*:", "secrets/a-name"]),
        ("compute:instances:read-console-output", 30, ["compute:instances:", "read-console-output"]),
        ("x" * 25, 10, ["x" * 10, "x" * 10, "x" * 5]),
        ("x" * 20 + " y", 10, ["x" * 10, "x" * 10, "y"]),
        ("日本 語" + "本" * 6, 10, ["日本", "語本本本本", "本本"]),
    ],
)
def test_a_long_word_is_cut_after_a_colon_or_a_slash(text: str, cells: int, lines: list[str]) -> None:
    assert wrapped(text, cells) == lines
