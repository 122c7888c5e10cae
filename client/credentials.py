"""Where secrets are: the operating system's keyring when one can be trusted, else the configuration file (mode 0600).

The place is recorded in the context (`credentials: {store: keyring, holds: [session]}`), so reading never has to look
around, and the keyring is only loaded when a secret is really read from or written to it.

Source: design: Identity, contexts, credentials; checklist F18, F19.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from client.errors import Exit, FrostError, usage
from client.text import safe

if TYPE_CHECKING:
    from client.config import Config, Context
    from client.config_edit import Document

VARIABLE = "FROST_CREDENTIAL_STORE"
UNSAVED = "memory"
"""The source of a renewed session that could not be written anywhere."""
_SESSION = ("access_token", "refresh_token", "expires_at")


class Credential(NamedTuple):
    """What signs a request.

    `secret` is the API key or the access token; `expires_at` is in Unix seconds, 0 when unknown; `source` is
    `keyring`, `file`, `memory` (it could not be saved) or, without a credential, empty.
    """

    kind: Literal["session", "api_key", "none"]
    secret: str = ""
    refresh_token: str = ""
    expires_at: int = 0
    source: str = ""

    def __repr__(self) -> str:
        """Never the secrets: a traceback shows this."""
        return f"Credential(kind={self.kind!r}, expires_at={self.expires_at}, source={self.source!r})"


NONE = Credential("none")


def load(config: Config, context: Context) -> Credential:
    """The credential of a context; an API key comes before a session (facts 4.3). `kind` is `none` without one.

    Raises:
        FrostError: It is in the keyring, which does not answer (exit 3).
    """
    if context.credentials.api_key:
        return Credential("api_key", context.credentials.api_key, source="file")
    secrets, source = _secrets(config, context)
    if key := str(secrets.get("api_key") or ""):
        return Credential("api_key", key, source=source)
    return _session(secrets, source, context)


def load_session(config: Config, context: Context) -> Credential:
    """The session of a context, also when an API key goes before it; `kind` is `none` without one."""
    secrets, source = _secrets(config, context)
    return _session(secrets, source, context)


def save_session(config: Config, name: str, session: Credential, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Keeps the session of a sign-in for the context; returns notices (said when it had to go to the file).

    Raises:
        FrostError: The context has another endpoint than in `config` (exit 6), or the file cannot be written.
    """
    return _save(config, name, _session_members(session), environ)


def save_api_key(config: Config, name: str, key: str, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Keeps an API key for the context; returns notices (said when it had to go to the file)."""
    return _save(config, name, {"api_key": key}, environ)


def replace_session(config: Config, context: Context, session: Credential) -> None:
    """Writes a rotated pair where the old one is; the place does not change with a refresh.

    Raises:
        FrostError: It could not be written, or the context's session is gone meanwhile; the pair is still good.
    """
    from client.config_edit import edit

    with edit(config.path) as document:
        if context.name not in document.names() or document.context(context.name).get("session") == "ended":
            raise FrostError("the context was signed out meanwhile", code="CONTEXT_CHANGED", exit_code=Exit.CONFLICT)
        _check_endpoint(document, context)
        if context.credentials.store != "keyring":
            document.credentials(context.name).update(_text(_session_members(session)))
            return
        from client import keyring_store

        try:
            keyring_store.update(entry(config, context.name), _session_members(session))
        except keyring_store.Unavailable as error:
            raise keyring_store.unavailable(error) from None


def forget(config: Config, name: str, *, ended: bool) -> list[str]:
    """Forgets the session of the context; an API key stays.

    Args:
        config: The file as read.
        name: The context.
        ended: Record that the session has ended, so that the context does not sign in by itself again.

    Returns:
        Notices for the person.
    """
    from client.config_edit import edit

    with edit(config.path) as document:
        notices = _remove(document, name, "session")
        if ended:
            document.context(name)["session"] = "ended"
        else:
            document.context(name).pop("session", None)
    return notices


def forget_api_key(config: Config, name: str) -> list[str]:
    """Remove the API key of a context; its session stays. Returns notices for the person."""
    from client.config_edit import edit

    with edit(config.path) as document:
        document.context(name).pop("api_key", None)
        return _remove(document, name, "api_key")


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
    """Forgets what the keyring has of a context that is to go from the file; returns notices for the person."""
    if document.credentials(name).get("store") != "keyring":
        return []
    from client import keyring_store

    try:
        keyring_store.update(document.entry(name), dict.fromkeys(("api_key", *_SESSION)))
    except keyring_store.Unavailable as error:
        return [f"the credentials could not be removed from the keyring: {error}"]
    return []


def entry(config: Config, name: str) -> str:
    """The keyring's user name for a context: `<file id>/<context>`."""
    return f"{config.file_id}/{name}"


def context_changed(name: str) -> FrostError:
    """The failure of who worked for an endpoint that the context has no longer."""
    return FrostError(
        f"context {safe(name)} has another endpoint now; no session is kept or used across endpoints",
        code="CONTEXT_CHANGED",
        hint="begin again, or sign in: frost login",
        exit_code=Exit.CONFLICT,
    )


def _check_endpoint(document: Document, context: Context) -> None:
    """A session is only kept for the platform that began it: the next request would send it wherever the file says."""
    begun = "" if context.sources["api_endpoint"] == "default" else context.api_endpoint
    now = document.context(context.name).get("api_endpoint")
    if ("" if now in (None, "~", "null") else str(now)) != begun:
        raise context_changed(context.name)


def _save(config: Config, name: str, members: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    wanted = environ.get(VARIABLE, "")
    if wanted not in ("", "keyring", "file"):
        raise usage(f"{VARIABLE} is keyring or file, not {safe(wanted, 40)!r}")
    from client import keyring_store
    from client.config_edit import edit

    notices: list[str] = []
    with edit(config.path) as document:
        if "access_token" in members and name in config.contexts:
            _check_endpoint(document, config.contexts[name])
        document.context(name).pop("session", None)
        credentials = document.credentials(name)
        if wanted != "file":
            try:
                kinds = keyring_store.update(document.entry(name), {**_in_file(document, name), **members})
            except keyring_store.Unavailable as error:
                if wanted == "keyring":
                    raise keyring_store.unavailable(error) from None
                if not _in_file(document, name):  # said when the place of the secrets changes, not at every sign-in
                    notices.append(
                        f"no keyring keeps the credential ({error}): it is in {safe(config.path)}, "
                        "readable by you alone"
                    )
            else:
                _clear(document, name)
                credentials["store"] = "keyring"
                credentials["holds"] = list(kinds)
                # The file may stay as it is: who watches it, an open screen, is to look into the keyring again.
                with suppress(OSError):
                    os.utime(config.path)
                return []
        if credentials.get("store") == "keyring":
            notices += _leave_keyring(document.entry(name), credentials, members)
        if "api_key" in members:
            document.context(name).pop("api_key", None)
        credentials.update(_text(members))
    return notices


def _in_file(document: Document, name: str) -> dict[str, Any]:
    """The secrets of the context that still stand in the file: they move to the keyring together."""
    credentials, member = document.credentials(name), document.context(name)
    found = {one: str(credentials[one]) for one in ("api_key", *_SESSION) if credentials.get(one)}
    if member.get("api_key"):
        found.setdefault("api_key", str(member["api_key"]))
    return found


def _clear(document: Document, name: str) -> None:
    document.context(name).pop("api_key", None)
    for member in ("api_key", *_SESSION):
        document.credentials(name).pop(member, None)


def _leave_keyring(place: str, credentials: Any, members: Mapping[str, Any]) -> list[str]:
    """Takes what the keyring holds beside `members` to the file as well; what cannot be had is given up and told."""
    from client import keyring_store

    credentials.pop("store", None)
    credentials.pop("holds", None)
    try:
        held = keyring_store.read(place)
        keyring_store.update(place, dict.fromkeys(("api_key", *_SESSION)))
    except (FrostError, keyring_store.Unavailable):
        return ["what the keyring held for this context could not be read and is no longer used"]
    credentials.update(
        _text({name: held[name] for name in ("api_key", *_SESSION) if name in held and name not in members})
    )
    return []


def _remove_from_keyring(place: str, credentials: Any, kind: str, members: tuple[str, ...]) -> list[str]:
    from client import keyring_store

    notices: list[str] = []
    try:
        kinds = keyring_store.update(place, dict.fromkeys(members))
    except keyring_store.Unavailable as error:
        kinds = tuple(held for held in credentials.get("holds") or () if held != kind)
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
    """Members as they stand in the file."""
    from client.config_edit import quoted

    return {
        name: quoted(str(value)) if name != "expires_at" else str(value) for name, value in members.items() if value
    }


def _secrets(config: Config, context: Context) -> tuple[Mapping[str, Any], str]:
    if context.credentials.store != "keyring":
        return context.credentials._asdict(), "file"
    from client import keyring_store

    return keyring_store.read(entry(config, context.name)), "keyring"


def _session(secrets: Mapping[str, Any], source: str, context: Context) -> Credential:
    access, refresh = str(secrets.get("access_token") or ""), str(secrets.get("refresh_token") or "")
    if context.session_ended or not (access or refresh):
        return NONE
    return Credential("session", access, refresh, int(secrets.get("expires_at") or 0), source)
