"""A new API key as a context: its secret is saved in the credential store and never shown."""

from typing import Any

from client import contexts
from client.api import keys
from client.auth import credential_store
from client.commands.invocation import Invocation
from client.config import reader
from client.errors import FrostError
from client.tables import account as tables_account
from client.text import safe


def check(run: Invocation, name: str) -> None:
    """Refuse a name that no new context can have. Raises FrostError (exit 2, 6)."""
    contexts.check_new(run.config, name)


def save(run: Invocation, name: str, created: dict[str, Any]) -> None:
    """Create the context and print the key. A key whose secret cannot be stored is deleted, since it would be lost.

    Raises:
        FrostError: The config file or the keyring is not writable.
    """
    key = created["apiKey"]
    try:
        contexts.add_new(run.config, name, str(run.connection.endpoint), key["tenantId"])
        try:
            notices = credential_store.save_api_key(run.config, name, created["key"])
        except FrostError:
            contexts.remove(reader.load(run.config.path), name)
            raise
    except FrostError as error:
        error.message = f"the new key could not be stored: {error.message}"
        _delete_again(run, key, error)
        raise
    if run.output.structured:
        run.output.document({"apiKey": key, "context": name})
    else:
        run.output.record(tables_account.API_KEY, key)
        run.output.note(f"context {safe(name)} has the key; use it with: frost config use-context {safe(name)}")
    for notice in notices:
        run.output.warn(notice)


def _delete_again(run: Invocation, key: dict[str, Any], error: FrostError) -> None:
    try:
        run.call(keys.delete(key["tenantId"], key["id"]))
    except FrostError:
        error.message += f"; key {key['id']} still exists"
        error.hint = f"frost account api-key delete {key['id']}"
    else:
        error.message += "; the key was deleted"
