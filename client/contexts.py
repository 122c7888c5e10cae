"""Changes to the configuration: contexts, endpoint, region and output format.

All values are validated before the file is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from client.config.reader import LOCAL, OUTPUT_FORMATS, Config, Context, Stored, select
from client.config.writer import Document, edit, quoted, replaced
from client.errors import Exit, FrostError, usage
from client.text import safe
from client.transport.endpoint import Endpoint

LONGEST_NAME = 64
LONGEST_REGION = 128
_CREDENTIALS = {"api_key": "API key", "session": "session"}
_DEFAULTS = dict.fromkeys(("api_endpoint", "region", "tenant", "read_only"), "default")


def choose(config: Config, name: str) -> None:
    """Make a context the current one.

    Raises:
        FrostError: The context does not exist (exit 5).
    """
    if not name:
        raise usage("the name of the context is empty")
    select(config, {}, name)
    with edit(config.path) as document:
        document.context(name)
        if not document.flat:
            document.data["current_context"] = quoted(name)


def draft(config: Config, name: str, endpoint: str) -> Config:
    """Return the configuration with a context for an endpoint, without writing it.

    A context that has the endpoint is not changed. A context with another endpoint of its own gets this one if it has
    no credentials.

    Raises:
        FrostError: The name or the endpoint is invalid (exit 2), or the context has another endpoint (exit 6).
    """
    _check_name(name)
    address = str(_endpoint(endpoint))
    context = config.contexts.get(name)
    if context is None:
        drafted = Context(name, address, "", "", False, Stored(), False, {**_DEFAULTS, "api_endpoint": "context"})
    elif _is_same(context.api_endpoint, address):
        return config
    elif context.credentials.kinds or context.sources["api_endpoint"] == "default":
        raise FrostError(
            f"context {safe(name)!r} exists with another endpoint, {safe(context.api_endpoint, 200)}",
            code="CONTEXT_EXISTS",
            hint="use another name, or change it: frost config use-context NAME, frost config set api_endpoint URL",
            exit_code=Exit.CONFLICT,
        )
    else:
        drafted = context._replace(api_endpoint=address, sources={**context.sources, "api_endpoint": "context"})
    return config._replace(contexts={**config.contexts, name: drafted})


def add(config: Config, name: str, endpoint: str) -> None:
    """Write the context of `draft`; the current context does not change.

    Raises:
        FrostError: As `draft`.
    """
    drafted = draft(config, name, endpoint)
    if drafted is config:
        return
    with edit(config.path) as document:
        document.context(name)["api_endpoint"] = quoted(drafted.contexts[name].api_endpoint)


def check_new(config: Config, name: str) -> None:
    """Validate the name of a new context.

    Raises:
        FrostError: The name is invalid (exit 2), or the context exists (exit 6).
    """
    _check_name(name)
    if name in config.contexts:
        raise _exists(name)


def add_new(config: Config, name: str, endpoint: str, tenant: str) -> None:
    """Add a context with an endpoint and a tenant; the current context does not change.

    Raises:
        FrostError: As `check_new`, also if another process has just added the context.
    """
    check_new(config, name)
    with edit(config.path) as document:
        if name in document.names():
            raise _exists(name)
        document.context(name).update({"api_endpoint": quoted(endpoint), "tenant": quoted(tenant)})


def _check_name(name: str) -> None:
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip() or "/" in name:
        raise usage(
            f"{safe(name, 80)!r} cannot be the name of a context",
            f"use 1 to {LONGEST_NAME} printable characters without / and without spaces around them",
        )


def _exists(name: str) -> FrostError:
    return FrostError(
        f"context {safe(name)!r} already exists",
        code="CONTEXT_EXISTS",
        hint="use another name; list the contexts: frost config get-contexts",
        exit_code=Exit.CONFLICT,
    )


def set_endpoint(config: Config, name: str, endpoint: str) -> list[str]:
    """Set the endpoint of a context and remove the credentials for its former endpoint.

    A credential belongs to the platform that issued it and must not be sent to another.

    Returns:
        Notices for the user: the removed credentials.
    """
    address = str(_endpoint(endpoint))
    with edit(config.path) as document:  # one write: if it fails, the credentials in the file are still there
        notices = _remove_credentials_of_another(document, config, name, address)
        document.context(name)["api_endpoint"] = quoted(address)
    return notices


def drop_endpoint(config: Config, name: str, default: str) -> list[str]:
    """Remove the endpoint of a context, which then uses `default`: the local platform.

    Removes credentials and returns notices as `set_endpoint` does.
    """
    with edit(config.path) as document:
        notices = _remove_credentials_of_another(document, config, name, default)
        document.context(name).pop("api_endpoint", None)
    return notices


def _remove_credentials_of_another(document: Document, config: Config, name: str, endpoint: str) -> list[str]:
    context = config.contexts.get(name)
    if context is None or _is_same(context.api_endpoint, endpoint) or not context.credentials.kinds:
        return []
    from client.auth import credential_store

    kinds = " and ".join(_CREDENTIALS[kind] for kind in context.credentials.kinds)
    removed = f"the {kinds} of context {safe(name)} for {safe(context.api_endpoint, 200)} {{}} removed"
    return [
        removed.format("are" if len(context.credentials.kinds) > 1 else "is"),
        *credential_store.remove_all(document, name),
    ]


def _is_same(endpoint: str, other: str) -> bool:
    try:
        return str(Endpoint.parse(endpoint)) == str(Endpoint.parse(other))
    except FrostError:  # the stored text need not be a valid endpoint
        return endpoint == other


def find_by_api_key(config: Config, endpoint: str, prefix: str) -> list[str]:
    """Return the names of the contexts of an endpoint whose API key begins with `prefix`.

    A context is skipped if its key is in a keyring that is unavailable.
    """
    names = []
    for name in config.contexts:
        with suppress(FrostError):
            if _has_api_key(config, name, endpoint, prefix):
                names.append(name)
    return names


def require_api_key(config: Config, name: str, endpoint: str, prefix: str) -> None:
    """Require that a context of an endpoint has the API key that begins with `prefix`.

    Raises:
        FrostError: The context does not exist (exit 5) or has another key or endpoint (exit 6), or the keyring is
            unavailable (exit 3).
    """
    select(config, {}, name)
    if not _has_api_key(config, name, endpoint, prefix):
        raise FrostError(
            f"context {safe(name)!r} does not have this API key",
            code="CONTEXT_HAS_ANOTHER_KEY",
            hint="nothing was changed; list the contexts: frost config get-contexts",
            exit_code=Exit.CONFLICT,
        )


def _has_api_key(config: Config, name: str, endpoint: str, prefix: str) -> bool:
    context = config.contexts[name]
    if not prefix or "api_key" not in context.credentials.kinds or not _is_same(context.api_endpoint, endpoint):
        return False
    from client.auth import credential_store

    return credential_store.load(config, context).secret.startswith(prefix)


class StoredKey(NamedTuple):
    """The contexts that have a key now, the errors of the others by name, and notices for the user."""

    contexts: list[str]
    errors: dict[str, FrostError]
    notices: list[str]


def store_api_key(config: Config, names: Iterable[str], secret: str) -> StoredKey:
    """Store a key in contexts. An error in one of them does not keep it from the others."""
    from client.auth import credential_store

    stored = StoredKey([], {}, [])
    for name in names:
        try:
            stored.notices.extend(credential_store.save_api_key(config, name, secret))
        except FrostError as error:
            stored.errors[name] = error
        else:
            stored.contexts.append(name)
    return stored


def not_stored(stored: StoredKey) -> FrostError:
    """Return the error for the contexts that do not have the new key of a rotation, with what to do next."""
    from client.auth.credential_store import CONTEXT_CHANGED

    first = next(iter(stored.errors.values()))
    causes = "; ".join(f"in context {safe(name)}: {error.message}" for name, error in stored.errors.items())
    has_it = f"; stored in {' and '.join(map(safe, stored.contexts))}" if stored.contexts else ""
    # The command would store the key for the other endpoint of a context that has changed.
    able = [name for name, error in stored.errors.items() if error.code != CONTEXT_CHANGED]
    next_step = f"store the printed key: {' and '.join(map(store_key_command, able))}" if able else first.hint
    return FrostError(
        f"the new key could not be stored {causes}{has_it}",
        code=first.code,
        hint=f"{next_step}; the old key is still valid",
        exit_code=first.exit_code,
    )


def store_key_command(name: str) -> str:
    """Return the command that stores an API key in a context."""
    import shlex

    return f"FROST_CONTEXT={safe(shlex.quote(name))} frost config set api_key -"


def old_key_notice(names: Sequence[str], *, secret_shown: bool = True) -> str:
    """Return a notice about contexts that still have the old key of a rotation, with what to do next."""
    listed = " and ".join(safe(name) for name in names)
    verb = "have" if len(names) > 1 else "has"
    following = f"store the new one: {store_key_command(names[0])}" if secret_shown else "create another key for it"
    return f"context{'s' * (len(names) > 1)} {listed} still {verb} the old key; {following}"


def remove(config: Config, name: str) -> list[str]:
    """Remove a context and its credentials; its session on the platform does not end. Return notices.

    Raises:
        FrostError: The context is the current one (exit 1), or does not exist (exit 5).
    """
    select(config, {}, name)
    if name == config.current_context:
        raise FrostError(
            f"context {safe(name)!r} is the current context",
            code="CONTEXT_IN_USE",
            hint="select another one first: frost config use-context NAME",
        )
    from client.auth import credential_store

    with edit(config.path) as document:
        notices = credential_store.forget_in_keyring(document, name)
        document.map("contexts").pop(name, None)
    return notices


def set_region(config: Config, name: str, region: str) -> None:
    """Set the default region of a context; an empty region removes it."""
    if len(region) > LONGEST_REGION or not region.isprintable():
        raise usage(f"region: at most {LONGEST_REGION} printable characters, not {safe(region, 80)!r}")
    with edit(config.path) as document:
        member = document.context(name)
        if region:
            member["region"] = quoted(region)
        else:
            member.pop("region", None)


def set_output_format(config: Config, name: str, output_format: str) -> None:
    """Set the default output format of the file, for all contexts."""
    if output_format not in OUTPUT_FORMATS:
        raise usage(
            f"output_format: {safe(output_format, 60)!r} is not one of {', '.join(OUTPUT_FORMATS)}",
            "use wide with a single command: -o wide" if output_format == "wide" else "",
        )
    with edit(config.path) as document:
        if document.flat and "output_format" in document.data:
            document.data["output_format"] = output_format
        else:
            document.map("defaults")["output_format"] = output_format


SETTERS: Mapping[str, Callable[[Config, str, str], list[str] | None]] = {
    "api_endpoint": set_endpoint,
    "region": set_region,
    "output_format": set_output_format,
}
"""Setters by key of `config set`, without `api_key`. They may return notices."""


def create(path: str, endpoint: str) -> str | None:
    """Write a default configuration: one context `local`, output as tables. An existing file becomes a backup.

    Args:
        path: The file.
        endpoint: The endpoint of the context `local`.

    Returns:
        The path of the backup; None if there was no file.
    """

    def defaults(document: Document) -> None:
        document.data["current_context"] = LOCAL
        document.context(LOCAL)["api_endpoint"] = quoted(endpoint)
        document.map("defaults")["output_format"] = "table"

    return replaced(path, defaults)


def _endpoint(text: str) -> Endpoint:
    """Parse an endpoint and check that a unix socket belongs to this user."""
    from client.transport.endpoint import check_socket_owner

    endpoint = Endpoint.parse(text)
    if endpoint.kind == "unix":
        try:
            check_socket_owner(endpoint.path)
        except FileNotFoundError:
            pass  # the platform is not running yet
        except OSError as error:
            raise usage(f"api_endpoint: {safe(endpoint.path, 200)} cannot be used: {error.strerror}") from None
    return endpoint
