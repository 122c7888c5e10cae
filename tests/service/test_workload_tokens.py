"""Workload identities exchange tokens of their clusters and act within their bindings."""

import hmac
import json
import time
from base64 import urlsafe_b64encode

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from sqlalchemy import select, update

from service.db.engine import Database
from service.db.tables import audit_log, workload_tokens
from tests.people import AURORA, MEMBER, OWNER, STAGING, WEB_SHOP
from tests.service.access import IDENTITIES, STOREFRONT, Iam, allow, code
from tests.service.clusters import STOREFRONT_FRA, Cluster, Workload, exchange
from tests.service.queries import execute, fetch
from tests.service.running import Running

TENANT = f"/api/v1/tenants/{WEB_SHOP}"
INSTANCES, VOLUMES = f"{TENANT}/resources/instance", f"{TENANT}/resources/volume"
RESIZER = ("media", "image-resizer")


@pytest.fixture(scope="module")
def storefront(platform: Running) -> Cluster:
    registered = Cluster(platform)
    assert registered.register().status == 200
    return registered


def test_the_issuer_of_a_cluster_is_read_without_keys(storefront: Cluster) -> None:
    issuer = storefront.platform.get(storefront.path, as_=MEMBER).json()
    assert issuer | {"changedAt": ""} == {
        "clusterId": STOREFRONT,
        "issuer": storefront.issuer,
        "audience": f"frost:cluster:{STOREFRONT}",
        "keyIds": [storefront.key.kid],
        "changedAt": "",
    }


def test_private_and_invalid_keys_are_not_registered(storefront: Cluster) -> None:
    for members in (
        {"issuer": "http://cluster.example"},
        {"issuer": "file:///etc/passwd"},
        {"keys": []},
        {"keys": [dict(ECKey.generate_key("P-256", auto_kid=True).as_dict(private=True))]},
        {"keys": [dict(OctKey.generate_key(256, auto_kid=True).as_dict(private=True))]},
        {"keys": [dict(ECKey.generate_key("P-256").as_dict(private=False))]},
        {"keys": [{"kty": "EC", "kid": "x", "crv": "P-256", "x": "AA", "y": "AA"}]},
        {"keys": [{"kty": "EC", "kid": "x"}]},
    ):
        assert code(storefront.register(**members)) == (400, "INVALID_INPUT"), members


def test_a_workload_acts_within_its_scopes(storefront: Cluster) -> None:
    binding = Iam(storefront.platform).binding("scoped", ["storage:read", "organizations:read"])
    workload = Workload(storefront, "tests", "scoped")
    me = workload.use().json()
    assert (me["id"], me["name"], me["email"]) == (binding, "tests/scoped", "")
    assert me["credential"]["kind"] == "workload"
    assert [one["role"] for one in me["organizations"]] == ["workload"]
    for path in ("/api/v1/tenants", f"/api/v1/organizations/{AURORA}/tenants"):
        (tenant,) = workload.use("GET", path).json()["tenants"]
        assert (tenant["id"], tenant["role"]) == (WEB_SHOP, "workload")
    assert workload.use("GET", VOLUMES).status == 200
    assert code(workload.use("GET", INSTANCES)) == (403, "INSUFFICIENT_SCOPE")
    assert code(workload.use("GET", f"/api/v1/tenants/{STAGING}/resources/volume")) == (403, "TENANT_ACCESS_DENIED")


def test_a_workload_acts_within_its_policies(storefront: Cluster) -> None:
    iam = Iam(storefront.platform)
    binding = iam.binding("granted")
    assert iam.attach(iam.policy("p", allow("compute:instances:list")), "workload_identity", binding).status == 204
    workload = Workload(storefront, "tests", "granted")
    assert workload.use("GET", INSTANCES).status == 200
    assert code(workload.use("GET", VOLUMES)) == (403, "INSUFFICIENT_PERMISSIONS")
    create = workload.use("POST", INSTANCES, {"name": "x1", "region": "se-sto-1"})
    assert code(create) == (403, "INSUFFICIENT_PERMISSIONS")
    # A policy narrows scopes.
    scoped = Workload(storefront, *RESIZER)
    assert scoped.use().json()["id"] == IDENTITIES["image-resizer"]
    assert code(scoped.use("GET", VOLUMES)) == (403, "INSUFFICIENT_PERMISSIONS")


def test_a_token_dies_with_its_binding_and_with_the_last_grant(platform: Running, storefront: Cluster) -> None:
    iam = Iam(platform)
    binding = iam.binding("short-lived", ["compute:read"])
    workload = Workload(storefront, "tests", "short-lived")
    assert workload.use().status == 200
    assert iam.ask("DELETE", f"/workload-identity/bindings/{binding}").status == 204
    assert workload.use().status == 401
    binding, group = iam.binding("grouped"), iam.group("of the grouped")
    iam.attach(iam.policy("p", allow("compute:*")), "group", group)
    iam.add(group, "workload_identity", binding)
    workload = Workload(storefront, "tests", "grouped")
    assert workload.use().status == 200
    iam.drop(group, "workload_identity", binding)
    assert workload.use().status == 401


def test_an_identity_without_a_grant_gets_no_token(storefront: Cluster, platform_database: Database) -> None:
    binding = Iam(storefront.platform).binding("inert")
    assert code(exchange(storefront.platform, storefront.token("tests", "inert"))) == (403, "WORKLOAD_HAS_NO_GRANT")
    (entry,) = fetch(platform_database, select(audit_log).where(audit_log.c.actor_id == binding))
    assert (entry.operation, entry.outcome, entry.tenant_id) == ("workload_identity.exchange", "refused", WEB_SHOP)
    assert entry.details == {"status": 403, "code": "WORKLOAD_HAS_NO_GRANT"}


def test_a_token_lives_15_minutes_and_never_longer_than_its_source(
    storefront: Cluster, platform_database: Database
) -> None:
    long = Workload(storefront, *RESIZER)
    short = Workload(storefront, *RESIZER, exp=int(time.time()) + 60)
    assert long.answer["expires_in"] == 900
    assert short.answer["expires_in"] <= 60
    execute(platform_database, update(workload_tokens).values(expires_at=workload_tokens.c.issued_at))
    assert [long.use().status, short.use().status] == [401, 401]


def test_a_token_of_another_cluster_with_the_same_names_is_refused(platform: Running, storefront: Cluster) -> None:
    other = Cluster(platform, STOREFRONT_FRA)
    assert other.register().status == 200
    here, fra = f"frost:cluster:{STOREFRONT}", f"frost:cluster:{STOREFRONT_FRA}"
    for token in (
        other.token(*RESIZER),
        other.token(*RESIZER, aud=[here]),
        other.token(*RESIZER, aud=[here], iss=storefront.issuer),
        other.token(*RESIZER, aud=[here, fra]),
        storefront.token(*RESIZER, aud=[fra]),
        storefront.token(*RESIZER, aud=[here, fra]),
        storefront.token(*RESIZER, iss=other.issuer),
    ):
        assert code(exchange(platform, token)) == (401, "AUTHENTICATION_REQUIRED")
    # Nor one of a cluster whose issuer was removed.
    assert platform.ask("DELETE", other.path, as_=OWNER).status == 204
    assert code(exchange(platform, other.token(*RESIZER))) == (401, "AUTHENTICATION_REQUIRED")
    assert code(platform.get(other.path, as_=OWNER)) == (404, "NOT_FOUND")


def test_tokens_with_wrong_or_missing_claims_and_malformed_exchanges_are_refused(storefront: Cluster) -> None:
    for claims in (
        {"aud": "frost"},
        {"aud": "frost:cluster:"},
        {"aud": "frost:cluster:\x00"},
        {"aud": []},
        {"aud": None},
        {"exp": 1},
        {"nbf": 99999999999},
        {"sub": None},
        {"sub": "image-resizer"},
        {"sub": "system:serviceaccount:media:image-resizer\n"},
        {"sub": "system:serviceaccount:media:image-resizer:x"},
        {"sub": "system:serviceaccount:media:other"},
        {"sub": "system:serviceaccount:other:image-resizer"},
        {"iss": None},
    ):
        refused = exchange(storefront.platform, storefront.token(*RESIZER, **claims))
        assert code(refused) == (401, "AUTHENTICATION_REQUIRED"), claims
    for fields in ({"grant_type": "password"}, {"subject_token_type": "x"}, {"subject_token": ""}):
        assert code(exchange(storefront.platform, "t", **fields)) == (400, "INVALID_INPUT"), fields


def test_unsigned_and_wrongly_signed_tokens_are_refused(storefront: Cluster) -> None:
    good = storefront.token(*RESIZER)
    head, body, signature = good.split(".")
    claims = jwt.decode(good, storefront.key).claims
    for token in (
        f"{head}.{body}.",
        f"eyJhbGciOiJub25lIn0.{body}.",
        f"{head}.{body}.{signature[:-4]}AAAA",
        signed_with_the_public_key(storefront, body),
        jwt.encode({"alg": "ES256", "kid": str(storefront.key.kid)}, claims, ECKey.generate_key("P-256")),
        "x" * 9000,
        "not a token",
    ):
        assert code(exchange(storefront.platform, token)) == (401, "AUTHENTICATION_REQUIRED")


def signed_with_the_public_key(storefront: Cluster, body: str) -> str:
    """Made by hand: joserfc refuses to take a public key for a shared secret."""
    header = json.dumps({"alg": "HS256", "kid": storefront.key.kid}).encode()
    signed = urlsafe_b64encode(header).rstrip(b"=") + b"." + body.encode()
    mac = hmac.digest(storefront.key.as_pem(private=False), signed, "sha256")
    return (signed + b"." + urlsafe_b64encode(mac).rstrip(b"=")).decode()


def test_changes_of_a_workload_are_audited_without_its_token(storefront: Cluster, platform_database: Database) -> None:
    Iam(storefront.platform).binding("builder", ["compute:write"])
    workload = Workload(storefront, "tests", "builder")
    assert workload.use("POST", INSTANCES, {"name": "built", "region": "se-sto-1"}).status == 201
    entries = select(audit_log.c.operation, audit_log.c.tenant_id).where(audit_log.c.actor_kind == "workload")
    assert fetch(platform_database, entries.order_by(audit_log.c.id.desc()))[0] == ("resource.create", WEB_SHOP)
    assert workload.token not in repr(fetch(platform_database, select(workload_tokens)))
    assert workload.token not in storefront.platform.log
    # API keys and workload tokens are not interchangeable.
    ask = storefront.platform.get
    assert ask("/api/v1/me", headers={"X-API-Key": workload.token}).status == 401
    spoiled = workload.token[:-1] + ("a" if workload.token[-1] != "a" else "b")
    assert ask("/api/v1/me", headers={"Authorization": f"Bearer {spoiled}"}).status == 401
