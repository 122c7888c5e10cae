"""JSON, YAML and tables as text."""

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from client.commands.formats import json_text, table_text, yaml_text
from client.text import safe, width

TRAPS = [
    "", " ", "yes", "No", "null", "~", "on", "1e3", "0x1f", "0o17", "1_000", ".5", "-1", "+1", "1.", ".inf", "=", "<<",
    "2026-11-21", "12:30:45", "- a", "a: b", "a #b", "# x", "a:", "'", '"', "\\", "@x", "`x", "%x", "!x", "&x", "*x",
    "[", "{", "|", ">", "? x", ",", "a\nb", "a\r\n", "\t", "  x ", "Web Shop", "e1", "\x00", "\x1b[31m", "\x7f", "\x85",
    "\x9b", "\u2028", "\u202e", "\u200d", "\ufeff", "\uffff", "\ud800", "\udfff\ud800", "\U000e0041", "👩‍👩‍👧", "É",
]  # fmt: skip
ID = "0192f7c1-5a3e-7b60-9d2f-3c5a8e7b1d04"
texts = st.text(st.characters(), max_size=20) | st.sampled_from(TRAPS)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
keys = texts | st.text(min_size=500, max_size=1200)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
ACTORS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0001-\U000e007f]"
)


@pytest.mark.slow
@settings(max_examples=400)
@given(values)
def test_json_and_yaml_round_trip_without_terminal_controls(value: Any) -> None:
    for text, read in ((json_text(value), json.loads), (yaml_text(value), yaml.safe_load)):
        assert read(text) == value
        assert not ACTORS.search(text)
        text.encode()
    for text, read in (
        (json_text(value, ascii_only=True), json.loads),
        (yaml_text(value, ascii_only=True), yaml.safe_load),
    ):
        assert read(text) == value
        assert text.isascii()


@pytest.mark.parametrize("text", [text for text in TRAPS if not re.search("[\ud800-\udfff]", text)])
def test_a_yaml_1_2_reader_sees_the_same_text(text: str) -> None:
    value = {"items": [{text: text}, [[text]], text]}
    assert YAML(typ="safe", pure=True).load(yaml_text(value)) == value


@pytest.mark.parametrize("number", [1e22, -1e-07, 1.5e300, 0.1, 10**30, -0.0])
def test_a_number_stays_a_number_in_yaml(number: float) -> None:
    read = yaml.safe_load(yaml_text({"n": number}))["n"]
    assert read == number
    assert type(read) is type(number)


def test_names_in_other_scripts_are_not_escaped() -> None:
    assert json_text({"name": "Ärger 日本"}) == '{\n  "name": "Ärger 日本"\n}'
    assert yaml_text({"name": "Ärger 日本"}) == 'name: "Ärger 日本"'


def test_columns_are_aligned_and_cut_with_a_mark_only_to_a_terminals_width() -> None:
    names = [safe(name) for name in ("plain", "日本語", "e\u0301" * 6, "👩‍👩‍👧", "a\u202eb", "x" + "\u0300" * 200)]
    lines = table_text(["NAME", "ID"], [[name, "|"] for name in names]).splitlines()
    assert len({width(line.rpartition("|")[0]) for line in lines[1:]}) == 1
    lines = table_text(["N", "X"], [["7", "a"], ["1024", "b"]], right=[True]).splitlines()
    assert lines == ["   N  X", "   7  a", "1024  b"]
    rows = [["x" * 10_000, ID]]
    assert "x" * 10_000 in table_text(["NAME", "ID"], rows)
    line = table_text(["NAME", "ID"], rows, keep=[False, True], limit=60).splitlines()[1]
    assert (width(line), line.endswith(f"…  {ID}")) == (60, True)


@pytest.mark.parametrize("limit", [52, 56, 60, 100])
def test_a_table_fits_a_terminal_wide_enough_for_its_ids(limit: int) -> None:
    heads, row = ["ORGANIZATION", "ID", "N"], ["日本語" * 9, ID, "7"]
    lines = table_text(heads, [row], keep=[False, True, True], limit=limit).splitlines()
    assert all(width(line) <= limit for line in lines)
    assert lines[1].endswith(f"  {ID}  7")


@pytest.mark.parametrize("limit", [1, 20, 40, 46])
def test_an_id_is_whole_on_the_narrowest_terminal(limit: int) -> None:
    row = table_text(["NAME", "ID"], [["日本語" * 9, ID]], keep=[False, True], limit=limit).splitlines()[1]
    assert row.endswith(f"…  {ID}") or row.endswith(f"…   {ID}")
    assert width(row) <= 10 + 2 + len(ID)
