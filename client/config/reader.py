"""Read the configuration: contexts, defaults and the sources of values. `client/config/writer.py` writes it.

In a file with `contexts`, top-level `api_endpoint`, `region`, `credentials` … are ignored. A flat file (those members,
no `contexts`) is one context named `default`. A missing file, or one without either, is the context `local`: the
platform on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from client.config import file
from client.config.strict_yaml import Map, damaged, read
from client.errors import Exit, FrostError, usage
from client.paths import data_dir, default_endpoint, has_home, home
from client.text import safe

LOCAL = "local"
FLAT = "default"
OUTPUT_FORMATS = ("table", "json", "yaml")
CONTEXT_MEMBERS = ("api_endpoint", "region", "tenant", "read_only", "credentials", "api_key", "session")
"""Members of a context. At the top level they make a file flat."""


class Stored(NamedTuple):
    """The `credentials` of a context in the file.

    `store` is `keyring` if the secrets are there; `holds` then has their kinds (`session`, `api_key`).
    `expires_at` is in Unix seconds, 0 if unknown.
    """

    api_key: str = ""
    access_token: str = ""
    refresh_token: str = ""
    expires_at: int = 0
    store: str = ""
    holds: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Omit secrets: tracebacks show this text."""
        return f"Stored(store={self.store or 'file'}, kinds={self.kinds})"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the usable kinds in order of precedence: `api_key`, `session`."""
        if self.store == "keyring":
            return tuple(
                kind for kind in ("api_key", "session") if kind in self.holds or (kind == "api_key" and self.api_key)
            )
        return ("api_key",) * bool(self.api_key) + ("session",) * bool(self.access_token or self.refresh_token)


class Context(NamedTuple):
    """A named set of endpoint, region, tenant selection and credentials.

    `api_endpoint` is empty for the local platform if `HOME` is not set. `session_ended` is true after a logout,
    revocation or expiry, until the next sign-in. `sources` has the source of each value: `context`, `file` (the top
    level of a flat file) or `default`.
    """

    name: str
    api_endpoint: str
    region: str
    tenant: str
    read_only: bool
    credentials: Stored
    session_ended: bool
    sources: Mapping[str, str]


class Config(NamedTuple):
    """A loaded file. `current_context` may not exist: `select` checks it.

    `output_format_source` is `file` or `default`; `keys` maps names of actions to keys; `notices` are warnings for the
    user (a repaired folder, a file that others can read, an unknown output format).
    """

    path: str
    exists: bool
    flat: bool
    file_id: str
    current_context: str
    contexts: Mapping[str, Context]
    output_format: str
    output_format_source: str
    keys: Mapping[str, str]
    notices: tuple[str, ...]
    repairs: tuple[str, ...] = ()
    """The notices about repaired folders. A second load does not repeat them."""
    explicit: bool = False
    """Whether the user named the file. It must exist then, also when it is read again."""


class Selected(NamedTuple):
    """The current context and the source of its selection: `flag`, `variable` (`FROST_CONTEXT`), `file`, `default`."""

    context: Context
    source: str


def default_path(environ: Mapping[str, str] = os.environ) -> str:
    """Return `$HOME/.cli/config.yaml`."""
    return f"{home(environ)}/.cli/config.yaml"


def load(path: str, explicit: bool = False, environ: Mapping[str, str] = os.environ) -> Config:
    """Load the file. Repair frost's own folders first if others may write to them.

    Args:
        path: The file; may be missing.
        explicit: Whether the user named the file, for example with `--config`; a missing file is then an error.
        environ: The environment, with `HOME` for the socket of the local platform, if there is one.

    Raises:
        FrostError: The file is damaged, belongs to another user, or is missing and `explicit` (exit 2).
    """
    # Without HOME, contexts that name no endpoint have none.
    own: tuple[str, ...] = ()
    local = ""
    if has_home(environ):
        own = (os.path.dirname(default_path(environ)), data_dir(environ))  # noqa: PTH120
        local = default_endpoint(environ)
    repaired = tuple(line for folder in own if (line := file.repaired(folder)))
    real = file.real_path(path)
    content = file.read(real)
    if content is None:
        if explicit:
            raise usage(
                f"configuration file not found: {safe(path)}",
                "create it with: frost config init --config FILE",
                code="CONFIG_MISSING",
            )
        return _Reader(path, Map(), local).config(path, exists=False, warnings=repaired, repairs=repaired)
    document = read(content.data, path)
    warning = file.exposure(real, content.mode)
    warnings = (*repaired, warning) if warning else repaired
    return _Reader(path, document, local).config(
        path, exists=True, warnings=warnings, repairs=repaired, explicit=explicit
    )


def select(config: Config, environ: Mapping[str, str] = os.environ, name: str = "") -> Selected:
    """Select a context: `name` (a flag), else `FROST_CONTEXT`, else the current one of the file.

    Raises:
        FrostError: The context does not exist; the message lists the existing ones (exit 5).
    """
    variable = environ.get("FROST_CONTEXT", "")
    chosen, source = (
        (name, "flag") if name else (variable, "variable") if variable else (config.current_context, "file")
    )
    if chosen in config.contexts:
        inferred = source == "file" and not config.exists
        return Selected(config.contexts[chosen], "default" if inferred else source)
    known = ", ".join(safe(context) for context in config.contexts)
    origin = {"flag": "", "variable": " (from FROST_CONTEXT)", "file": " (current_context of the file)"}[source]
    what = f"unknown context {safe(chosen)!r}{origin}" if chosen else "no context is selected"
    raise FrostError(
        f"{what}; {safe(config.path)} has: {known}",
        code="CONTEXT_NOT_FOUND",
        hint="select one with: frost config use-context NAME",
        exit_code=Exit.NOT_FOUND,
    )


class _Reader:
    """Interprets the members of a document. Invalid values raise FrostError with their position."""

    def __init__(self, name: str, document: Map, endpoint: str) -> None:
        self._name = name
        self._document = document
        self._endpoint = endpoint

    def config(
        self, path: str, *, exists: bool, warnings: tuple[str, ...], repairs: tuple[str, ...], explicit: bool = False
    ) -> Config:
        document = self._document
        contexts, flat = self._contexts()
        current = (
            FLAT
            if flat
            else self._text(document, "current_context") or (next(iter(contexts)) if len(contexts) == 1 else "")
        )
        notices = list(warnings)
        defaults = self._map(document, "defaults")
        chosen = self._text(defaults, "output_format") or (self._text(document, "output_format") if flat else "")
        if chosen and chosen not in OUTPUT_FORMATS:
            notices.append(
                f"{safe(self._name)}: output_format {safe(chosen, 40)!r} is not one of"
                f" {', '.join(OUTPUT_FORMATS)}; using table"
            )
            chosen = ""
        keys = self._map(document, "keys")
        return Config(
            path=path,
            exists=exists,
            flat=flat,
            file_id=self._text(document, "file_id"),
            current_context=current,
            contexts=contexts,
            output_format=chosen or "table",
            output_format_source="file" if chosen else "default",
            keys={action: self._text(keys, action) for action in keys},
            notices=tuple(notices),
            repairs=repairs,
            explicit=explicit,
        )

    def _contexts(self) -> tuple[dict[str, Context], bool]:
        document = self._document
        named = self._map(document, "contexts")
        if named:
            return {name: self._context(name, self._map(named, name), "context") for name in named}, False
        if any(document.get(member) is not None for member in CONTEXT_MEMBERS):
            return {FLAT: self._context(FLAT, document, "file")}, True
        return {LOCAL: self._context(LOCAL, Map(), "context")}, False

    def _context(self, name: str, member: Map, source: str) -> Context:
        endpoint = self._text(member, "api_endpoint")
        explicit = {key: source for key in ("region", "tenant", "read_only") if member.get(key) is not None}
        return Context(
            name=name,
            api_endpoint=endpoint or self._endpoint,
            region=self._text(member, "region"),
            tenant=self._text(member, "tenant"),
            read_only=self._flag(member, "read_only"),
            credentials=self._stored(member),
            session_ended=self._text(member, "session") == "ended",
            sources={
                "api_endpoint": source if endpoint else "default",
                "region": "default",
                "tenant": "default",
                "read_only": "default",
                **explicit,
            },
        )

    def _stored(self, member: Map) -> Stored:
        credentials = self._map(member, "credentials")
        expires = self._text(credentials, "expires_at")
        holds = credentials.get("holds")
        return Stored(
            api_key=self._text(credentials, "api_key") or self._text(member, "api_key"),
            access_token=self._text(credentials, "access_token"),
            refresh_token=self._text(credentials, "refresh_token"),
            expires_at=int(expires) if expires.isascii() and expires.isdigit() and len(expires) < 16 else 0,
            store=self._text(credentials, "store"),
            holds=tuple(str(kind) for kind in holds) if isinstance(holds, list) else (),
        )

    def _map(self, parent: Map, key: str) -> Map:
        value = parent.get(key)
        if value is None:
            return Map()
        if not isinstance(value, Map):
            raise self._wrong(parent, key, "must have members (name: value)")
        return value

    def _text(self, parent: Map, key: str) -> str:
        value: Any = parent.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self._wrong(parent, key, "must be text")
        return value

    def _flag(self, parent: Map, key: str) -> bool:
        value = self._text(parent, key).lower()
        if value not in ("", "true", "false"):
            raise self._wrong(parent, key, "must be true or false")
        return value == "true"

    def _wrong(self, parent: Map, key: str, what: str) -> FrostError:
        return damaged(self._name, f"{safe(key, 60)} {what}", parent.positions.get(key))
