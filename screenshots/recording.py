"""`python -m screenshots.recording` records a session of the running program as an asciinema v2 file.

Default tags of the demo world are edited, previewed, saved and applied, on a terminal of its own. What asciinema needs
is one line for the terminal and one for each piece of output, so nothing else is needed to write it; a pause is never
longer than `PAUSE`. Play it with `asciinema play screenshots/default-tags.cast`.
"""

import codecs
import json
import sys
from pathlib import Path

from tests.homes import Home
from tests.terminal import Program

FILE = Path(__file__).parent / "default-tags.cast"
COLUMNS, ROWS = 80, 24
PAUSE = 1.2
"""Seconds a pause in the recording lasts at most."""
LETTER, LOOK = 0.09, 1.1
"""Seconds between two letters, and for something to be read."""


def written(program: Program) -> list[str]:
    """The lines of the file: when each piece of output came, pauses cut."""
    head = {
        "version": 2,
        "width": COLUMNS,
        "height": ROWS,
        "title": "frost: default tags",
        "env": {"TERM": "xterm-256color"},
    }
    lines = [json.dumps(head)]
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    at, before = 0.0, program.chunks[0][0]
    for came, data in program.chunks:
        at += min(PAUSE, came - before)
        before = came
        if text := decode(data):
            lines.append(json.dumps([round(at, 3), "o", text], ensure_ascii=False))
    return lines


def typed(program: Program, words: str) -> None:
    """Words as a person types them."""
    for letter in words:
        program.write(letter.encode())
        program.until_quiet(LETTER, LETTER * 3)


def looked(program: Program, words: str) -> None:
    """Something that came, and a moment to read it."""
    program.wait_for(words, 60)
    program.until_quiet(LOOK, LOOK * 2)


def session(program: Program) -> None:
    """A tag is added and one changed, the apply tried, the set saved, applied, and what failed looked at."""
    looked(program, "Data Lake")
    typed(program, ":default-tags\r")
    looked(program, "4/10 tags")
    typed(program, "n")
    looked(program, "New tag")
    typed(program, "os_image")
    looked(program, "are reserved")
    typed(program, "\x7f" * 8 + "stage=blue/2")
    looked(program, "6/255")
    typed(program, "\r")
    looked(program, "+ stage")
    typed(program, "p")
    looked(program, "by the draft")
    typed(program, "jjj")
    typed(program, "\x1b")
    looked(program, "+ stage")
    typed(program, "w")
    looked(program, "Save default tags?")
    typed(program, "y")
    looked(program, "5/10 tags")
    typed(program, "a")
    looked(program, "Apply default tags?")
    typed(program, "y")
    looked(program, "applying")
    typed(program, "3")
    looked(program, "contractors")
    typed(program, ":apply\r")
    looked(program, "✓ applied")
    typed(program, "f")
    looked(program, "Failures and skips")
    typed(program, "/what:failed\r")
    looked(program, "of 2")
    typed(program, "\x1b\x1b\x1b")


def main() -> int:
    home = Home(FROST_PLATFORM_PROVISIONING_PACE="100000", FROST_PLATFORM_APPLY_PACE="0.2")
    try:
        home.start()
        environment = home.environment({"COLORTERM": "256color"})  # fewer bytes than a true colour for every cell
        program = Program([sys.executable, "-m", "tui"], COLUMNS, ROWS, env=environment, inherit=False)
        try:
            session(program)
            FILE.write_text("\n".join(written(program)) + "\n")
        finally:
            program.close(b"q")
    finally:
        home.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
