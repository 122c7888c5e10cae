"""Attacks on keys, tokens and the limits around them."""

import http.client
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import select

from service.api.authorization import Credential, look_up
from service.authn import secret_format
from service.db import tables
from service.db.engine import Database
from service.errors import ApiError
from tests.api import exchange
from tests.benchmarks.revocations import KINDS, REFUSED, ask_during
from tests.effort import take_as_long
from tests.people import OWNER, WEB_SHOP
from tests.service.access import Iam, allow, code
from tests.service.account import Key
from tests.service.audited import full_log
from tests.service.conftest import DemoUrl
from tests.service.inside import Inside
from tests.service.running import Running, ask_on, tcp_address

TENANT = f"/api/v1/tenants/{WEB_SHOP}"


@pytest.fixture(scope="module")
def proxied() -> Iterator[Running]:
    """A platform on TCP behind a proxy on this machine, which its settings name."""
    with Running(None, "demo", "--listen", "127.0.0.1:0", FROST_PLATFORM_PROXIES="127.0.0.1") as running:
        yield running


def tcp(platform: Running, source: str = "127.0.0.1") -> http.client.HTTPConnection:
    return http.client.HTTPConnection(*tcp_address(platform), timeout=60, source_address=(source, 0))


def status(connection: http.client.HTTPConnection, secret: str, path: str = "/api/v1/me", **headers: str) -> int:
    sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return ask_on(connection, "GET", path, (("X-API-Key", secret), *sent)).status


def like(prefix: str) -> str:
    body = prefix.removeprefix(secret_format.API_KEY_PREFIX) + secret_format.mint()[12:34]
    return secret_format.API_KEY_PREFIX + body + secret_format.checksum(body)


# Refused keys are alike


@pytest.mark.slow
def test_unknown_revoked_and_wrong_keys_take_the_same_time_and_words(inside: Inside) -> None:
    platform, revoked = inside.platform, inside.stored_key(revoked_at=datetime.now(UTC))
    tries = {"unknown": secret_format.mint(), "revoked": revoked, "wrong": like(secret_format.lookup_prefix(revoked))}
    words = set()

    def refuse(name: str) -> None:
        with pytest.raises(ApiError) as refused:
            look_up(platform, Credential.of("api_key", tries[name]))
        words.add((refused.value.status_code, json.dumps(refused.value.body)))

    assert take_as_long(refuse, tries, 1_700)
    assert len(words) == 1


# Revoked keys and deleted accounts


@pytest.mark.slow
def test_nothing_succeeds_that_starts_after_the_answer(demo_url: DemoUrl) -> None:
    """With eight connections to two processes, for a key, a policy, a role, a person and a session."""
    url = demo_url("postgresql")
    with Running(url) as one, Running(url, "demo", "--secret-file", str(one.folder / "secret.key")) as other:
        for kind, prepare in KINDS.items():
            statuses = ask_during(prepare(one), one, other, requests=1_000)
            assert statuses.total() == 1_000
            assert set(statuses) <= {*REFUSED}, kind


# Secrets in stored data and logs


def test_the_secret_of_a_key_is_found_nowhere(own: Running, own_database: Database) -> None:
    """Used correctly, sent in wrong places, and used while the audit log fails."""
    iam, key = Iam(own), Key(own, "organizations:*", "compute:*", name="searched for")
    secret = key.secret
    key.use()
    key.use("POST", f"{TENANT}/resources/instance", {"name": "n1", "region": "se-sto-1"})
    own.get(f"/api/v1/me?key={secret}", as_=OWNER)
    own.get(f"{TENANT}/api-keys/{secret}", as_=OWNER)
    own.ask("DELETE", f"{TENANT}/api-keys/{secret}", as_=OWNER)
    own.get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
    own.get("/api/v1/me", headers={"X-API-Key": secret, "X-Request-Id": secret})
    iam.ask("POST", "/api-keys", {"name": "x", "scopes": [secret]})
    iam.ask("POST", "/api-keys", {"name": "x" * 200, "scopes": ["compute:read"], "expiresAt": secret})
    with full_log(own_database):
        assert key.use("PATCH", TENANT, {"displayName": "x"}).status == 500
    rotated = key.manage("POST", "/rotate", {}).json()["key"]
    places = {str(path): path.read_bytes() for path in own.folder.iterdir() if path.is_file()}
    places["log"] = own.log.encode()
    with own_database.read() as connection:
        places["audit"] = repr(connection.execute(select(tables.audit_log)).all()).encode()
    assert {name.rpartition("/")[2] for name in places} >= {"platform.db", "platform.db-wal", "log", "audit"}
    assert b"Traceback" in places["log"]
    assert b"searched for" in b"".join(places.values())
    for name, content in places.items():
        for plain in (secret, rotated):
            assert plain[12:].encode() not in content, name


# Guessing keys, and forged addresses


def refused(platform: Running, through: http.client.HTTPConnection, guesser: str, caller: str) -> Key:
    """Return a valid key that is refused from the address `caller` while the address `guesser` guesses.

    One guess is allowed again each 0.2 seconds. On a slow machine the key may pass, so another key is tried then.
    """
    for _ in range(5):
        key = Key(platform, "compute:read")
        while status(through, secret_format.mint(), X_Forwarded_For=guesser) != 429:
            pass
        if status(through, key.secret, X_Forwarded_For=caller) == 429:
            return key
    raise AssertionError(f"{caller} is let through while {guesser} guesses")


def test_guesses_from_an_address_are_limited_despite_forged_headers(network: Running) -> None:
    in_use = Key(network, "compute:read")
    guessing, elsewhere = tcp(network), tcp(network, "127.0.0.2")
    assert status(guessing, in_use.secret) == 200
    found = Counter(
        status(guessing, secret_format.mint(), X_Forwarded_For=f"203.0.113.{number % 250}") for number in range(700)
    )
    assert set(found) == {401, 429}
    assert found[429] > 100  # one comes back each 0.2 s; without the brake there were none
    # Slowed, and refused before it is looked at: a right key too, unless it was in use here already.
    not_used = refused(network, guessing, "203.0.113.1", "203.0.113.2")
    assert status(guessing, in_use.secret) == 200
    assert status(elsewhere, not_used.secret) == 200
    assert not_used.use().status == 200


def test_guesses_count_for_the_mapped_ipv4_address(proxied: Running) -> None:
    through, key = tcp(proxied), Key(proxied, "compute:read")
    refused(proxied, through, "::ffff:203.0.113.9", "203.0.113.9")
    assert status(through, key.secret, X_Forwarded_For="::ffff:198.51.100.7") == 200


def test_guesses_of_a_prefix_from_many_addresses_are_limited(proxied: Running) -> None:
    key, through = Key(proxied, "compute:read"), tcp(proxied)
    addresses = [f"198.51.{number // 250}.{number % 250}" for number in range(200)]
    statuses = Counter(status(through, like(key.secret[:12]), X_Forwarded_For=address) for address in addresses)
    assert statuses[401] < 60
    assert statuses[429] > 140
    assert status(through, key.secret, X_Forwarded_For="198.51.9.9") == 200


def test_a_forwarded_address_counts_only_from_a_configured_proxy(network: Running, proxied: Running) -> None:
    inside: dict[str, Any] = {"ipInRange": {"frn:sourceIp": ["203.0.113.0/24"]}}

    def narrowed(platform: Running) -> str:
        iam, key = Iam(platform), Key(platform, "compute:read", rateLimit=60_000)
        assert iam.attach(iam.policy("p", allow("compute:*", **inside)), "api_key", key.id).status == 204
        return key.secret

    def is_listed(platform: Running, secret: str, source: str, forwarded: str = "") -> bool:
        headers = {"X-API-Key": secret} | ({"X-Forwarded-For": forwarded} if forwarded else {})
        answer = exchange(tcp(platform, source), "GET", f"{TENANT}/resources/instance", headers, None)
        if answer.status == 403:
            assert code(answer) == (403, "INSUFFICIENT_PERMISSIONS")
            assert answer.json()["error"]["required_permission"] == "compute:instances:list"
            return False
        return bool(answer.json()["resources"])

    secret = narrowed(network)
    # The address guessed from in another test is limited; this key is not in use there yet.
    status(tcp(network, "127.0.0.3"), secret)
    assert not is_listed(network, secret, "127.0.0.3", "203.0.113.7")
    secret = narrowed(proxied)
    # What the proxy adds comes last; what the caller wrote before it does not count.
    expected = {"203.0.113.7": True, "": False, "203.0.113.7, 192.0.2.1": False, "192.0.2.1, 203.0.113.7": True}
    assert {one: is_listed(proxied, secret, "127.0.0.1", one) for one in expected} == expected
