"""Models of keys, and the idempotency of their calls."""

from typing import Any

import pytest

from client.api import account
from client.api import keys as key_calls
from client.models.keys import ApiKey, NewKey, RotatedKey

SECRET = "fmk_abcdefghijklmnopqrstuvwxyz0123456789"
KEY: dict[str, Any] = {
    "id": "k-1",
    "tenantId": "t-1",
    "tenantName": "Web Shop",
    "name": "ci",
    "description": "",
    "keyPrefix": "fmk_abcdefgh",
    "scopes": ["compute:read"],
    "rateLimit": 600,
    "status": "active",
    "createdAt": "2026-01-02T03:04:05.250Z",
    "expiresAt": "2027-01-02T03:04:05Z",
    "revokedAt": None,
    "lastUsedAt": None,
    "creatorId": "u-1",
    "creatorName": "A",
    "creatorEmail": "a@b.example",
}


def test_a_key_goes_back_to_the_wire_as_it_came() -> None:
    assert ApiKey.model_validate(KEY).wire() == KEY
    assert ApiKey.model_validate({**KEY, "status": "suspended", "fromTheFuture": 1}).status == "suspended"


@pytest.mark.parametrize("made", [NewKey, RotatedKey])
def test_the_secret_is_in_the_answer_and_in_no_traceback(made: type[NewKey]) -> None:
    found = made.model_validate({"apiKey": KEY, "key": SECRET, "replaced": KEY, "grants": 2})
    assert found.key == SECRET
    assert SECRET not in f"{found!r}{found}"


def test_creation_has_an_idempotency_key_and_rotation_has_none() -> None:
    """A repeated creation makes one key; a rotation is not sent again."""
    assert key_calls.create("t-1", "ci", ["dns:*"]).request.idempotency_key
    assert key_calls.rotate("t-1", "k-1", retire_at="2027-01-01T00:00:00Z").request.idempotency_key is None


def test_a_body_has_only_the_given_members() -> None:
    assert key_calls.create("t-1", "ci", ["dns:*"]).request.body == {"name": "ci", "scopes": ["dns:*"]}
    assert key_calls.update("t-1", "k-1", description="").request.body == {"description": ""}
    assert account.delete("a+b@c").request.query == (("email", "a+b@c"),)
