"""Requests that start after the answer to a revocation and succeed, with two processes on one database."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from sqlalchemy import update

from service.db.engine import Database
from service.db.tables import memberships
from tests.api import UnixConnection
from tests.benchmarks.ratios import Line
from tests.benchmarks.servers import MAX_KEY_RATE, store
from tests.benchmarks.settings import settings
from tests.people import ADMIN, AURORA, MEMBER, OWNER, WEB_SHOP
from tests.service.access import Iam, allow, deny
from tests.service.account import Key
from tests.service.queries import execute, user_id
from tests.service.running import Executed, Running, ask_on

REQUESTS, CONNECTIONS = 10_000, 8
BEFORE_SECONDS = 0.5
# 429 after a failed authentication only: the unix socket has no address, and the limits of keys are out of reach.
REFUSED = (401, 403, 429)
ME, INSTANCES = "/api/v1/me", f"/api/v1/tenants/{WEB_SHOP}/resources/instance?limit=1"
ACTIVITY = f"/api/v1/tenants/{WEB_SHOP}/activity?limit=1"


@dataclass(frozen=True)
class Revocation:
    """A request that succeeds until something is revoked."""

    path: str
    headers: dict[str, str]
    revoke: Callable[[], None]


def run() -> Iterator[Line]:
    for name in settings.databases:
        with store(name) as database, Executed(database.url) as one:
            yield from late_successes(name, one)


def late_successes(name: str, one: Running) -> Iterator[Line]:
    # The key of the local issuer is beside the secret.
    with Executed(one.database_url, "demo", "--secret-file", str(one.folder / "secret.key")) as other:
        for what, prepare in KINDS.items():
            statuses = ask_during(prepare(one), one, other)
            if unexpected := set(statuses) - {200, *REFUSED}:
                raise RuntimeError(f"a revoked {what}: answers {unexpected}")
            text = f"late successes of a revoked {what} in {sum(statuses.values()):,} ({name})"
            yield Line(text, statuses[200], 0, f"{CONNECTIONS} connections, 2 processes", "")


def ask_during(revocation: Revocation, *platforms: Running, requests: int = REQUESTS) -> Counter[int]:
    """Return how the requests were answered that started after the revocation."""
    is_over, warm = threading.Event(), threading.Barrier(CONNECTIONS + 1, timeout=60)
    late: list[Counter[int]] = [Counter() for _ in range(CONNECTIONS)]

    def ask(number: int) -> None:
        connection = UnixConnection(platforms[number % len(platforms)].socket)
        warm.wait()
        while late[number].total() < requests // CONNECTIONS:
            started_after = is_over.is_set()
            status = status_of(connection, revocation)
            if started_after:
                late[number][status] += 1

    for platform in platforms:
        # From now on, each process may answer from its caches.
        assert status_of(UnixConnection(platform.socket), revocation) == 200, platform.log
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        asking = [threads.submit(ask, number) for number in range(CONNECTIONS)]
        warm.wait()
        time.sleep(BEFORE_SECONDS)
        revocation.revoke()
        is_over.set()
        for done in asking:
            done.result()
    return sum(late, Counter())


def status_of(connection: http.client.HTTPConnection, revocation: Revocation) -> int:
    return ask_on(connection, "GET", revocation.path, revocation.headers.items()).status


# Kinds


def revoke_key(platform: Running) -> Revocation:
    key = Key(platform, "compute:read", rateLimit=MAX_KEY_RATE)

    def revoke() -> None:
        assert key.revoke().status == 200

    return Revocation(ME, {"X-API-Key": key.secret}, revoke)


def delete_person(platform: Running) -> Revocation:
    """The person's key, which nobody revokes."""
    key = Key(platform, "compute:read", person=MEMBER, rateLimit=MAX_KEY_RATE)

    def revoke() -> None:
        assert platform.ask("DELETE", ME, as_=MEMBER).status == 200

    return Revocation(ME, {"X-API-Key": key.secret}, revoke)


def end_session(platform: Running) -> Revocation:
    session = platform.sign_in(OWNER)

    def revoke() -> None:
        assert platform.ask("POST", "/api/v1/sessions/revoke-all", as_=OWNER).status == 200
        platform.tokens.clear()

    return Revocation(ME, {"Authorization": f"Bearer {session}"}, revoke)


def weaken_role(platform: Running) -> Revocation:
    """An admin becomes a viewer, who may not read the audit log."""
    session = platform.sign_in(ADMIN)
    database = Database(platform.database_url)

    def revoke() -> None:
        seat = (memberships.c.user_id == user_id(ADMIN)) & (memberships.c.organization_id == AURORA)
        execute(database, update(memberships).where(seat).values(role="viewer"))
        database.close()

    return Revocation(ACTIVITY, {"Authorization": f"Bearer {session}"}, revoke)


def narrow_policy(platform: Running) -> Revocation:
    key, iam = Key(platform, "compute:read", rateLimit=MAX_KEY_RATE), Iam(platform)
    policy = iam.policy("benchmark narrowed", allow("*"))
    assert iam.done(iam.attach(policy, "api_key", key.id))

    def revoke() -> None:
        assert iam.edit(policy, allow("*"), deny("compute:*")).status == 200

    return Revocation(INSTANCES, {"X-API-Key": key.secret}, revoke)


KINDS: dict[str, Callable[[Running], Revocation]] = {
    "key": revoke_key,
    "policy": narrow_policy,
    "role": weaken_role,
    "person": delete_person,
    "session": end_session,
}
