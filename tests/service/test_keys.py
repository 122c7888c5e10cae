"""API keys: the form of a secret, and its principal."""

import string
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, select, update

from service.api.authorization import extract_credential
from service.authn import secret_format
from service.db.engine import Database
from service.db.tables import api_keys, memberships, users
from service.errors import ApiError
from tests.homes import Answer
from tests.service import factories
from tests.service.inside import Inside
from tests.service.running import AURORA, BOREALIS, DATA_LAKE, MEMBER, OWNER, WEB_SHOP, Running

BASE62 = string.digits + string.ascii_letters
BODIES = st.text(BASE62, min_size=30, max_size=30)


def secret_of(body: str) -> str:
    return f"fmk_{body}{secret_format.checksum(body)}"


def test_a_minted_secret_is_well_formed_and_never_minted_twice() -> None:
    minted = {secret_format.mint() for _ in range(2000)}
    assert len(minted) == 2000
    assert all(secret_format.is_well_formed(secret) and len(secret) == 40 for secret in minted)
    assert len({secret_format.lookup_prefix(secret) for secret in minted}) == 2000


@given(BODIES, st.integers(4, 39), st.sampled_from(BASE62))
def test_one_changed_character_is_caught_by_the_checksum(body: str, place: int, other: str) -> None:
    secret = secret_of(body)
    changed = secret[:place] + other + secret[place + 1 :]
    assert secret_format.is_well_formed(changed) is (changed == secret)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda secret: secret + "\n",
        lambda secret: " " + secret,
        lambda secret: secret[:-1],
        lambda secret: secret + "0",
        lambda secret: secret.replace("fmk_", "FMK_"),
        lambda secret: secret.swapcase(),
        lambda secret: secret[:12],
        lambda secret: secret.replace("fmk_", "fmk_prod_"),
        lambda secret: secret[:-1] + "٣",
        lambda _: "",
    ],
)
def test_anything_but_the_whole_secret_is_not_well_formed(spoil: Callable[[str], str]) -> None:
    assert not secret_format.is_well_formed(spoil(secret_of("aB3" * 10)))


def test_a_stored_digest_hides_the_secret_and_depends_on_the_platform() -> None:
    secret = secret_format.mint()
    assert secret[12:] not in secret_format.digest(b"a" * 32, secret)
    assert secret_format.digest(b"a" * 32, secret) != secret_format.digest(b"b" * 32, secret)


GOOD = secret_of("aB3" * 10).encode()


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"x-api-key", GOOD), (b"x-api-key", GOOD)],
        [(b"x-api-key", GOOD), (b"authorization", b"Bearer abc")],
        [(b"authorization", b"Bearer abc"), (b"authorization", b"Bearer abc")],
        [(b"x-api-key", GOOD + b", " + GOOD)],
        [(b"x-api-key", b"Bearer " + GOOD)],
        [(b"authorization", GOOD)],
        [(b"authorization", b"Bearer abc def")],
        [(b"authorization", b"Bearer abc,")],
        [(b"authorization", b"Basic YTpi")],
        [(b"authorization", b"Bearer ")],
        [(b"x-api-key", GOOD), (b"authorization", b"")],
    ],
)
def test_a_request_has_exactly_one_well_formed_credential(headers: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(ApiError) as refused:
        extract_credential(headers)
    assert (refused.value.status_code, refused.value.code) == (401, "AUTHENTICATION_REQUIRED")


def with_key(platform: Running, secret: str, path: str = "/api/v1/me", **headers: str) -> Answer:
    return platform.request("GET", path, {"X-API-Key": secret, **headers})


@contextmanager
def made_key(database: Database, platform: Running, **values: Any) -> Iterator[str]:
    """A key of the owner in Web Shop with `organizations:*`, unless said otherwise."""
    secret, now = secret_format.mint(), datetime.now(UTC)
    platform_secret = (platform.folder / "secret.key").read_bytes()
    with database.read() as connection:
        owner = connection.scalar(select(users.c.id).where(users.c.email == values.pop("by", OWNER)))
    members = {
        "key_prefix": secret_format.lookup_prefix(secret),
        "key_hash": secret_format.digest(platform_secret, secret),
        "scopes": ["organizations:*"],
        "rate_limit": 600,
    }
    row = factories.api_key(str(uuid4()), now, **{"tenant_id": WEB_SHOP, "user_id": owner} | members | values)
    with database.write() as connection:
        factories.add(connection, {api_keys: row})
    yield secret
    with database.write() as connection:
        connection.execute(delete(api_keys).where(api_keys.c.id == row["id"]))


def test_a_key_is_its_creator_in_its_one_tenant(demo: Running) -> None:
    answer = demo.get("/api/v1/me", key="tenant-reader").json()
    assert answer["email"] == OWNER
    assert answer["tenantId"] == WEB_SHOP
    assert answer["credential"]["kind"] == "api_key"
    assert answer["credential"]["tenantId"] == WEB_SHOP
    assert answer["credential"]["scopes"] == ["organizations:read"]
    assert [seat["slug"] for seat in answer["organizations"]] == ["aurora-labs"]


@pytest.mark.parametrize("name", ["old-deploy", "contractor-2025"])
def test_expired_and_revoked_keys_are_refused_like_unknown_ones(demo: Running, name: str) -> None:
    unknown = with_key(demo, secret_format.mint())
    refused = demo.get("/api/v1/me", key=name)
    assert refused.status == unknown.status == 401
    assert refused.body == unknown.body


def test_a_key_works_until_its_expiry_and_not_at_it(demo: Running, demo_database: Database) -> None:
    now = datetime.now(UTC)
    with made_key(demo_database, demo, expires_at=now + timedelta(seconds=60)) as secret:
        assert with_key(demo, secret).status == 200
    with made_key(demo_database, demo, expires_at=now) as secret:
        assert with_key(demo, secret).status == 401


def test_the_right_prefix_with_another_secret_is_refused(demo: Running, demo_database: Database) -> None:
    with made_key(demo_database, demo) as secret:
        body = secret[4:12] + "z" * 22
        assert secret_format.lookup_prefix(secret_of(body)) == secret_format.lookup_prefix(secret)
        assert with_key(demo, secret_of(body)).status == 401


def test_a_repeated_key_header_is_refused(demo: Running) -> None:
    line = f"X-API-Key: {demo.key('tenant-reader')}\r\n"
    answer = demo.raw(f"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{line}{line}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 401")


def test_a_bad_checksum_never_reaches_the_database(inside: Inside) -> None:
    secret = secret_of("aB3" * 10)
    for place in range(4, 40):
        wrong = secret[:place] + ("x" if secret[place] != "x" else "y") + secret[place + 1 :]
        assert inside.get("/api/v1/me", {"X-API-Key": wrong}).status_code == 401
    assert inside.statements == []
    assert inside.get("/api/v1/me", {"X-API-Key": secret}).status_code == 401
    assert inside.statements[0].startswith("SELECT api_keys")


@pytest.mark.parametrize(
    ("scopes", "status", "code"),
    [
        (["organizations:read"], 200, None),
        (["organizations:*"], 200, None),
        (["compute:read", "organizations:read"], 200, None),
        (["organizations:write"], 403, "INSUFFICIENT_SCOPE"),
        (["compute:*"], 403, "INSUFFICIENT_SCOPE"),
        (["organizations:tenants:read"], 403, "INSUFFICIENT_SCOPE"),
        (["organizations:*:read"], 403, "INSUFFICIENT_SCOPE"),
        (["organizations:list"], 403, "INSUFFICIENT_SCOPE"),
        (["*"], 403, "INSUFFICIENT_SCOPE"),
        (["*:*"], 403, "INSUFFICIENT_SCOPE"),
        (["*:read"], 403, "INSUFFICIENT_SCOPE"),
        (["Organizations:read"], 403, "INSUFFICIENT_SCOPE"),
        (["organizations:read\n"], 403, "INSUFFICIENT_SCOPE"),
        ([" organizations:read"], 403, "INSUFFICIENT_SCOPE"),
        (["organizations:read,compute:read"], 403, "INSUFFICIENT_SCOPE"),
        ([], 403, "INSUFFICIENT_SCOPE"),
    ],
)
def test_a_key_reads_tenants_with_the_scope_for_it_only(
    demo: Running, demo_database: Database, scopes: list[str], status: int, code: str | None
) -> None:
    with made_key(demo_database, demo, scopes=scopes) as secret:
        answer = with_key(demo, secret, "/api/v1/tenants")
        assert (answer.status, (answer.json().get("error") or {}).get("code")) == (status, code)


def test_a_missing_scope_is_named(demo: Running) -> None:
    error = demo.get("/api/v1/tenants", key="compute-writer").json()["error"]
    assert error["message"] == "the API key lacks the organizations:read scope"
    assert error["details"] == {"scope": "organizations:read"}


def test_a_key_with_only_unenforced_scopes_is_denied_everywhere(demo: Running, demo_database: Database) -> None:
    with made_key(demo_database, demo, scopes=["compute:start", "cdn:purge"]) as secret:
        assert with_key(demo, secret).json()["error"]["code"] == "INSUFFICIENT_SCOPE"
    with made_key(demo_database, demo, scopes=["compute:start", "compute:read"]) as secret:
        assert with_key(demo, secret).status == 200


def test_a_key_lists_its_one_tenant_and_its_organization(demo: Running) -> None:
    listed = demo.get("/api/v1/tenants", key="tenant-reader").json()
    assert [tenant["id"] for tenant in listed["tenants"]] == [WEB_SHOP]
    assert listed["defaultTenantId"] == WEB_SHOP
    of_aurora = demo.get(f"/api/v1/organizations/{AURORA}/tenants", key="tenant-reader").json()
    assert [tenant["id"] for tenant in of_aurora["tenants"]] == [WEB_SHOP]
    assert demo.get(f"/api/v1/organizations/{BOREALIS}/tenants", key="tenant-reader").status == 403


ADMIN_ID = "d163ed25-e98a-4276-adff-ba7d1c098f94"
SEAT = memberships.c.user_id == ADMIN_ID
LOSSES: dict[str, tuple[Any, tuple[int, str]]] = {
    "role": (update(memberships).where(SEAT).values(role="member"), (403, "PERMISSION_DENIED")),
    "membership": (delete(memberships).where(SEAT), (403, "TENANT_ACCESS_DENIED")),
    "limited": (update(memberships).where(SEAT).values(limited=True), (403, "TENANT_ACCESS_DENIED")),
    "account": (
        update(users).where(users.c.id == ADMIN_ID).values(deleted_at=datetime(2026, 1, 1, tzinfo=UTC)),
        (401, "AUTHENTICATION_REQUIRED"),
    ),
}


@pytest.mark.parametrize("change", LOSSES)
def test_a_key_loses_at_once_what_its_creator_loses(own: Running, own_database: Database, change: str) -> None:
    def rename() -> Answer:
        return own.ask("PATCH", f"/api/v1/tenants/{WEB_SHOP}", key="terraform", body={"displayName": "Web Shop"})

    statement, expected = LOSSES[change]
    assert rename().status == 200
    with own_database.write() as connection:
        connection.execute(statement)
    refused = rename()
    assert (refused.status, refused.json()["error"]["code"]) == expected


def test_a_key_of_a_limited_member_cannot_leave_their_tenants(demo: Running, demo_database: Database) -> None:
    with made_key(demo_database, demo, by=MEMBER, tenant_id=DATA_LAKE) as secret:
        assert with_key(demo, secret, f"/api/v1/tenants/{DATA_LAKE}").status == 403
        refused = with_key(demo, secret, "/api/v1/tenants")
        assert (refused.status, refused.json()["error"]["code"]) == (403, "INSUFFICIENT_PERMISSIONS")
