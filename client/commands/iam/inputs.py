"""Inputs of the iam commands: `--document`, and the flags for the context of a simulated request.

A document is inline JSON, `@file` or `-`, sent as the text that the user wrote.
"""

# ruff: noqa: PTH110, PTH111  (importing pathlib takes longer than reading a file)

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from client.api.policies import REFUSED, require_json
from client.commands.invocation import Invocation
from client.commands.options import parse_tags, text_of
from client.commands.parameters import Option
from client.errors import FrostError, usage
from client.text import safe
from client.texts.refusals import locate_problems, problem_text

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


MOST_BYTES = 1024 * 1024
"""Maximum size of a document to read. The platform has a lower limit, which it checks itself."""

SILENT_SECONDS = 30.0
"""How long to wait for input from a pipe."""

DOCUMENT_HELP = "The policy document: JSON, @FILE, or - for standard input."


def document_flag(*, required: bool, help: str = DOCUMENT_HELP) -> click.Option:
    return Option(
        ["--document", "document_"],
        required=required,
        metavar="JSON|@FILE|-",
        help=help,
        shell_complete=file_names,
        repeat=_repeated_document,
    )


def _repeated_document(value: str) -> str:
    """Return `--document` for a printed command line: neither an inline document nor an input that is read once."""
    return value if value.startswith("@") and not value.startswith("@/dev/") else "@FILE"


def file_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete `@FILE` with files and folders; hidden ones after a dot."""
    from click.shell_completion import CompletionItem

    if incomplete and not incomplete.startswith("@"):
        return []
    before, slash, name = incomplete[1:].rpartition("/")
    folder = before + slash
    with os.scandir(os.path.expanduser(folder) or ".") as entries:
        names = sorted(
            f"@{folder}{entry.name}{'/' if entry.is_dir() else ''}"
            for entry in entries
            if entry.name.startswith(name) and entry.name.startswith(".") <= name.startswith(".")
        )
    return [CompletionItem(value) for value in names]


class Document(NamedTuple):
    """A policy document as its author wrote it, and its source for messages: a file, the flag or standard input."""

    text: str
    source: str

    def warn(self, run: Invocation, warnings: Sequence[dict[str, Any]]) -> None:
        """Print the platform's warnings about an accepted document."""
        for warning in warnings:
            run.output.warn(problem_text(self.source, warning))


def read_document(run: Invocation, value: str, *, silent_seconds: float = SILENT_SECONDS) -> Document:
    """Read the document of `--document`. A pipe may be without data for `silent_seconds`.

    Raises:
        FrostError: The document is not readable or not JSON (exit 2).
    """
    if value == "":
        raise usage("--document is empty", "--document takes JSON, @FILE, or - for standard input")
    if value == "-":
        document = Document(_decode(_from_input(run), "standard input"), "standard input")
    elif value.startswith("@"):
        path = value[1:]
        document = Document(_decode(_from_file(path, silent_seconds), path), path)
    else:
        document = Document(value.removeprefix("\ufeff"), "--document")
    try:
        with locate_errors(document):
            require_json(document.text)
    except FrostError as error:
        if document.source == "--document" and (hint := _file_hint(value)):
            error.hint = hint
        raise
    return document


@contextmanager
def locate_errors(document: Document | None) -> Iterator[None]:
    """Add positions in the source text to the problems of a document that are raised inside."""
    try:
        yield
    except FrostError as error:
        if document is not None and error.code == REFUSED:
            locate_problems(error, document.source)
        raise


def _from_input(run: Invocation) -> bytes:
    if sys.stdin.isatty():
        run.talk.note("reading the document from the terminal; end it with Ctrl-D on an empty line")
    return _check_size(sys.stdin.buffer.read(MOST_BYTES + 1), "standard input")


def _from_file(path: str, silent_seconds: float) -> bytes:
    if not path:
        raise usage("--document @: file name missing", "add the file name: --document @policy.json")
    name = safe(path, 200)
    try:
        descriptor = os.open(os.path.expanduser(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        hint = _file_hint(path) if _path_of_url(path) != path else ""
        raise usage(f"--document: {name} cannot be read: {(error.strerror or 'no such file').lower()}", hint) from error
    except ValueError as error:
        raise usage(f"--document: {name} is not a valid file name") from error
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(descriptor)
        raise usage(f"--document: {name} is {'a directory' if stat.S_ISDIR(mode) else 'a device'}, not a file")
    os.set_blocking(descriptor, True)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        try:
            data = file.read(MOST_BYTES + 1) if stat.S_ISREG(mode) else _from_pipe(descriptor, name, silent_seconds)
            return _check_size(data, name)
        except OSError as error:
            raise usage(f"--document: {name} cannot be read: {(error.strerror or '').lower()}") from error


def _from_pipe(descriptor: int, name: str, seconds: float) -> bytes:
    """Read a pipe until its writers close it. Raises FrostError (exit 2) if it is silent too long."""
    from select import select

    data = b""
    while len(data) <= MOST_BYTES:
        if not select([descriptor], [], [], seconds)[0]:
            raise usage(f"--document: {name} is a pipe without data for {seconds:.0f} s")
        part = os.read(descriptor, MOST_BYTES)
        if not part:
            break
        data += part
    return data


def _file_hint(value: str) -> str:
    """Return a hint for a file name without its `@`, or a URL; empty for other text."""
    from shlex import quote

    if value.lower().startswith(("http://", "https://")):
        return "save the document to a file, then: --document @FILE"
    path = _path_of_url(value)
    if path == value and not value.startswith(("./", "../", "/", "~")) and not _is_file(value):
        looks_like_json = any(mark in value for mark in '{}[]"\n')
        if looks_like_json or not value.lower().endswith((".json", ".txt")):
            return ""
    return f"to read a file: --document {safe(quote(f'@{path}'), 200)}"


def _path_of_url(value: str) -> str:
    """Return the path of a `file:` URL (RFC 8089), also of a relative one; other text unchanged."""
    if not value.lower().startswith("file:"):
        return value
    from urllib.parse import unquote

    path = value[len("file:") :]
    if path.startswith("//"):
        path = path[2:].removeprefix("localhost") if path[2:].startswith("localhost/") else path[2:]
    return unquote(path)


def _is_file(value: str) -> bool:
    """Return whether the value is a file name without its `@`."""
    try:
        return os.path.exists(value)
    except ValueError:
        return False


def _check_size(data: bytes, source: str) -> bytes:
    if len(data) > MOST_BYTES:
        raise usage(f"{source} is larger than 1 MiB, the maximum of a policy document")
    return data


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise usage(f"{safe(source, 200)}:{line}: not UTF-8 (byte {error.start})", "save it as UTF-8") from error


REQUEST_FLAGS: tuple[click.Option, ...] = (
    Option(["--region"], metavar="REGION", help="Region of the request, also if the target's region is *."),
    Option(
        ["--request-tag"],
        multiple=True,
        metavar="KEY=VALUE,…",
        help='Tags on the request; "" for no tags. Unknown if omitted.',
    ),
    Option(
        ["--resource-tag"],
        multiple=True,
        metavar="KEY=VALUE,…",
        help='Tags on the resource; "" for no tags. Unknown if omitted.',
    ),
    Option(["--source-ip"], metavar="ADDRESS", help="Source address of the request."),
    Option(["--time"], metavar="TIME", help="Time of the request, RFC 3339; default now."),
)


def facts(
    *,
    region: str | None,
    request_tag: Sequence[str],
    resource_tag: Sequence[str],
    source_ip: str | None,
    time: str | None,
    **more: str | None,
) -> dict[str, Any]:
    """Return the request context as JSON. Omitted values are unknown, except the time, which defaults to now.

    Raises:
        FrostError: A value is invalid (exit 2).
    """
    values: dict[str, Any] = {
        "region": text_of(region, "--region"),
        "requestTags": _tags(request_tag, "--request-tag"),
        "resourceTags": _tags(resource_tag, "--resource-tag"),
        "sourceIp": _address(source_ip),
        "currentTime": _instant(time),
        **more,
    }
    return {name: value for name, value in values.items() if value is not None}


def operation(value: str) -> str:
    """Return the name of one operation. Raises FrostError (exit 2) for a part of a name or a pattern."""
    parts = value.split(":")
    if len(parts) != 3 or not all(parts) or "*" in value:
        raise usage(
            f"--operation takes one operation svc:resource:action, not {safe(value, 100)!r}",
            "list them: frost iam catalog --filter TEXT",
        )
    return value


def target(value: str) -> str:
    """Return a target, `*` or a full resource name (FRN). Raises FrostError (exit 2)."""
    fields = value.split(":", 4)
    kind, _, identifier = fields[-1].partition("/")
    if value != "*" and not (len(fields) == 5 and fields[0] == "frn" and all(fields) and kind and identifier):
        raise usage(
            f"--target takes * or frn:<service>:<region>:<tenant>:<type>/<id>, not {safe(value, 100)!r}",
            "parts may be *: --target 'frn:compute:*:*:instances/i-1'",
        )
    return value


def _tags(values: Sequence[str], flag: str) -> dict[str, str] | None:
    """Return the tags of an option; None without the option, an empty set for `""`."""
    if not values:
        return None
    return {} if list(values) == [""] else parse_tags(values, flag)


def _address(value: str | None) -> str | None:
    if value is None:
        return None
    from ipaddress import ip_address

    try:
        ip_address(value)
    except ValueError as error:
        raise usage(f"--source-ip takes an IPv4 or IPv6 address, not {safe(value, 60)!r}") from error
    return value


def _instant(value: str | None) -> str | None:
    if value is None:
        return None
    from client.policy.instants import InvalidTime, parse_instant

    try:
        parse_instant(value)
    except InvalidTime as error:
        raise usage(f"--time: {safe(value, 60)!r} {error}") from None
    return value
