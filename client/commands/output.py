"""The only writer of standard output and standard error of a command.

Standard output is data, standard error is talk (checklist G15). Data is a record, a list or lines of text in the format
asked for; talk is errors, warnings and, unless `--quiet`, hints. Text from outside is made safe on its way into tables
and talk, on a terminal or not (hostile F01, F10); JSON and YAML keep it exactly, escaped.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from client.commands.formats import json_text, table_text, yaml_text
from client.errors import FrostError
from client.records import UNKNOWN, Kind, Record
from client.records import columns as columns_of
from client.text import safe

_ACCENT = "\x1b[36m"
OUTPUT_FAILED = "OUTPUT_FAILED"
_PLAIN = "\x1b[39m"
_ECHO = 4
_EXPLAINED = {
    "AMBIGUOUS_NAME": "client.tenancy:ambiguous_lines",
    "INVALID_POLICY_DOCUMENT": "client.commands.refusals:problem_lines",
    "POLICY_EXCEEDS_AUTHOR": "client.commands.refusals:beyond_lines",
    "PRINCIPAL_EXCEEDS_AUTHOR": "client.commands.refusals:beyond_lines",
    "STALE_VERSION": "client.commands.refusals:stale_lines",
}
"""Code -> `module:function` that makes safe lines of an error's details."""

Fact = tuple[str, ...]
"""A line of a table of facts: name, value, and what else its heads promise."""


class Output:
    """Where one command writes.

    Args:
        format: `table`, `wide`, `json` or `yaml`.
        quiet: Leave out hints, progress and done sentences (checklist G17).
        no_color: Never colour; also without it only a terminal is coloured (checklist G08, G09).
    """

    def __init__(self, format: str = "table", *, quiet: bool = False, no_color: bool = False) -> None:
        self.format = format
        self.quiet = quiet
        self._progress_cells = 0
        self._no_color = no_color or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"

    @property
    def structured(self) -> bool:
        """Whether standard output is one JSON or YAML document."""
        return self.format in ("json", "yaml")

    @property
    def wide(self) -> bool:
        """Whether every column is asked for."""
        return self.format == "wide"

    # --- data --------------------------------------------------------------------------------------------------------

    def document(self, value: Any) -> None:
        """A value as the one document of standard output, in JSON or YAML."""
        ascii_only = not _writes(sys.stdout, "é日")
        text = (
            yaml_text(value, ascii_only=ascii_only)
            if self.format == "yaml"
            else json_text(value, ascii_only=ascii_only)
        )
        _write(sys.stdout, text)

    def text(self, text: str) -> None:
        """Lines as they are: help and scripts, never anything that came from outside."""
        _write(sys.stdout, text)

    def lines(self, lines: Iterable[str]) -> None:
        """Lines for a person that may hold what came from outside."""
        _write(sys.stdout, "\n".join(map(safe, lines)))

    def records(
        self,
        kind: Kind,
        found: Sequence[Record],
        *,
        marked: str | None = None,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        """A list: `{"items": […]}` with what else belongs `beside` it, or a table in which `marked` has a star."""
        if self.structured:
            self.document({"items": list(found), **(beside or {})})
        else:
            self._table(kind, found, marked)
            if not found:
                self.note(f"no {kind.plural}")

    def record(self, kind: Kind, found: Record, **more: str) -> None:
        """One record as it is, with members of ours added; in a table it is a row and `more` are its last columns."""
        if self.structured:
            self.document({**found, **more})
        else:
            self._table(kind, [found], None, more)

    def facts(
        self, document: Mapping[str, Any], facts: Sequence[Fact], heads: Sequence[str] = ("FACT", "VALUE")
    ) -> None:
        """What is no list of records: the document, or its facts a line each."""
        if self.structured:
            self.document(dict(document))
        else:
            rows = [[safe(text) if text else UNKNOWN for text in fact] for fact in facts]
            # A fact is never cut: it may be an id or a path, and there is nothing else that could give way.
            _write(sys.stdout, self._accented_heads(table_text(heads, rows)))

    def done(self, sentence: str, document: Mapping[str, Any]) -> None:
        """A command that changed something and has no table of its own: a sentence, or the document."""
        if self.structured:
            self.document(dict(document))
        else:
            self.note(sentence)

    def _table(
        self,
        kind: Kind,
        found: Sequence[Record],
        marked: str | None,
        more: Mapping[str, str] | None = None,
    ) -> None:
        columns = columns_of(kind, self.wide)
        more = more or {}
        heads = [column.title.upper() for column in columns] + [name.upper() for name in more]
        rows = [[safe(column.text(record)) for column in columns] + list(map(safe, more.values())) for record in found]
        right = [column.align == "right" for column in columns]
        keep = [column.whole or column.align == "right" for column in columns]
        if marked is not None:
            heads[0] = f"  {heads[0]}"
            for record, row in zip(found, rows, strict=True):
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
        """A hint, progress or a done sentence."""
        if not self.quiet:
            _write(sys.stderr, safe(sentence))

    def progress(self, line: str) -> None:
        """How far something is, in a line that the next one replaces; "" takes it away. Only a person is told so."""
        if self.quiet or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
            return
        from client.text import cut, width

        text = cut(safe(line), (_columns(sys.stderr) or 80) - 1)
        # What a key typed meanwhile has echoed behind the line (`^C`) goes with it.
        rest = max(self._progress_cells - width(text), 0)
        _write(sys.stderr, f"\r{text}{' ' * rest}" + ("" if text else "\r"), end="")
        self._progress_cells = width(text) + _ECHO if text else 0

    def warn(self, sentence: str) -> None:
        """Something to know that is no failure; said under `--quiet` too."""
        self.say(f"warning: {sentence}")

    def prompt(self, question: str) -> None:
        """A question; the answer is typed on the same line."""
        _write(sys.stderr, safe(question), end="")

    def debug(self, line: str) -> None:
        """A line that was asked for with `--debug`; redacted by who wrote it."""
        _write(sys.stderr, safe(line))

    def error(self, error: FrostError) -> None:
        """How a failed command says so: one line, or one JSON object under `-o json` (checklist G40, G41).

        What its details say more follows, a line each: what an ambiguous name could mean, for one.
        """
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
        """A further line of what was just said."""
        _write(sys.stderr, safe(line))

    def say(self, sentence: str) -> None:
        """Something that must be read for the command to go on, quiet or not."""
        name = f"{_ACCENT}frost{_PLAIN}" if self._colored(sys.stderr) else "frost"
        _write(sys.stderr, f"{name}: {safe(sentence)}")

    def _colored(self, stream: TextIO) -> bool:
        return not self._no_color and stream.isatty()


def _columns(stream: TextIO) -> int | None:
    """The width to fit a table to; None when no person reads along: a pipe or a file is never cut."""
    if not stream.isatty():
        return None
    from shutil import get_terminal_size

    return get_terminal_size().columns


def _writes(stream: TextIO, text: str) -> bool:
    """Whether the stream's encoding has these characters."""
    try:
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _write(stream: TextIO, text: str, end: str = "\n") -> None:
    """A line or more; what the stream's encoding cannot write stands as an escape.

    Raises:
        BrokenPipeError: The reader has left.
        FrostError: The stream cannot be written: a full disk, for one.
    """
    encoding = stream.encoding or "utf-8"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + end)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise FrostError(f"the output could not be written: {error.strerror}", code=OUTPUT_FAILED) from error
