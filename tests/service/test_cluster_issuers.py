"""The keys of clusters, and the end of their workload tokens."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, RSAKey
from sqlalchemy import Connection, delete, select, update

from service.db import tables
from service.db.revisions import lock_domains
from service.errors import ApiError
from service.principal import Principal
from service.principals import queries
from service.workloads import cluster_issuers, token_exchange
from tests.people import OWNER, WEB_SHOP
from tests.service import factories
from tests.service.access import Iam, code
from tests.service.clusters import STOREFRONT_FRA, Cluster, Workload
from tests.service.inside import Inside
from tests.service.queries import fetch
from tests.service.running import Running

P256 = ECKey.generate_key("P-256")
RSA_2048 = RSAKey.generate_key(2048)


def public(key: ECKey | RSAKey, **members: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), "kid": "one"} | members


def modulus(bits: int) -> str:
    return urlsafe_b64encode(((1 << bits) - 1).to_bytes(bits // 8)).rstrip(b"=").decode()


def test_only_the_members_of_a_key_are_stored_without_leading_zeros() -> None:
    more = {"use": "sig", "alg": "ES256", "x5c": ["A" * 100_000], "x5u": "https://elsewhere.example"}
    for key in (public(P256), public(ECKey.generate_key("P-384")), public(RSA_2048)):
        assert cluster_issuers.validate_public_keys([key | more]) == [key]
    padded = public(RSA_2048, n="A" * 4_000 + public(RSA_2048)["n"])
    assert cluster_issuers.validate_public_keys([padded]) == [public(RSA_2048)]


@pytest.mark.filterwarnings("ignore:Key size")
@pytest.mark.parametrize(
    ("key", "message"),
    [
        *[(public(P256, kid=kid), "kid of 1 to 200") for kid in ("", "x" * 201)],
        *[(public(P256, kid=kid), "printable") for kid in ("a\u202eb", "a\n")],
        (public(P256, kid=7), "kid"),
        (public(P256, use="enc"), "to sign with"),
        *[(public(P256, alg=alg), "to sign with") for alg in ("none", "HS256", ["ES256"])],
        (public(P256, kty=["EC"]), "kty EC or RSA"),
        *[(public(ECKey.generate_key(curve)), "curves") for curve in ("P-521", "secp256k1")],
        *[(public(RSA_2048, n=modulus(bits)), f"{bits} bits") for bits in (1024, 2040, 8200)],
        (public(RSA_2048, e="AQ"), "is not a valid key"),
    ],
)
def test_a_weak_or_unsuitable_key_is_refused(key: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=message) as refused:
        cluster_issuers.validate_public_keys([key])
    assert (refused.value.status_code, refused.value.code) == (400, "INVALID_INPUT")


def bound(platform: Running, service_account: str, cluster_id: str) -> None:
    body = {"clusterId": cluster_id, "namespace": "tests", "serviceAccount": service_account}
    created = Iam(platform).ask("POST", "/workload-identity/bindings", body | {"scopes": ["compute:read"]})
    assert created.status == 201, created


@pytest.mark.slow
def test_tokens_end_with_the_key_that_verified_them(platform: Running) -> None:
    cluster, other = Cluster(platform), Cluster(platform, STOREFRONT_FRA)
    for one in (cluster, other):
        assert one.register().status == 200
        bound(platform, "replaced", one.id)
    workload, elsewhere = Workload(cluster, "tests", "replaced"), Workload(other, "tests", "replaced")
    old, new = public(cluster.key, kid=cluster.key.kid), public(ECKey.generate_key("P-256"), kid="new")
    for keys in ([old], [old, new], [new, old]):
        assert cluster.register(keys=keys).status == 200
        assert workload.use().status == 200
    assert cluster.register(keys=[new]).status == 200
    assert workload.use().status == 401
    assert elsewhere.use().status == 200
    cluster.register(keys=[old])
    workload = Workload(cluster, "tests", "replaced")
    assert cluster.register(issuer="https://another.example", keys=[old]).status == 200
    assert workload.use().status == 401


def test_tokens_end_with_the_issuer_and_with_the_cluster(platform: Running) -> None:
    clusters, body = f"/api/v1/tenants/{WEB_SHOP}/resources/kubernetes_cluster", {"name": "one", "region": "se-sto-1"}
    cluster = Cluster(platform, platform.ask("POST", clusters, as_=OWNER, body=body).json()["id"])
    bound(platform, "passing", cluster.id)
    for path in (cluster.path, f"{clusters}/{cluster.id}"):
        assert cluster.register().status == 200
        workload = Workload(cluster, "tests", "passing")
        assert workload.use().status == 200
        assert platform.ask("DELETE", path, as_=OWNER).status == 204
        assert workload.use().status == 401
    assert code(platform.get(cluster.path, as_=OWNER)) == (404, "NOT_FOUND")


CLUSTER = "c0000000-0000-4000-8000-000000000000"


class Bound:
    """A cluster with an issuer and one binding, and the application in this process that exchanges its tokens."""

    def __init__(self, inside: Inside) -> None:
        inside.stored_key()
        self.platform, now = inside.platform, datetime.now(UTC)
        times = {"created_at": now, "updated_at": now}
        cluster = factories.resource(CLUSTER, now, kind=queries.CLUSTER, state="active")
        identity = {"id": "w", "tenant_id": "t", "cluster_id": CLUSTER, "namespace": "n", "service_account": "a"}
        issuer = {"issuer": "https://c.example", "keys": [public(P256)], "changed_by": "u", "changed_at": now}
        with self.platform.database.write() as connection:
            factories.add(connection, {tables.resources: cluster})
            queries.add_identity(connection, identity | {"scopes": ["compute:read"], "created_by": "u"} | times)
            cluster_issuers.save_issuer(connection, "t", CLUSTER, issuer)
        claims = {"iss": "https://c.example", "sub": "system:serviceaccount:n:a", "aud": f"frost:cluster:{CLUSTER}"}
        self.token = jwt.encode({"alg": "ES256", "kid": "one"}, claims | {"exp": int(now.timestamp()) + 600}, P256)

    def exchange(self) -> int:
        anonymous = Principal(kind="anonymous", request_id="r")
        try:
            return token_exchange.exchange_subject_token(self.platform, anonymous, self.token, {}).status_code
        except ApiError as refusal:
            return refusal.status_code

    def tokens(self) -> int:
        return len(fetch(self.platform.database, select(tables.workload_tokens)))


Change = Callable[[Connection], object]
WITHOUT_SCOPES = update(tables.workload_identities).values(scopes=[])
CHANGES: dict[str, tuple[Change, int]] = {
    "unchanged": (lambda connection: None, 200),
    "unbound": (lambda connection: queries.remove_identity(connection, "t", "w"), 401),
    "issuer deleted": (lambda connection: cluster_issuers.delete_issuer(connection, "t", CLUSTER), 401),
    "scopes removed": (lambda connection: connection.execute(WITHOUT_SCOPES), 403),
    "cluster deleted": (lambda connection: connection.execute(delete(tables.resources)), 401),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_during_an_exchange_is_respected(inside: Inside, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, status = CHANGES[name]
    bound, write = Bound(inside), inside.platform.database.write

    @contextmanager
    def after_the_change() -> Iterator[Connection]:
        with write() as connection:
            change(connection)
        with write() as connection:
            yield connection

    monkeypatch.setattr(inside.platform.database, "write", after_the_change)
    assert bound.exchange() == status
    assert bound.tokens() == (status == 200)


@pytest.mark.parametrize("name", ["unbound", "issuer deleted"])
def test_an_exchange_waits_for_a_change_of_access_that_is_under_way(inside: Inside, name: str) -> None:
    bound, (change, status) = Bound(inside), CHANGES[name]
    with ThreadPoolExecutor(1) as thread:
        with inside.platform.database.write() as connection:
            lock_domains(connection, ["o"])
            change(connection)
            answer = thread.submit(bound.exchange)
            with pytest.raises(TimeoutError):
                answer.result(timeout=0.5)
        assert answer.result() == status
    assert bound.tokens() == 0
