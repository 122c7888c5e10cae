"""Store secrets in the operating system's keyring if it is trusted, else in the configuration file (mode 0600).

The context records the store (`credentials: {store: keyring, holds: [session]}`), so the keyring is loaded only to read
or write a secret in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from client.errors import Exit, FrostError, usage
from client.text import safe

if TYPE_CHECKING:
    from client.config.reader import Config, Context
    from client.config.writer import Document

VARIABLE = "FROST_CREDENTIAL_STORE"
CONTEXT_CHANGED = "CONTEXT_CHANGED"
"""Code of the error for a context that another process changed since it was read."""
IN_MEMORY = "memory"
"""The source of a renewed session that could not be saved."""
_SESSION = ("access_token", "refresh_token", "expires_at")


class Credential(NamedTuple):
    """A credential for requests.

    `secret` is the API key or the access token; `expires_at` is in Unix seconds, 0 if unknown; `source` is `keyring`,
    `file`, `memory` (not saved) or, without a credential, empty.
    """

    kind: Literal["session", "api_key", "none"]
    secret: str = ""
    refresh_token: str = ""
    expires_at: int = 0
    source: str = ""

    def __repr__(self) -> str:
        """Omit secrets: tracebacks show this text."""
        return f"Credential(kind={self.kind!r}, expires_at={self.expires_at}, source={self.source!r})"


NO_CREDENTIAL = Credential("none")


def load(config: Config, context: Context) -> Credential:
    """Return the credential of a context, with kind `none` if missing. An API key takes precedence over a session.

    Raises:
        FrostError: The credential is in the keyring, which is unavailable (exit 3).
    """
    if context.credentials.api_key:
        return Credential("api_key", context.credentials.api_key, source="file")
    secrets, source = _secrets(config, context)
    if key := str(secrets.get("api_key") or ""):
        return Credential("api_key", key, source=source)
    return _session(secrets, source, context)


def load_session(config: Config, context: Context) -> Credential:
    """Return the session of a context, even if it has an API key; with kind `none` if missing."""
    secrets, source = _secrets(config, context)
    return _session(secrets, source, context)


def save_session(config: Config, name: str, session: Credential, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Store the session of a sign-in. Return notices, for example that it is stored in the file.

    Raises:
        FrostError: The context has another endpoint than in `config` (exit 6), or the file cannot be written.
    """
    return _save(config, name, _session_members(session), environ)


def save_api_key(config: Config, name: str, key: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Store an API key for a context. Return notices, for example that it is stored in the file.

    Raises:
        FrostError: The context has another endpoint than in `config` (exit 6), or the file cannot be written.
    """
    return _save(config, name, {"api_key": key}, environ)


def replace_session(config: Config, context: Context, session: Credential) -> None:
    """Store a refreshed session in the store of the old one.

    Raises:
        FrostError: It cannot be written, or the context was signed out or changed; the session is still valid.
    """
    from client.config.writer import edit

    with edit(config.path) as document:
        if context.name not in document.names() or document.context(context.name).get("session") == "ended":
            raise FrostError(
                "another process has signed out of the context", code=CONTEXT_CHANGED, exit_code=Exit.CONFLICT
            )
        _check_endpoint(document, context)
        if context.credentials.store != "keyring":
            document.credentials(context.name).update(_text(_session_members(session)))
            return
        from client.auth import keyring_store

        try:
            keyring_store.update(entry(config, context.name), _session_members(session))
        except keyring_store.Unavailable as error:
            raise keyring_store.unavailable(error) from None


def forget(config: Config, name: str, *, ended: bool) -> list[str]:
    """Remove the session of a context; its API key is kept.

    Args:
        config: The loaded file.
        name: The context.
        ended: Record that the session has ended, which disables automatic sign-in.

    Returns:
        Notices for the user.
    """
    from client.config.writer import edit

    with edit(config.path) as document:
        notices = _remove(document, name, "session")
        if ended:
            document.context(name)["session"] = "ended"
        else:
            document.context(name).pop("session", None)
    return notices


def forget_api_key(config: Config, name: str) -> list[str]:
    """Remove the API key of a context; its session is kept. Return notices."""
    from client.config.writer import edit

    with edit(config.path) as document:
        document.context(name).pop("api_key", None)
        return _remove(document, name, "api_key")


def remove_all(document: Document, name: str) -> list[str]:
    """Remove the session and the API key of a context in an edited file. Return notices."""
    member = document.context(name)
    member.pop("session", None)
    member.pop("api_key", None)
    return [*_remove(document, name, "session"), *_remove(document, name, "api_key")]


def _remove(document: Document, name: str, kind: str) -> list[str]:
    """Remove the credential of one kind from the file, and from the keyring if it is there."""
    credentials = document.credentials(name)
    members = _SESSION if kind == "session" else ("api_key",)
    for member in members:
        credentials.pop(member, None)
    notices: list[str] = []
    if credentials.get("store") == "keyring":
        notices = _remove_from_keyring(document.entry(name), credentials, kind, members)
    if not credentials:
        document.context(name).pop("credentials")
    return notices


def forget_in_keyring(document: Document, name: str) -> list[str]:
    """Remove the secrets of a context from the keyring, before the context is removed. Return notices."""
    if document.credentials(name).get("store") != "keyring":
        return []
    from client.auth import keyring_store

    try:
        keyring_store.update(document.entry(name), dict.fromkeys(("api_key", *_SESSION)))
    except keyring_store.Unavailable as error:
        return [f"the credentials could not be removed from the keyring: {error}"]
    return []


def entry(config: Config, name: str) -> str:
    """Return a context's user name in the keyring: `<file id>/<context>`."""
    return f"{config.file_id}/{name}"


def context_changed(name: str) -> FrostError:
    """Return the error for a context that has another endpoint now."""
    return FrostError(
        f"context {safe(name)} has another endpoint now; credentials are not used across endpoints",
        code=CONTEXT_CHANGED,
        hint="check it: frost config get-contexts",
        exit_code=Exit.CONFLICT,
    )


def _check_endpoint(document: Document, context: Context) -> None:
    """Require the endpoint that issued the credential: later requests send it to the endpoint in the file."""
    begun = "" if context.sources["api_endpoint"] == "default" else context.api_endpoint
    now = document.context(context.name).get("api_endpoint")
    if ("" if now in (None, "~", "null") else str(now)) != begun:
        raise context_changed(context.name)


def _save(config: Config, name: str, members: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    store = environ.get(VARIABLE, "")
    if store not in ("", "keyring", "file"):
        raise usage(f"{VARIABLE} is keyring or file, not {safe(store, 40)!r}")
    from client.auth import keyring_store
    from client.config.writer import edit

    notices: list[str] = []
    with edit(config.path) as document:
        if name in config.contexts:
            _check_endpoint(document, config.contexts[name])
        document.context(name).pop("session", None)
        credentials = document.credentials(name)
        if store != "file":
            try:
                kinds = keyring_store.update(document.entry(name), {**_in_file(document, name), **members})
            except keyring_store.Unavailable as error:
                if store == "keyring":
                    raise keyring_store.unavailable(error) from None
                if not _in_file(document, name):  # only when the store changes, not at every sign-in
                    notices.append(
                        f"no keyring is available ({error}): the credential is in {safe(config.path)}, "
                        "readable only by you"
                    )
            else:
                _clear(document, name)
                credentials["store"] = "keyring"
                credentials["holds"] = list(kinds)
                # Open screens watch the file, and must read the keyring again even if the text is the same.
                with suppress(OSError):
                    os.utime(config.path)
                return []
        if credentials.get("store") == "keyring":
            notices += _move_to_file(document.entry(name), credentials, members)
        if "api_key" in members:
            document.context(name).pop("api_key", None)
        credentials.update(_text(members))
    return notices


def _in_file(document: Document, name: str) -> dict[str, Any]:
    """Return the context's secrets in the file, which move to the keyring together."""
    credentials, member = document.credentials(name), document.context(name)
    secrets = {one: str(credentials[one]) for one in ("api_key", *_SESSION) if credentials.get(one)}
    if member.get("api_key"):
        secrets.setdefault("api_key", str(member["api_key"]))
    return secrets


def _clear(document: Document, name: str) -> None:
    document.context(name).pop("api_key", None)
    for member in ("api_key", *_SESSION):
        document.credentials(name).pop(member, None)


def _move_to_file(user_name: str, credentials: Any, members: Mapping[str, Any]) -> list[str]:
    """Move the secrets that are not in `members` from the keyring to the file. Return a notice if they are lost."""
    from client.auth import keyring_store

    credentials.pop("store", None)
    credentials.pop("holds", None)
    try:
        secrets = keyring_store.read(user_name)
        keyring_store.update(user_name, dict.fromkeys(("api_key", *_SESSION)))
    except (FrostError, keyring_store.Unavailable):
        return ["the credentials of this context in the keyring could not be read and are no longer used"]
    credentials.update(
        _text({name: secrets[name] for name in ("api_key", *_SESSION) if name in secrets and name not in members})
    )
    return []


def _remove_from_keyring(user_name: str, credentials: Any, kind: str, members: tuple[str, ...]) -> list[str]:
    from client.auth import keyring_store

    notices: list[str] = []
    try:
        kinds = keyring_store.update(user_name, dict.fromkeys(members))
    except keyring_store.Unavailable as error:
        kinds = tuple(name for name in credentials.get("holds") or () if name != kind)
        what = "session" if kind == "session" else "API key"
        notices.append(f"the {what} could not be removed from the keyring: {error}")
    credentials["holds"] = list(kinds)
    if not kinds:
        credentials.pop("store", None)
        credentials.pop("holds", None)
    return notices


def _session_members(session: Credential) -> dict[str, Any]:
    return {
        "access_token": session.secret,
        "refresh_token": session.refresh_token or None,
        "expires_at": session.expires_at or None,
    }


def _text(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return members with values as text for the file."""
    from client.config.writer import quoted

    return {
        name: quoted(str(value)) if name != "expires_at" else str(value) for name, value in members.items() if value
    }


def _secrets(config: Config, context: Context) -> tuple[Mapping[str, Any], str]:
    if context.credentials.store != "keyring":
        return context.credentials._asdict(), "file"
    from client.auth import keyring_store

    return keyring_store.read(entry(config, context.name)), "keyring"


def _session(secrets: Mapping[str, Any], source: str, context: Context) -> Credential:
    access, refresh = str(secrets.get("access_token") or ""), str(secrets.get("refresh_token") or "")
    if context.session_ended or not (access or refresh):
        return NO_CREDENTIAL
    return Credential("session", access, refresh, int(secrets.get("expires_at") or 0), source)
