"""Store secrets in the operating system's keyring.

Each context has an entry with a JSON object of its secrets. Backends that store plain text or drop values are not
trusted. Calls time out after 3 s, for example if a locked keyring waits for the user. Writes are read back.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from client.errors import Exit, FrostError
from client.text import safe

_T = TypeVar("_T")

SERVICE = "frost"
SECONDS = 3.0
BACKEND_VARIABLE = "PYTHON_KEYRING_BACKEND"
"""Variable of the library keyring that names a backend."""
_MEMBERS = ("api_key", "access_token", "refresh_token")
_TRUSTED = {
    "keyring.backends.SecretService": "Keyring",
    "keyring.backends.kwallet": "DBusKeyring",
    "keyring.backends.macOS": "Keyring",
    "keyring.backends.Windows": "WinVaultKeyring",
}


class Unavailable(Exception):
    """No trusted keyring completed the call; the text is the reason."""


def read(entry: str) -> dict[str, Any]:
    """Return the secrets of an entry; empty if it does not exist.

    Raises:
        FrostError: The keyring is unavailable (exit 3).
    """
    try:
        return _run_bounded(lambda: _secrets(_backend(), entry))
    except Unavailable as error:
        raise unavailable(error) from None


def update(entry: str, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Change members of an entry (None removes one). An entry without secrets is deleted.

    Returns:
        The kinds of credential in the entry: `api_key`, `session`.

    Raises:
        Unavailable: No trusted keyring, a timeout, or the keyring did not store the value.
    """
    return _run_bounded(lambda: _update(_backend(), entry, changes))


def unavailable(reason: Unavailable) -> FrostError:
    return FrostError(
        f"the keyring cannot be used: {reason}",
        code="KEYRING_UNAVAILABLE",
        hint="unlock it, or keep credentials in the config file: FROST_CREDENTIAL_STORE=file frost login",
        exit_code=Exit.NOT_SIGNED_IN,
    )


def _update(backend: Any, entry: str, changes: Mapping[str, Any]) -> tuple[str, ...]:
    secrets = {name: value for name, value in {**_secrets(backend, entry), **changes}.items() if value is not None}
    kinds = tuple(
        kind for kind, member in (("api_key", "api_key"), ("session", "refresh_token")) if secrets.get(member)
    )
    if "session" not in kinds and secrets.get("access_token"):
        kinds = (*kinds, "session")
    if not kinds:
        if backend.get_password(SERVICE, entry) is not None:
            backend.delete_password(SERVICE, entry)
        return ()
    text = json.dumps(secrets)
    backend.set_password(SERVICE, entry, text)
    if backend.get_password(SERVICE, entry) != text:
        raise Unavailable("it returned a different value than was stored")
    return kinds


def _secrets(backend: Any, entry: str) -> dict[str, Any]:
    text = backend.get_password(SERVICE, entry)
    try:
        members = json.loads(text) if text else {}
    except ValueError:
        members = {}
    if not isinstance(members, dict):
        return {}
    secrets = {name: members[name] for name in _MEMBERS if isinstance(members.get(name), str)}
    expires = members.get("expires_at")
    return {**secrets, "expires_at": expires} if type(expires) is int else secrets


def _backend() -> Any:
    """Return the trusted backend. Raises Unavailable if there is none, or if the user configured another one."""
    named = os.environ.get(BACKEND_VARIABLE)
    if named is not None and _TRUSTED.get(named.rpartition(".")[0]) != named.rpartition(".")[2]:
        raise Unavailable(f"{BACKEND_VARIABLE} names {safe(named or 'no backend', 100)}, which is not trusted")
    if sys.platform == "linux" and not os.environ.get("DBUS_SESSION_BUS_ADDRESS"):
        raise Unavailable("no keyring in this session")
    from importlib import import_module

    from keyring import core

    chosen = core.load_env() or core.load_config()
    if chosen is not None:
        if _TRUSTED.get(type(chosen).__module__) != type(chosen).__name__:
            configured = safe(f"{type(chosen).__module__}.{type(chosen).__name__}", 100)
            raise Unavailable(f"the keyring in keyringrc.cfg is {configured}, which is not trusted")
        return chosen
    usable: list[Any] = []
    for module, name in _TRUSTED.items():
        backend = getattr(import_module(module), name, None)
        if backend is not None and backend.viable:
            usable.append(backend)
    if not usable:
        raise Unavailable("no keyring in this session")
    return max(usable, key=lambda backend: backend.priority)()


def _run_bounded(work: Callable[[], _T]) -> _T:
    """Run `work` in a thread, abandoned after 3 s: a locked keyring waits for a user who may be absent."""
    done: list[_T] = []
    failed: list[Unavailable] = []

    def run() -> None:
        try:
            done.append(work())
        except Unavailable as error:
            failed.append(error)
        except Exception as error:  # backends raise any type; the text may contain secrets
            failed.append(Unavailable(f"access refused ({type(error).__name__})"))

    worker = threading.Thread(target=run, name="keyring", daemon=True)
    worker.start()
    worker.join(SECONDS)
    if done:
        return done[0]
    raise failed[0] if failed else Unavailable(f"no response within {SECONDS:g} s; it may be locked")
