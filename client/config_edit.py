"""Edits the configuration file: under its lock, keeping comments and unknown members, all or nothing.

The file is read strictly first (client/config_yaml.py), so the round-trip reader never sees a damaged or hostile one
and a damaged file is never written over. Source: checklist F14, F16, F17; hostile G05.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from client import clock, config_file
from client.config import CONTEXT_MEMBERS, FLAT, LOCAL, OUTPUT_FORMATS, Config, select
from client.config_yaml import read
from client.endpoint import Endpoint
from client.errors import usage
from client.local import default_endpoint
from client.network import check_socket_owner
from client.text import safe

_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
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
        """The keyring's user name for a context: `<file id>/<context>`."""
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
        config_file.clean_temporaries(folder)
        content = config_file.read(real)
        before = content.data if content else b""
        read(before, path)
        document = Document(_parsed(before))
        unchanged = _text(document.data)
        yield document
        if content and _text(document.data) == unchanged:
            return
        if not document.data.get("file_id"):
            document.data["file_id"] = _new_id()
        after = _text(document.data)
        read(after, path)
        config_file.replace(real, after)


def create(path: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """`config init`: a file with the defaults written out; one that was there is kept beside it, also a damaged one.

    Returns:
        Where the file that was there is now, None when there was none.
    """
    real = config_file.real_path(path)
    kept = None
    config_file.make_folder(os.path.dirname(real))  # noqa: PTH120
    with config_file.locked(real):
        content = config_file.read(real)
        if content is not None:
            kept = f"{real}.{clock.now():%Y%m%dT%H%M%SZ}"
            config_file.replace(kept, content.data)
        document = Document(_parsed(b""))
        document.context(LOCAL)["api_endpoint"] = default_endpoint(environ)
        document.map("defaults")["output_format"] = "table"
        document.data["file_id"] = _new_id()
        config_file.replace(real, _text(document.data))
    return kept


def set_value(config: Config, name: str, key: str, value: str) -> list[str]:
    """`config set`: `api_endpoint` and `region` of the context `name`, or the `output_format` of all.

    A session belongs to the platform that began it: with another endpoint it is forgotten, never sent there.

    Returns:
        Notices for the person.

    Raises:
        FrostError: A value the key cannot have (exit 2; checklist F07, F08).
    """
    if key == "output_format":
        if value not in OUTPUT_FORMATS:
            raise usage(f"output_format is one of {', '.join(OUTPUT_FORMATS)}, not {safe(value, 40)!r}")
        with edit(config.path) as document:
            document.map("defaults")[key] = quoted(value)
        return []
    select(config, {}, name)
    if key == "api_endpoint":
        return _set_endpoint(config, name, value)
    if not value.isprintable() or len(value) > 100:
        raise usage("region is a name of up to 100 printable characters")
    with edit(config.path) as document:
        document.context(name)[key] = quoted(value)
    return []


def use_context(config: Config, name: str) -> None:
    """Makes `name` the current context; refused with the known ones when there is none (checklist F13)."""
    select(config, {}, name)
    with edit(config.path) as document:
        if not document.flat:
            document.context(name)
            document.data["current_context"] = quoted(name)


def add_context(config: Config, name: str, api_endpoint: str) -> list[str]:
    """A context of that name with that endpoint, made or changed; the current one stays. Returns notices.

    Raises:
        FrostError: No name for a context, or no endpoint (exit 2).
    """
    if not name or len(name) > 64 or not set(name) <= _NAME_CHARACTERS or name[0] in ".-":
        raise usage(f"{safe(name, 80)!r} is no name for a context; use up to 64 letters, digits, '.', '_' and '-'")
    return _set_endpoint(config, name, api_endpoint)


def _set_endpoint(config: Config, name: str, value: str) -> list[str]:
    endpoint = Endpoint.parse(value)
    if endpoint.kind == "unix":
        with suppress(FileNotFoundError):
            check_socket_owner(endpoint.path)
    known = config.contexts.get(name)
    notices = []
    if known and known.api_endpoint != value and "session" in known.credentials.kinds:
        from client import credentials

        notices = credentials.forget(config, name, ended=False)
        notices.append(f"the session at {safe(known.api_endpoint)} was forgotten; sign in to the new endpoint: frost login")
    with edit(config.path) as document:
        document.context(name)["api_endpoint"] = quoted(value)
    return notices


def quoted(value: str) -> Any:
    """`value` as it must stand in the file: in quotes when another YAML reader would not see text in it (`no`, `0123`)."""
    import yaml
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    try:
        plain = yaml.safe_load(value) == value
    except yaml.YAMLError:
        plain = False
    return value if plain else DoubleQuotedScalarString(value)


def _new_id() -> Any:
    return quoted(os.urandom(8).hex())


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
