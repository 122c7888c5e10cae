"""Standard output, standard error, the escaping of foreign text, and the formats JSON, YAML and table."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from client.commands.formats import json_text, table_text, yaml_text
from client.commands.output import Output
from client.errors import Exit, FrostError
from client.tables.columns import TENANT
from client.text import safe, width

EVIL = "evil\x1b]0;PWNED\x07\x1b[31m\r\b\t\f\x00\x9b31m\x1b]52;c;cHduZWQ=\x1b\\\u202e\u2028"
RECORD = {"id": "4793d4e5-9e63-4ff7-8783-9bb3aca1f5d5", "displayName": EVIL, "status": EVIL, "slug": "s"}


class Terminal(io.StringIO):
    """A stream that reports to be a terminal."""

    def isatty(self) -> bool:
        return True


def raw_controls(text: str) -> set[str]:
    return {character for character in text if character != "\n" and not character.isprintable()}


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_no_control_character_of_data_reaches_standard_output(capsys: pytest.CaptureFixture[str], form: str) -> None:
    output = Output(form)
    output.record(TENANT, RECORD, source=EVIL)
    output.records(TENANT, [RECORD], marked=RECORD["id"])
    output.facts({"name": EVIL}, [("name", EVIL)])
    out = capsys.readouterr().out
    assert "evil" in out
    assert not raw_controls(out)


def test_no_control_character_of_data_reaches_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("table", "json"):
        output = Output(form)
        output.error(FrostError(EVIL, code=EVIL, hint=EVIL, request_id=EVIL, details={EVIL: EVIL}, status=500))
        output.note(EVIL)
        output.warn(EVIL)
        output.say(EVIL)
        output.debug(EVIL)
        output.prompt(EVIL)
    assert not raw_controls(capsys.readouterr().err)


def test_an_error_is_one_line_with_its_hint_or_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    Output().error(FrostError("there is no tenant 'x'", code="NOT_FOUND", hint="see: frost tenant list"))
    Output().error(FrostError("it broke.", code="INTERNAL", hint="frost whoami tells", status=500, request_id="r-1"))
    assert capsys.readouterr().err == (
        "frost: there is no tenant 'x'. See: frost tenant list\nfrost: it broke (request r-1). frost whoami tells\n"
    )
    members = {"code": "C", "message": "no", "hint": "h", "requestId": "r", "details": {"a": [1]}}
    error = FrostError("no", code="C", hint="h", request_id="r", details={"a": [1]}, exit_code=Exit.CONFLICT)
    Output("json").error(error)
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n"), json.loads(captured.err)) == ("", 1, {"error": members})


def test_quiet_hides_hints_and_done_sentences_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(quiet=True)
    output.note("hint")
    output.done("done", {})
    assert capsys.readouterr() == ("", "")
    output.warn("careful")
    output.record(TENANT, RECORD)
    output.error(FrostError("bad", code="C"))
    captured = capsys.readouterr()
    assert "evil" in captured.out
    assert "careful" in captured.err
    assert "bad" in captured.err


def test_done_and_lists_are_text_or_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    Output().done("it is done", {"a": 1})
    assert capsys.readouterr() == ("", "it is done\n")
    Output("json").done("it is done", {"a": 1})
    assert json.loads(capsys.readouterr().out) == {"a": 1}
    Output("json").records(TENANT, [{"id": "1"}], more_members={"nextCursor": "c"})
    assert json.loads(capsys.readouterr().out) == {"items": [{"id": "1"}], "nextCursor": "c"}
    Output("json").records(TENANT, [])
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ({"items": []}, "")
    Output().records(TENANT, [])
    out, err = capsys.readouterr()
    assert (out.split(), err) == (["NAME", "STATUS", "SLUG", "ID", "ORGANIZATION"], "no tenants\n")
    Output().records(TENANT, [{"id": "1", "displayName": "a"}, {"id": "2", "displayName": "b"}], marked="2")
    heads, first, second = capsys.readouterr().out.splitlines()
    assert (heads[:2], first[:3], second[:3]) == ("  ", "  a", "* b")


@pytest.mark.parametrize(
    ("no_color", "environment", "coloured"),
    [(False, {}, True), (True, {}, False), (False, {"NO_COLOR": "1"}, False), (False, {"NO_COLOR": ""}, True),
     (False, {"TERM": "dumb"}, False)],
)  # fmt: skip
def test_only_a_terminal_is_coloured_and_only_when_wanted(
    monkeypatch: pytest.MonkeyPatch, no_color: bool, environment: dict[str, str], coloured: bool
) -> None:
    for name, value in {"NO_COLOR": "", "TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    streams = {"stdout": Terminal(), "stderr": Terminal()}
    for name, stream in streams.items():
        monkeypatch.setattr(sys, name, stream)
    output = Output(no_color=no_color)
    output.records(TENANT, [{"id": "1"}])
    output.error(FrostError("bad", code="C"))
    for stream in streams.values():
        assert ("\x1b" in stream.getvalue()) is coloured


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "0"}, False), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
)
def test_force_color_colours_a_pipe_unless_colours_are_off(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool
) -> None:
    for name, value in {"NO_COLOR": "", "TERM": "xterm", **environment}.items():
        monkeypatch.setenv(name, value)
    Output().records(TENANT, [{"id": "1"}])
    assert ("\x1b" in capsys.readouterr().out) is coloured


def test_nothing_is_coloured_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    Output().records(TENANT, [{"id": "1"}])
    assert "\x1b" not in capsys.readouterr().out


def test_characters_outside_the_encoding_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii", write_through=True))
    Output().text("— É")
    Output("json").document({"n": "É"})
    assert written.getvalue() == b'\\u2014 \\xc9\n{\n  "n": "\\u00c9"\n}\n'


@pytest.mark.process
def test_a_full_disk_is_one_error_line_and_a_reader_that_has_left_none(tmp_path: Path) -> None:
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as full:
            done = run(["--version"], tmp_path, stdout=full)
        message = b"frost: the output could not be written: No space left on device\n"
        assert (done.returncode, done.stderr) == (1, message)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = run(["config", "show"], tmp_path, stdout=pipe)
    assert (done.returncode, done.stderr) == (141, b"")


def run(words: list[str], home: Path, stdout: Any = subprocess.PIPE) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tui", *words]
    return subprocess.run(command, env={"HOME": str(home)}, stdout=stdout, stderr=subprocess.PIPE, check=False)


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


@pytest.mark.parametrize("limit", [1, 20, 40, 46])
def test_an_id_is_whole_on_the_narrowest_terminal(limit: int) -> None:
    row = table_text(["NAME", "ID"], [["日本語" * 9, ID]], keep=[False, True], limit=limit).splitlines()[1]
    assert row.endswith(f"…  {ID}") or row.endswith(f"…   {ID}")
    assert width(row) <= 10 + 2 + len(ID)
