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
from tests.service import factories
from tests.service.access import Iam, code
from tests.service.clusters import STOREFRONT_FRA, Cluster, Workload
from tests.service.inside import Inside
from tests.service.running import OWNER, WEB_SHOP, Running

P256 = ECKey.generate_key("P-256")
RSA_2048 = RSAKey.generate_key(2048)


def public(key: ECKey | RSAKey, **members: Any) -> dict[str, Any]:
    return {**key.as_dict(private=False), "kid": "one"} | members


def modulus(bits: int) -> str:
    """The `n` of a key of that size, as far as its size goes."""
    return urlsafe_b64encode(((1 << bits) - 1).to_bytes(bits // 8)).rstrip(b"=").decode()


@pytest.mark.parametrize("key", [public(P256), public(ECKey.generate_key("P-384")), public(RSA_2048)])
def test_only_the_members_of_a_key_are_stored(key: dict[str, Any]) -> None:
    given = {**key, "use": "sig", "alg": "ES256", "x5c": ["A" * 100_000], "x5u": "https://elsewhere.example"}
    assert cluster_issuers.validate_public_keys([given]) == [key]


def test_leading_zeros_do_not_make_a_key_longer() -> None:
    padded = public(RSA_2048, n="A" * 4_000 + public(RSA_2048)["n"])
    assert cluster_issuers.validate_public_keys([padded]) == [public(RSA_2048)]


@pytest.mark.filterwarnings("ignore:Key size")
@pytest.mark.parametrize(
    ("key", "message"),
    [
        (public(P256, kid=""), "kid of 1 to 200"),
        (public(P256, kid="x" * 201), "kid of 1 to 200"),
        (public(P256, kid="a\u202eb"), "printable"),
        (public(P256, kid="a\n"), "printable"),
        (public(P256, kid=7), "kid"),
        (public(P256, use="enc"), "to sign with"),
        (public(P256, alg="none"), "to sign with"),
        (public(P256, alg="HS256"), "to sign with"),
        (public(P256, alg=["ES256"]), "to sign with"),
        (public(P256, kty=["EC"]), "kty EC or RSA"),
        (public(ECKey.generate_key("P-521")), "curves"),
        (public(ECKey.generate_key("secp256k1")), "curves"),
        (public(RSA_2048, n=modulus(1024)), "1024 bits"),
        (public(RSA_2048, n=modulus(2040)), "2040 bits"),
        (public(RSA_2048, n=modulus(8200)), "8200 bits"),
        (public(RSA_2048, e="AQ"), "is not a valid key"),
    ],
)
def test_a_weak_or_unsuitable_key_is_refused(key: dict[str, Any], message: str) -> None:
    with pytest.raises(ApiError, match=message) as refused:
        cluster_issuers.validate_public_keys([key])
    assert (refused.value.status_code, refused.value.code) == (400, "INVALID_INPUT")


def bound(platform: Running, service_account: str, cluster_id: str) -> None:
    body = {"clusterId": cluster_id, "namespace": "tests", "serviceAccount": service_account}
    made = Iam(platform).ask("POST", "/workload-identity/bindings", body | {"scopes": ["compute:read"]})
    assert made.status == 201, made


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
    made = platform.ask(
        "POST",
        f"/api/v1/tenants/{WEB_SHOP}/resources/kubernetes_cluster",
        as_=OWNER,
        body={"name": "passing", "region": "se-sto-1"},
    ).json()
    cluster = Cluster(platform, made["id"])
    bound(platform, "passing", cluster.id)
    paths = (cluster.path, f"/api/v1/tenants/{WEB_SHOP}/resources/kubernetes_cluster/{cluster.id}")
    for path in paths:
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
        said = {"iss": "https://c.example", "sub": "system:serviceaccount:n:a", "aud": f"frost:cluster:{CLUSTER}"}
        until = {"exp": int(now.timestamp()) + 600}
        self.token = jwt.encode({"alg": "ES256", "kid": "one"}, said | until, P256)

    def exchange(self) -> int:
        """The status of an exchange."""
        anonymous = Principal(kind="anonymous", request_id="r")
        try:
            return token_exchange.exchange_subject_token(self.platform, anonymous, self.token, {}).status_code
        except ApiError as refusal:
            return refusal.status_code

    def tokens(self) -> int:
        with self.platform.database.read() as connection:
            return len(connection.execute(select(tables.workload_tokens)).all())


def unbind(connection: Connection) -> None:
    queries.remove_identity(connection, "t", "w")


def drop_scopes(connection: Connection) -> None:
    connection.execute(update(tables.workload_identities).values(scopes=[]))


def drop_issuer(connection: Connection) -> None:
    cluster_issuers.delete_issuer(connection, "t", CLUSTER)


def drop_cluster(connection: Connection) -> None:
    connection.execute(delete(tables.resources))


@pytest.mark.parametrize(
    ("change", "status"), [(unbind, 401), (drop_scopes, 403), (drop_issuer, 401), (drop_cluster, 401)]
)
def test_a_change_during_an_exchange_is_respected(
    inside: Inside, change: Callable[[Connection], None], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound, write = Bound(inside), inside.platform.database.write

    @contextmanager
    def after_the_change() -> Iterator[Connection]:
        with write() as connection:
            change(connection)
        with write() as connection:
            yield connection

    monkeypatch.setattr(inside.platform.database, "write", after_the_change)
    assert bound.exchange() == status
    assert bound.tokens() == 0


@pytest.mark.parametrize(("change", "status"), [(unbind, 401), (drop_issuer, 401)])
def test_an_exchange_waits_for_a_change_of_access_that_is_under_way(
    inside: Inside, change: Callable[[Connection], None], status: int
) -> None:
    bound = Bound(inside)
    with ThreadPoolExecutor(1) as thread:
        with inside.platform.database.write() as connection:
            lock_domains(connection, ["o"])
            change(connection)
            answer = thread.submit(bound.exchange)
            with pytest.raises(TimeoutError):
                answer.result(timeout=0.5)
        assert answer.result() == status
    assert bound.tokens() == 0


def test_a_binding_without_changes_is_exchanged(inside: Inside) -> None:
    bound = Bound(inside)
    assert (bound.exchange(), bound.tokens()) == (200, 1)
