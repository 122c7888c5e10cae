"""Errors of API key commands, with the flag at fault."""

from collections.abc import Iterator
from contextlib import contextmanager

from client.errors import FrostError
from client.tables.columns import time_text
from client.text import safe
from client.texts.refusals import key_problem, may_exist

_FLAGS = {
    "name": "--name",
    "description": "--description",
    "scopes": "--scopes",
    "rateLimit": "--rate-limit",
    "expiresAt": "--expires",
}


@contextmanager
def explained(expires: str | None) -> Iterator[None]:
    """Add the flag at fault to an error.

    Args:
        expires: The value of `--expires`; None without the flag.
    """
    try:
        yield
    except FrostError as error:
        details = error.details or {}
        if error.code == "API_KEY_EXPIRY_IN_PAST" and expires is None:
            error.message = "the overlap has already ended by the platform's clock"
            now = time_text(details.get("now"))
            error.hint = f"the platform's time is {now}; set this machine's clock, or use --overlap 0"
            raise
        problem = key_problem(error)
        flag = _FLAGS.get(problem.member)
        error.message = f"{flag}: {problem.message}" if flag else problem.message
        if error.code == "SECRET_ALREADY_SHOWN":
            error.hint = f"frost account api-key delete {safe(details.get('apiKeyId'), 80)}"
        elif may_exist(error):
            error.hint = "the key may have been created; list your keys: frost account api-key list"
        raise


@contextmanager
def still_active(key_id: str) -> Iterator[None]:
    """Report, if revoking the old key fails, that the new key exists."""
    try:
        yield
    except FrostError as error:
        error.message = f"the new key was created, but the old one is still valid: {error.message}"
        error.hint = f"frost account api-key revoke {key_id}"
        raise
