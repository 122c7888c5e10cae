"""The only writer of a command's standard output and standard error, and questions at the terminal.

Standard output has the data: a record, a list or lines of text in the requested format. Standard error has errors,
warnings and, without `--quiet`, hints. Control characters in external text become visible symbols in tables and
messages, on a terminal or not; JSON and YAML preserve the text exactly, with escapes.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

from client.commands.formats import json_text, table_text, yaml_text
from client.errors import FrostError, usage
from client.tables.columns import UNKNOWN, Kind, Record
from client.tables.columns import columns as columns_of
from client.text import safe

_ACCENT = "\x1b[36m"
OUTPUT_FAILED = "OUTPUT_FAILED"
_PLAIN = "\x1b[39m"
_ECHO = 4
ANSWER_SECONDS = 0.1
"""How long an answer may take to arrive on standard input without a terminal."""
_EXPLAINED = {
    "AMBIGUOUS_NAME": "client.name_lookup:ambiguous_lines",
    "INVALID_POLICY_DOCUMENT": "client.texts.refusals:problem_lines",
    "POLICY_EXCEEDS_AUTHOR": "client.texts.refusals:beyond_lines",
    "PRINCIPAL_EXCEEDS_AUTHOR": "client.texts.refusals:beyond_lines",
    "STALE_VERSION": "client.texts.refusals:stale_lines",
}
"""Error code to the `module:function` that returns safe lines about the error's details."""

Fact = tuple[str, ...]
"""A row of a table of facts: name, value and a cell for each further heading."""


class Output:
    """The output of one command.

    Args:
        format: `table`, `wide`, `json` or `yaml`.
        quiet: Omit hints, progress and success messages.
        no_color: Disable colours. Without it, only terminals get colours, unless NO_COLOR is set or TERM is `dumb`.
            With FORCE_COLOR, files and pipes get them too.
        complete: Adds the flags of this command to the commands in a message.
    """

    def __init__(
        self,
        format: str = "table",
        *,
        quiet: bool = False,
        no_color: bool = False,
        complete: Callable[[str], str] = str,
    ) -> None:
        self.format = format
        self.quiet = quiet
        self._complete = complete
        self._progress_cells = 0
        self._no_color = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
        self._force_color = os.environ.get("FORCE_COLOR", "") not in ("", "0")

    @property
    def structured(self) -> bool:
        """Whether standard output is one JSON or YAML document."""
        return self.format in ("json", "yaml")

    @property
    def wide(self) -> bool:
        """Whether the output has all columns."""
        return self.format == "wide"

    # --- data --------------------------------------------------------------------------------------------------------

    def document(self, value: Any) -> None:
        """Print a value as the document of standard output, in YAML or JSON."""
        ascii_only = not _writes(sys.stdout, "é日")
        text = (
            yaml_text(value, ascii_only=ascii_only)
            if self.format == "yaml"
            else json_text(value, ascii_only=ascii_only)
        )
        _write(sys.stdout, text)

    def text(self, text: str) -> None:
        """Print text unchanged: help, scripts and escaped JSON, but no other external text."""
        _write(sys.stdout, text)

    def lines(self, lines: Iterable[str]) -> None:
        """Print lines that may contain external text."""
        _write(sys.stdout, "\n".join(map(safe, lines)))

    def records(
        self,
        kind: Kind,
        items: Sequence[Record],
        *,
        marked: str | None = None,
        more_members: Mapping[str, Any] | None = None,
    ) -> None:
        """Print a list: `{"items": […]}` with `more_members`, or a table with a star at the id `marked`."""
        if self.structured:
            self.document({"items": list(items), **(more_members or {})})
        else:
            self._table(kind, items, marked)
            if not items:
                self.note(f"no {kind.plural}")

    def record(self, kind: Kind, item: Record, **more: str) -> None:
        """Print a record. `more` has further members of the document, or further columns of the table."""
        if self.structured:
            self.document({**item, **more})
        else:
            self._table(kind, [item], None, more)

    def facts(
        self, document: Mapping[str, Any], facts: Sequence[Fact], heads: Sequence[str] = ("FACT", "VALUE")
    ) -> None:
        """Print the document, or a table with a row for each fact."""
        if self.structured:
            self.document(dict(document))
        else:
            rows = [[safe(text) if text else UNKNOWN for text in fact] for fact in facts]
            # Facts are not truncated: they may be ids or paths.
            _write(sys.stdout, self._accented_heads(table_text(heads, rows)))

    def done(self, sentence: str, document: Mapping[str, Any]) -> None:
        """Print the result of a change without a table: a sentence, or the document."""
        if self.structured:
            self.document(dict(document))
        else:
            self.note(sentence)

    def _table(
        self,
        kind: Kind,
        items: Sequence[Record],
        marked: str | None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        columns = columns_of(kind, self.wide)
        more = more or {}
        heads = [column.title.upper() for column in columns] + [name.upper() for name in more]
        rows = [[safe(column.text(record)) for column in columns] + list(map(safe, more.values())) for record in items]
        right = [column.align == "right" for column in columns]
        keep = [column.whole or column.align == "right" for column in columns]
        if marked is not None:
            heads[0] = f"  {heads[0]}"
            for record, row in zip(items, rows, strict=True):
                row[0] = f"{'*' if record.get(kind.id_key) == marked else ' '} {row[0]}"
        text = table_text(heads, rows, right=right, keep=keep, limit=_columns(sys.stdout))
        _write(sys.stdout, self._accented_heads(text))

    def _accented_heads(self, table: str) -> str:
        if not self._colored(sys.stdout):
            return table
        heads, line_end, rows = table.partition("\n")
        return f"{_ACCENT}{heads}{_PLAIN}{line_end}{rows}"

    # --- talk --------------------------------------------------------------------------------------------------------

    def note(self, sentence: str) -> None:
        """Print a hint, progress or a success message, unless quiet."""
        if not self.quiet:
            _write(sys.stderr, safe(self._complete(sentence)))

    def progress(self, line: str) -> None:
        """Show progress in a line that the next one replaces; an empty line clears it. For terminals only."""
        if self.quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            return
        from client.text import cut, width

        text = cut(safe(line), (_columns(sys.stderr) or 80) - 1)
        # Also erase the echo of a key, such as `^C`, behind the line.
        rest = max(self._progress_cells - width(text), 0)
        _write(sys.stderr, f"\r{text}{' ' * rest}" + ("" if text else "\r"), end="")
        self._progress_cells = width(text) + _ECHO if text else 0

    def warn(self, sentence: str) -> None:
        """Print a warning, even if quiet."""
        self.say(f"warning: {self._complete(sentence)}")

    def prompt(self, question: str) -> None:
        """Print a question without a line break."""
        _write(sys.stderr, safe(question), end="")

    def debug(self, line: str) -> None:
        """Print a line of `--debug`. The caller must redact secrets."""
        _write(sys.stderr, safe(line))

    def error(self, error: FrostError) -> None:
        """Print an error in one line, or as one JSON object with `-o json`.

        Lines about its details may follow, such as the tenants that an ambiguous name matches.
        """
        error.hint = self._complete(error.hint)
        if self.format == "json":
            _write(sys.stderr, json_text(error.document(), None, ascii_only=not _writes(sys.stderr, "é日")))
            return
        line = error.message.rstrip(".")
        if error.request_id and error.status >= 500:
            line += f" (request {error.request_id})"
        if error.hint:
            starts_a_sentence = not error.hint.startswith(("frost ", "FROST_", "`", "-"))
            hint = f"{error.hint[0].upper()}{error.hint[1:]}" if starts_a_sentence else error.hint
            line += f" {hint}" if line.endswith("?") else f". {hint}"
        self.say(line)
        if error.code in _EXPLAINED:
            from importlib import import_module

            module, _, name = _EXPLAINED[error.code].partition(":")
            for more in getattr(import_module(module), name)(error):
                _write(sys.stderr, more)

    def more(self, line: str) -> None:
        """Print a further line of the previous message."""
        _write(sys.stderr, safe(line))

    def say(self, sentence: str) -> None:
        """Print a message that the user must read, even if quiet."""
        name = f"{_ACCENT}frost{_PLAIN}" if self._colored(sys.stderr) else "frost"
        _write(sys.stderr, f"{name}: {safe(sentence)}")

    def _colored(self, stream: TextIO) -> bool:
        return not self._no_color and (self._force_color or stream.isatty())


def _columns(stream: TextIO) -> int | None:
    """Return the terminal's width in cells; None for a pipe or a file, whose tables are not truncated."""
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _writes(stream: TextIO, text: str) -> bool:
    """Return whether the stream's encoding has these characters."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _write(stream: TextIO, text: str, end: str = "\n") -> None:
    """Write and flush text. Characters that the stream's encoding lacks are escaped.

    Raises:
        BrokenPipeError: The reader has closed the pipe.
        FrostError: The stream is not writable, for example because the disk is full.
    """
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FrostError(f"the output could not be written: {error.strerror}", code=OUTPUT_FAILED) from error


def release_streams() -> None:
    """Replace closed output streams with the null device, so that Python's flush at exit does not fail."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def confirm(output: Output, question: str, *, refused: str, hint: str, typed: str = "") -> None:
    """Ask for confirmation. Only `y` and `yes`, or the text `typed`, confirm.

    Args:
        output: Where the question is written.
        question: Names the object and the effect.
        refused: The error if there is no terminal.
        hint: The hint of that error.
        typed: Text to type instead of yes, for changes with a wide effect.

    Raises:
        FrostError: There is no terminal (exit 2), or the user did not confirm (exit 1).
    """
    needs_terminal(refused, hint)
    _forget_typed_ahead()
    output.prompt(f"{question} Type {safe(typed)} to confirm: " if typed else f"{question} [y/N] ")
    line = sys.stdin.readline()
    if not line.endswith("\n"):
        output.more("")  # Ctrl-D leaves the cursor behind the question
    answer = line.strip()
    if answer != typed.strip() if typed else answer.casefold() not in ("y", "yes"):
        raise FrostError("not confirmed; nothing was changed", code="NOT_CONFIRMED")


def refuse_unread_answer(refused: str, hint: str) -> None:
    """Raise FrostError (exit 2) if standard input may have an answer that `confirm_on_terminal` would not read.

    Without a terminal there is no question, so `yes n | frost …` or a loop over a file must not count as consent. A
    file may have an answer, and so may a pipe with a byte within `ANSWER_SECONDS`. Closed or silent input and the null
    device have none. Nothing is read.
    """
    if not sys.stdin.isatty() and _may_have_answer(sys.stdin.fileno()):
        raise usage(
            f"{refused}, and standard input is a file or has data, but is not a terminal for a confirmation", hint
        )


def _may_have_answer(descriptor: int) -> bool:
    import select
    import stat
    from pathlib import Path

    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return True
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev:
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not any(events & select.POLLIN for _, events in poll.poll(ANSWER_SECONDS * 1000)):
        return False
    return _count_ready_bytes(descriptor) != 0


def _count_ready_bytes(descriptor: int) -> int | None:
    """Return how many bytes can be read without a wait; None if unknown. A closed socket is ready without any."""
    import fcntl
    import termios

    try:
        return int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
    except OSError:
        return None


def confirm_on_terminal(output: Output, question: str) -> None:
    """Ask for confirmation on a terminal; continue without one, so that scripts need no flag.

    Call `refuse_unread_answer` before the first request.

    Raises:
        FrostError: The user did not confirm (exit 1).
    """
    if sys.stdin.isatty():
        confirm(output, question, refused="", hint="")


def needs_terminal(refused: str, hint: str) -> None:
    """Raise FrostError (exit 2) if there is no terminal to ask for confirmation."""
    if not sys.stdin.isatty():
        raise usage(f"{refused}, and there is no terminal for a confirmation", hint)


def _forget_typed_ahead() -> None:
    """Discard input typed before the question appeared."""
    import termios

    termios.tcflush(sys.stdin, termios.TCIFLUSH)


def secret(prompt: str) -> str:
    """Read a line from the terminal without echo; surrounding spaces are removed."""
    from getpass import getpass

    return getpass(prompt).strip()
