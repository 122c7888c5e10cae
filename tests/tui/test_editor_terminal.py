"""The policy editor in a real terminal: external editor and drafts after a kill."""

import ast
import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from tests.homes import Home
from tests.terminal import policy_editor

pytestmark = pytest.mark.slow

SCRIPT = """#!{python}
import os, pathlib, sys
path = pathlib.Path(sys.argv[-1])
text = path.read_text()
pathlib.Path({seen!r}).write_text(repr((oct(path.stat().st_mode & 0o777), oct(path.parent.stat().st_mode & 0o777),
                                        sys.argv[1:-1], str(path), os.isatty(0) and os.isatty(1))))
{work}
"""
F4, CTRL_Z = b"\x1bOS", b"\x1a"


def script(folder: Path, name: str, work: str) -> Path:
    """An editor that does its work at once and ends."""
    path = folder / name
    path.write_text(SCRIPT.format(python=sys.executable, seen=str(folder / "seen"), work=work))
    path.chmod(0o700)
    return path


def test_the_text_goes_to_the_editor_in_a_private_file_and_comes_back(demo: Home, tmp_path: Path) -> None:
    vim = script(tmp_path, "vim", "path.write_text(text.replace('roll-out', 'from outside'))")
    with policy_editor(demo, "enter", EDITOR=f"{vim} -n") as program:
        program.press("down", "down", "down", "down")
        program.write(F4)
        program.wait_for("allowed by rule 1 from outside")
        mode, folder, words, path, terminal = ast.literal_eval((tmp_path / "seen").read_text())
        assert (mode, folder, words, terminal) == ("0o600", "0o700", ["-n", "+5"], True)
        assert not Path(path).parent.exists()
        program.write(CTRL_Z)
        program.wait_for("allowed by rule 1 roll-out")


def test_an_editor_that_fails_loses_nothing(demo: Home, tmp_path: Path) -> None:
    folder = tmp_path / "a-folder-with-a-name-so-long-that-the-whole-path-fills-more-than-a-line-of-a-message"
    folder.mkdir()
    broken = script(folder, "broken", "")
    with policy_editor(demo, "enter", PATH=str(tmp_path), EDITOR="") as program:
        program.write(F4)
        program.wait_for("No editor: set EDITOR")
    with policy_editor(demo, "enter", EDITOR=str(broken)) as program:
        for work, message, name in (
            ("sys.exit(3)", "broken exited with 3: the text has not changed", "roll-out"),
            ("path.unlink()", "The file from broken cannot be read", "roll-out"),
            ("path.write_bytes(b'\\xff')", "cannot be read: not UTF-8", "roll-out"),
            (
                "path.write_text(text.replace('roll-out', 'half done')); sys.exit(1)",
                "broken exited with 1; its changes are here",
                "half done",
            ),
        ):
            script(folder, "broken", work)
            program.write(F4)
            program.wait_for(message)
            assert name in program.wait_for('"rules"')


def test_an_edit_that_is_not_utf_8_is_kept(demo: Home, tmp_path: Path) -> None:
    latin = script(tmp_path, "latin", "path.write_bytes(b'caf\\xe9')")
    with policy_editor(demo, "enter", EDITOR=str(latin), TMPDIR=str(tmp_path)) as program:
        program.write(F4)
        program.wait_for("cannot be read: not UTF-8")
        *_, path, _ = ast.literal_eval((tmp_path / "seen").read_text())
        program.wait_for("Your edit is in")
        assert Path(path).parent.name in "".join(program.text.split())
        assert Path(path).read_bytes() == b"caf\xe9"


def text_of(draft: Path) -> str:
    return str(json.loads(draft.read_text())["text"])


def test_a_draft_outlives_a_kill_and_is_offered_the_next_time(demo: Home) -> None:
    drafts, typed = demo.path / ".cli" / "drafts", '"1",  \n'
    with policy_editor(demo, "enter") as program:
        program.press("down", "end", *"  ")
        program.wait_for("unsaved")
        program.wait_until(lambda: any(typed in text_of(kept) for kept in drafts.glob("*.json")), "the draft")
        os.kill(program.pid, signal.SIGKILL)
        assert program.wait_end() == -signal.SIGKILL
    kept = next(drafts.glob("*.json"))
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert typed in text_of(kept)
    with policy_editor(demo, "enter") as program:
        program.wait_for("Unsaved draft of")
        program.press("r")
        program.wait_for("unsaved")
