"""The calls about keys, sessions and the account: what they send, and their models."""

import json
from typing import Any

import pytest

from client.api import account
from client.api import keys as key_calls
from client.models.account import ApiKey, NewKey, RotatedKey
from client.transport.async_client import AsyncClient
from tests.client.wire import Context, Service, answer

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
SESSION: dict[str, Any] = {
    "id": "s-1",
    "device": "thinkpad",
    "place": "Oslo",
    "startedAt": "2026-01-02T03:04:05Z",
    "lastSeenAt": "2026-01-02T03:04:05Z",
    "expiresAt": "2026-02-02T03:04:05Z",
    "current": True,
}


def test_a_key_goes_back_to_the_wire_as_it_came() -> None:
    assert ApiKey.model_validate(KEY).wire() == KEY
    assert ApiKey.model_validate({**KEY, "status": "suspended", "fromTheFuture": 1}).status == "suspended"


@pytest.mark.parametrize("made", [NewKey, RotatedKey])
def test_the_secret_is_in_the_answer_and_in_no_traceback(made: type[NewKey]) -> None:
    found = made.model_validate({"apiKey": KEY, "key": SECRET, "replaced": KEY, "grants": 2})
    assert found.key == SECRET
    assert SECRET not in f"{found!r}{found}"


async def test_every_call_asks_for_what_it_is_named_after() -> None:
    given = [
        answer(200, {"apiKeys": [KEY]}),
        answer(200, KEY),
        answer(201, {"apiKey": KEY, "key": SECRET}),
        answer(201, {"apiKey": KEY, "key": SECRET}),
        answer(200, KEY, X_Frost_Changed="false"),
        answer(200, {**KEY, "status": "revoked"}, X_Frost_Changed="true"),
        answer(201, {"apiKey": KEY, "key": SECRET, "replaced": KEY, "grants": 2}),
        answer(200, {"scopes": [{"scope": "iam:*", "enforced": True, "held": False, "lacks": ["iam:policies:list"]}]}),
        answer(204),
        answer(200, {"sessions": [SESSION]}),
        answer(200, {"ended": 3}),
        answer(200, {"scopes": [{"scope": "compute:start", "description": "d", "enforced": False}]}),
        answer(200, {"email": "a@b", "deletedAt": SESSION["startedAt"], "restorableUntil": SESSION["expiresAt"]}),
    ]
    with Service(*given) as service:
        async with AsyncClient(Context(service.endpoint)) as client:
            assert [one.wire() for one in await client.ask(key_calls.own())] == [KEY]
            assert (await client.ask(key_calls.get("t-1", "k-1"))).wire() == KEY
            assert (await client.ask(key_calls.create("t-1", "ci", ["compute:read"]))).key == SECRET
            await client.ask(
                key_calls.create(
                    "t-1", "ci", ["dns:*"], description="d", expires_at="2027-01-01T00:00:00Z", rate_limit=5
                )
            )
            assert not (await client.change(key_calls.update("t-1", "k-1", description="", scopes=["dns:*"]))).changed
            revoked = await client.change(key_calls.revoke("t-1", "k-1"))
            assert (revoked.changed, revoked.record.status) == (True, "revoked")
            rotated = await client.ask(key_calls.rotate("t-1", "k-1", retire_at="2027-01-01T00:00:00Z"))
            assert (rotated.grants, rotated.replaced.id) == (2, "k-1")
            assert [(one.held, one.lacks) for one in await client.ask(key_calls.grantable_scopes("t-1"))] == [
                (False, ("iam:policies:list",))
            ]
            await client.ask(key_calls.delete("t-1", "k-1"))
            assert [one.wire() for one in await client.ask(account.sessions())] == [SESSION]
            assert (await client.ask(account.revoke_all_sessions())).ended == 3
            assert [one.enforced for one in await client.ask(account.scopes())] == [False]
            assert (await client.ask(account.delete("a+b@c"))).email == "a@b"
    keys = "/api/v1/tenants/t-1/api-keys"
    assert [(one.method, one.target) for one in service.heard] == [
        ("GET", "/api/v1/me/api-keys"),
        ("GET", f"{keys}/k-1"),
        ("POST", keys),
        ("POST", keys),
        ("PATCH", f"{keys}/k-1"),
        ("POST", f"{keys}/k-1/revoke"),
        ("POST", f"{keys}/k-1/rotate"),
        ("GET", "/api/v1/tenants/t-1/scopes"),
        ("DELETE", f"{keys}/k-1"),
        ("GET", "/api/v1/sessions"),
        ("POST", "/api/v1/sessions/revoke-all"),
        ("GET", "/api/v1/scopes"),
        ("DELETE", "/api/v1/me?email=a%2Bb%40c"),
    ]
    bodies = [json.loads(one.body) if one.body else None for one in service.heard]
    assert bodies[2:7] == [
        {"name": "ci", "scopes": ["compute:read"]},
        {
            "name": "ci",
            "scopes": ["dns:*"],
            "description": "d",
            "expiresAt": "2027-01-01T00:00:00Z",
            "rateLimit": 5,
        },
        {"description": "", "scopes": ["dns:*"]},
        None,
        {"retireAt": "2027-01-01T00:00:00Z"},
    ]
    # Made twice under one idempotency key is made once; a rotation has none and is not sent again.
    assert [("idempotency-key" in one.headers) for one in service.heard[2:7]] == [True, True, False, False, False]
