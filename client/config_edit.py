"""Edits the configuration file: under its lock, keeping comments and unknown members, all or nothing.

The file is read strictly first (client/config_yaml.py), so the round-trip reader never sees a damaged or hostile one
and a damaged file is never written over. Source: checklist F14, F16, F17; hostile G05.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from client import config_file
from client.config import CONTEXT_MEMBERS, FLAT, LOCAL
from client.config_yaml import read

_HEAD = "# The configuration of frost. `frost config set` changes it, and an editor may.\n"


class Document:
    """The file while it is edited: maps that keep their comments; `data` is the whole of it."""

    def __init__(self, data: Any) -> None:
        self.data = data

    @property
    def flat(self) -> bool:
        """Whether the top level is the one context (client/config.py)."""
        return not self._contexts() and any(self.data.get(name) is not None for name in CONTEXT_MEMBERS)

    def names(self) -> list[str]:
        """The contexts there are."""
        return [FLAT] if self.flat else list(self._contexts() or [LOCAL])

    def context(self, name: str) -> Any:
        """The members of a context, made when the file has none of that name."""
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
        """The `credentials` of a context, made when there are none."""
        member = self.context(name)
        if not isinstance(member.get("credentials"), dict):
            member["credentials"] = _new_map()
        return member["credentials"]

    def map(self, name: str) -> Any:
        """A top-level map (`defaults`, `contexts`, `keys`), made when missing."""
        if not isinstance(self.data.get(name), dict):
            self.data[name] = _new_map()
        return self.data[name]

    def entry(self, name: str) -> str:
        """The keyring's user name for a context: `<file id>/<context>`; the file gets its id when it has none."""
        if not self.data.get("file_id"):
            self.data["file_id"] = quoted(os.urandom(8).hex())
        return f"{self.data['file_id']}/{name}"

    def _contexts(self) -> Any:
        found = self.data.get("contexts")
        return found if isinstance(found, dict) else None

    def _give_contexts(self) -> None:
        """Makes a flat file's values the context `default`: once there are contexts, top-level values do not count."""
        moved = {name: self.data.pop(name) for name in CONTEXT_MEMBERS if name in self.data}
        output_format = self.data.pop("output_format", None)
        self.map("contexts")[FLAT] = _new_map()
        self.data["contexts"][FLAT].update(moved)
        self.data["current_context"] = quoted(FLAT)
        if output_format is not None:
            self.map("defaults").setdefault("output_format", output_format)


@contextmanager
def edit(path: str) -> Iterator[Document]:
    """The file under its lock; what the block changed is written when it ends without an exception.

    Creates the file, and its folder (0700), when missing. Every file gets its random `file_id` here.

    Raises:
        FrostError: Damaged (exit 2), locked for too long (exit 6), not this user's own (exit 2), not writable (exit 1).
    """
    real = config_file.real_path(path)
    folder = os.path.dirname(real)  # noqa: PTH120  (paths are text, see client/config_file.py)
    config_file.make_folder(folder)
    with config_file.locked(real):
        config_file.clean_temporaries(real)
        content = config_file.read(real)
        before = content.data if content else b""
        read(before, path)
        document = Document(_parsed(before))
        unchanged = _text(document.data)
        yield document
        if content and _text(document.data) == unchanged:
            return
        document.entry(LOCAL)
        _empty_commented(document.data.get("contexts"))
        after = _text(document.data)
        read(after, path)
        config_file.replace(real, after)


def replaced(path: str, document: Callable[[Document], None]) -> str | None:
    """A new file in place of whatever is there; the former one, also a damaged one, is kept beside it.

    Args:
        path: The file.
        document: Fills the empty document.

    Returns:
        Where the former file is now, None when there was none.
    """
    real = config_file.real_path(path)
    config_file.make_folder(os.path.dirname(real))  # noqa: PTH120
    with config_file.locked(real):
        former = config_file.read(real)
        kept = None
        if former is not None:
            kept = f"{real}.{os.urandom(3).hex()}.before"
            config_file.replace(kept, former.data, lock_of=real)
        fresh = Document(_parsed(b""))
        document(fresh)
        fresh.entry(LOCAL)
        config_file.replace(real, _text(fresh.data))
    return kept


def quoted(value: str) -> Any:
    """`value` as it must stand in the file: in quotes where another YAML reader would not see text (`no`, `0123`)."""
    import yaml
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    try:
        plain = yaml.safe_load(value) == value
    except yaml.YAMLError:
        plain = False
    return value if plain else DoubleQuotedScalarString(value)


def _empty_commented(maps: Any) -> None:
    """Write an empty map behind a commented key as no value: ruamel puts its braces where they are not YAML."""
    for name in list(maps or ()):
        if maps[name] == {} and name in maps.ca.items:
            maps[name] = None


def _new_map() -> Any:
    from ruamel.yaml.comments import CommentedMap

    return CommentedMap()


def _parsed(content: bytes) -> Any:
    found = _round_trip().load(content.decode("utf-8-sig") if content.strip() else _HEAD + "{}")
    return _new_map() if found is None else found


def _text(data: Any) -> bytes:
    stream = io.BytesIO()
    _round_trip().dump(data, stream)
    return stream.getvalue()


@cache
def _round_trip() -> Any:
    """ruamel's round trip with every plain scalar left as typed: what we do not know is written back unread."""
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
