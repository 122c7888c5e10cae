"""API keys: the form of a secret, and its principal."""

import string
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from service.api.authorization import extract_credential
from service.authn import secret_format
from service.db.engine import Database
from service.db.tables import api_keys
from service.errors import ApiError
from tests.api import Answer
from tests.people import DATA_LAKE, MEMBER, OWNER, WEB_SHOP
from tests.service.access import code
from tests.service.account import Key
from tests.service.inside import Inside
from tests.service.queries import execute
from tests.service.running import Running

ME = "/api/v1/me"
BASE62 = string.digits + string.ascii_letters
BODIES = st.text(BASE62, min_size=30, max_size=30)


def secret_of(body: str) -> str:
    return f"fmk_{body}{secret_format.checksum(body)}"


GOOD = secret_of("aB3" * 10)


def test_a_minted_secret_is_well_formed_and_never_minted_twice() -> None:
    minted = {secret_format.mint() for _ in range(10_000)}
    assert all(secret_format.is_well_formed(secret) and len(secret) == 40 for secret in minted)
    assert len({secret_format.lookup_prefix(secret) for secret in minted}) == len(minted) == 10_000
    secret = minted.pop()
    assert secret[12:] not in secret_format.digest(b"a" * 32, secret)
    assert secret_format.digest(b"a" * 32, secret) != secret_format.digest(b"b" * 32, secret)


@given(BODIES, st.integers(4, 39), st.sampled_from(BASE62))
def test_one_changed_character_is_caught_by_the_checksum(body: str, place: int, other: str) -> None:
    secret = secret_of(body)
    changed = secret[:place] + other + secret[place + 1 :]
    assert secret_format.is_well_formed(changed) is (changed == secret)


def test_anything_but_the_whole_secret_is_not_well_formed() -> None:
    for secret in (
        *(GOOD + "\n", " " + GOOD, GOOD[:-1], GOOD + "0", GOOD.replace("fmk_", "FMK_"), GOOD.swapcase(), GOOD[:12]),
        *(GOOD.replace("fmk_", "fmk_prod_"), GOOD[:-1] + "٣", ""),
    ):
        assert not secret_format.is_well_formed(secret), secret


def test_a_request_has_exactly_one_well_formed_credential() -> None:
    key, other = ("x-api-key", GOOD), ("authorization", "Bearer abc")
    for headers in (
        *([], [key, key], [key, other], [other, other], [key, ("authorization", "")]),
        *([("x-api-key", value)] for value in (f"{GOOD}, {GOOD}", f"Bearer {GOOD}")),
        *([("authorization", value)] for value in (GOOD, "Bearer abc def", "Bearer abc,", "Basic YTpi", "Bearer ")),
    ):
        with pytest.raises(ApiError) as refused:
            extract_credential([(name.encode(), value.encode()) for name, value in headers])
        assert (refused.value.status_code, refused.value.code) == (401, "AUTHENTICATION_REQUIRED"), headers


def with_key(platform: Running, secret: str, path: str = ME) -> Answer:
    return platform.request("GET", path, key=secret)


def changed_key(platform: Running, database: Database, person: str = OWNER, **values: Any) -> str:
    """Return the secret of a new key of a person in Web Shop, whose row has other values."""
    key = Key(platform, "organizations:read", person=person)
    execute(database, update(api_keys).where(api_keys.c.id == key.id).values(values))
    return key.secret


def test_a_key_is_its_creator_in_its_one_tenant(demo: Running) -> None:
    answer = demo.get("/api/v1/me", key="tenant-reader").json()
    assert (answer["email"], answer["tenantId"]) == (OWNER, WEB_SHOP)
    credential = {name: answer["credential"][name] for name in ("kind", "tenantId", "scopes")}
    assert credential == {"kind": "api_key", "tenantId": WEB_SHOP, "scopes": ["organizations:read"]}
    assert [seat["slug"] for seat in answer["organizations"]] == ["aurora-labs"]
    assert demo.get("/api/v1/tenants", key="tenant-reader").json()["defaultTenantId"] == WEB_SHOP


def test_expired_revoked_and_wrong_keys_are_refused_like_unknown_ones(demo: Running, demo_database: Database) -> None:
    now, unknown = datetime.now(UTC), with_key(demo, secret_format.mint())
    assert unknown.status == 401
    secret = changed_key(demo, demo_database, expires_at=now + timedelta(seconds=60))
    assert with_key(demo, secret).status == 200
    wrong = secret_of(secret[4:12] + "z" * 22)
    assert secret_format.lookup_prefix(wrong) == secret_format.lookup_prefix(secret)
    expired = changed_key(demo, demo_database, expires_at=now)
    dead = [demo.key(name) for name in ("old-deploy", "contractor-2025")]
    for refused in (with_key(demo, one) for one in (wrong, expired, *dead)):
        assert (refused.status, refused.body) == (401, unknown.body)


def test_a_bad_checksum_never_reaches_the_database(inside: Inside) -> None:
    secret = secret_of("aB3" * 10)
    for place in range(4, 40):
        wrong = secret[:place] + ("x" if secret[place] != "x" else "y") + secret[place + 1 :]
        assert inside.get("/api/v1/me", {"X-API-Key": wrong}).status_code == 401
    assert inside.statements == []
    assert inside.get("/api/v1/me", {"X-API-Key": secret}).status_code == 401
    assert inside.statements[0].startswith("SELECT api_keys")


PASSING = (["organizations:read"], ["organizations:*"], ["compute:start", "organizations:read"])
REFUSED = ("organizations:write", "compute:*", "organizations:tenants:read", "organizations:*:read")
REFUSED += ("organizations:list", "*", "*:*", "*:read", "Organizations:read", "organizations:read\n")
REFUSED += (" organizations:read", "organizations:read,compute:read")


def test_a_key_reads_tenants_with_the_scope_for_it_only(demo: Running, demo_database: Database) -> None:
    for scopes in (*PASSING, [], *([scope] for scope in REFUSED)):
        answer = with_key(demo, changed_key(demo, demo_database, scopes=scopes), "/api/v1/tenants")
        if scopes in PASSING:
            assert answer.status == 200, scopes
        else:
            assert code(answer) == (403, "INSUFFICIENT_SCOPE"), scopes
    error = demo.get("/api/v1/tenants", key="compute-writer").json()["error"]
    assert error["message"] == "the API key lacks the organizations:read scope"
    assert error["details"] == {"scope": "organizations:read"}


def test_a_key_of_a_limited_member_cannot_leave_their_tenants(demo: Running, demo_database: Database) -> None:
    secret = changed_key(demo, demo_database, MEMBER, tenant_id=DATA_LAKE)
    assert with_key(demo, secret, f"/api/v1/tenants/{DATA_LAKE}").status == 403
    assert code(with_key(demo, secret, "/api/v1/tenants")) == (403, "INSUFFICIENT_PERMISSIONS")
