"""Edit the configuration file: under its lock, atomically, preserving comments and unknown members.

The strict parser (strict_yaml.py) reads the file first, so that ruamel never parses a damaged or malicious file, and a
damaged file is never overwritten.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from client.config import file
from client.config.reader import CONTEXT_MEMBERS, FLAT, LOCAL
from client.config.strict_yaml import read

_HEAD = "# The configuration of frost. Change it with `frost config set` or an editor.\n"


class Document:
    """An edited file. `data` is its top level; maps preserve their comments."""

    def __init__(self, data: Any) -> None:
        self.data = data

    @property
    def flat(self) -> bool:
        """Return whether the top level is the only context (client/config/reader.py)."""
        return not self._contexts() and any(self.data.get(name) is not None for name in CONTEXT_MEMBERS)

    def names(self) -> list[str]:
        return [FLAT] if self.flat else list(self._contexts() or [LOCAL])

    def context(self, name: str) -> Any:
        """Return the members of a context, created if missing."""
        if self.flat:
            if name == FLAT:
                return self.data
            self._give_contexts()
        if not self._contexts():
            self.data.setdefault("current_context", quoted(LOCAL))
            self.map("contexts")[LOCAL] = _new_map()
        contexts = self.map("contexts")
        if not isinstance(contexts.get(name), dict):
            contexts[name] = _new_map()
        return contexts[name]

    def credentials(self, name: str) -> Any:
        """Return the `credentials` of a context, created if missing."""
        member = self.context(name)
        if not isinstance(member.get("credentials"), dict):
            member["credentials"] = _new_map()
        return member["credentials"]

    def map(self, name: str) -> Any:
        """Return a top-level map (`defaults`, `contexts`, `keys`), created if missing."""
        if not isinstance(self.data.get(name), dict):
            self.data[name] = _new_map()
        return self.data[name]

    def entry(self, name: str) -> str:
        """Return a context's keyring user name, `<file id>/<context>`. Creates the file id if missing."""
        if not self.data.get("file_id"):
            self.data["file_id"] = quoted(os.urandom(8).hex())
        return f"{self.data['file_id']}/{name}"

    def _contexts(self) -> Any:
        contexts = self.data.get("contexts")
        return contexts if isinstance(contexts, dict) else None

    def _give_contexts(self) -> None:
        """Move the values of a flat file to the context `default`: with `contexts`, top-level values are ignored."""
        moved = {name: self.data.pop(name) for name in CONTEXT_MEMBERS if name in self.data}
        output_format = self.data.pop("output_format", None)
        self.map("contexts")[FLAT] = _new_map()
        self.data["contexts"][FLAT].update(moved)
        self.data["current_context"] = quoted(FLAT)
        if output_format is not None:
            self.map("defaults").setdefault("output_format", output_format)


@contextmanager
def edit(path: str) -> Iterator[Document]:
    """Lock and edit the file. Changes are written if the block ends without an exception.

    Creates the file and its folder (0700) if missing. A written file gets a random `file_id`.

    Raises:
        FrostError: Damaged or owned by another user (exit 2), locked for too long (exit 6), not writable (exit 1).
    """
    real = file.real_path(path)
    folder = os.path.dirname(real)  # noqa: PTH120  (paths are text, see client/config/file.py)
    file.make_folder(folder)
    with file.locked(real):
        file.clean_temporaries(real)
        content = file.read(real)
        before = content.data if content else b""
        read(before, path)
        document = Document(_parse(before))
        unchanged = _text(document.data)
        yield document
        if content and _text(document.data) == unchanged:
            return
        document.entry(LOCAL)
        _empty_commented(document.data.get("contexts"))
        after = _text(document.data)
        read(after, path)
        file.replace(real, after)


def replaced(path: str, document: Callable[[Document], None]) -> str | None:
    """Write a new file. An existing file, even a damaged one, becomes a backup.

    Args:
        path: The file.
        document: Fills the empty document.

    Returns:
        The path of the backup; None if there was no file.
    """
    real = file.real_path(path)
    file.make_folder(os.path.dirname(real))  # noqa: PTH120
    with file.locked(real):
        former = file.read(real)
        backup = None
        if former is not None:
            backup = f"{real}.{os.urandom(3).hex()}.before"
            file.replace(backup, former.data, lock_of=real)
        fresh = Document(_parse(b""))
        document(fresh)
        fresh.entry(LOCAL)
        file.replace(real, _text(fresh.data))
    return backup


def quoted(value: str) -> Any:
    """Return `value`, in quotes if another YAML reader would not read it as text (`no`, `0123`)."""
    import yaml
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    try:
        plain = yaml.safe_load(value) == value
    except yaml.YAMLError:
        plain = False
    return value if plain else DoubleQuotedScalarString(value)


def _empty_commented(maps: Any) -> None:
    """Write empty maps of commented keys as no value: ruamel places their braces incorrectly."""
    for name in list(maps or ()):
        if maps[name] == {} and name in maps.ca.items:
            maps[name] = None


def _new_map() -> Any:
    from ruamel.yaml.comments import CommentedMap

    return CommentedMap()


def _parse(content: bytes) -> Any:
    data = _round_trip().load(content.decode("utf-8-sig") if content.strip() else _HEAD + "{}")
    return _new_map() if data is None else data


def _text(data: Any) -> bytes:
    stream = io.BytesIO()
    _round_trip().dump(data, stream)
    return stream.getvalue()


@cache
def _round_trip() -> Any:
    """Return ruamel's round-trip parser without type conversion, so that unknown values are written back unchanged."""
    import re

    from ruamel.yaml import YAML
    from ruamel.yaml.resolver import VersionedResolver

    class TextOnly(VersionedResolver):
        @property
        def versioned_resolver(self) -> Any:
            return {"": [("tag:yaml.org,2002:null", re.compile("^$"))]}

    round_trip = YAML(typ="rt")
    round_trip.Resolver = TextOnly
    round_trip.preserve_quotes = True
    round_trip.width = 4096
    return round_trip
