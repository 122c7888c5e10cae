"""The search that every platform and home of the tests ends with finds what it looks for."""

from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.audit import entries
from service.audit.entries import AuditEvent
from service.authn import secret_format
from service.principal import PLATFORM
from tests.homes import Home
from tests.leaks import leaks_of_database, leaks_of_files, secrets_in
from tests.people import OWNER
from tests.service.account import Key
from tests.service.audited import audited
from tests.service.clusters import Cluster as Kubernetes
from tests.service.clusters import Workload
from tests.service.postgres import Cluster
from tests.service.running import Running

ROOT = Path(__file__).parents[2]


def test_keys_and_tokens_are_found_by_their_form(own: Running) -> None:
    secrets = [secret_format.mint(), secret_format.mint(secret_format.WORKLOAD_TOKEN_PREFIX), own.token(OWNER)]
    text = f"x={secrets[0]}; '{secrets[1]}'\nAuthorization: Bearer {secrets[2]}\n"
    assert list(secrets_in(text.encode())) == secrets
    assert list(secrets_in(secret_format.mask_secrets(text).replace(secrets[2], "").encode())) == []
    assert list(secrets_in(b"fmk_" + b"a" * 36)) == []


@pytest.mark.slow
def test_a_platform_that_stores_a_secret_is_detected() -> None:
    with pytest.raises(AssertionError, match=r"platform\.db-wal"), Running() as running:  # noqa: PT012 - found as it ends
        secret = Key(running, "compute:read").secret
        assert running.leaks() == []
        with (running.folder.parent / "log").open("a") as log:
            log.write(f"{secret}\n")
        assert [leak.partition(":")[0] for leak in running.leaks()] == ["log"]
        write_down(running.database_url, secret_of(running), secret)
        assert [leak.partition(":")[0] for leak in leaks_of_database(running.database_url)] == ["audit_log"]


@pytest.mark.slow
def test_files_of_postgresql_contain_no_secret() -> None:
    """The tables as they are on the disk, the write-ahead log, the server's own log; then secrets are put there."""
    with pytest.raises(AssertionError, match=r"^\['0{7}1"), Cluster() as server:
        search_files(server)


def search_files(server: Cluster) -> None:
    server.create("day")
    with Running(server.url("day")) as running:
        secrets = use_all_secrets(running)
        running.seen |= secrets
        own = secret_of(running)
    assert len(secrets) == 11
    server.execute("CHECKPOINT")
    assert leaks_of_files(server.folder, (), secrets) == []
    for secret in secrets:
        write_down(server.url("day"), own, secret)
    server.execute("CHECKPOINT")
    for place in (server.wal, server.folder / "data" / "base"):
        assert shown_in(leaks_of_files(place, (), secrets)) == beginnings(secrets)
    across_pages = [secret_format.mint() for _ in range(1000)]
    server.execute(f"SELECT pg_logical_emit_message(true, 'x', '{' '.join(across_pages)}')")
    server.execute("CHECKPOINT")
    assert shown_in(leaks_of_files(server.wal, ())) >= beginnings(across_pages)


def shown_in(leaks: list[str]) -> set[str]:
    return {leak.rpartition(" ")[2] for leak in leaks}


def beginnings(secrets: Iterable[str]) -> set[str]:
    return {f"{secret[: secret_format.PREFIX_LENGTH]}…" for secret in secrets}


def use_all_secrets(running: Running) -> set[str]:
    key = Key(running, "compute:read")
    assert key.use().status == 200
    rotated = key.manage("POST", "/rotate", {}).json()["key"]
    assert key.revoke().status == 200
    assert key.use().status == 401
    cluster = Kubernetes(running)
    assert cluster.register().status == 200
    workload = Workload(cluster, "media", "image-resizer")
    assert workload.use().status == 200
    tokens = running.start_session(OWNER)
    access = [running.token(OWNER), tokens["access_token"]]
    form = {"client_id": "frost-cli", "grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}
    access.append(running.form("/issuer/token", **form)["access_token"])
    secrets = {key.secret, rotated, workload.token, *access, *running.seen}
    for secret in secrets:
        # By mistake in a path, which goes to the log, and with a change to the audit log.
        place = f"/api/v1/tenants/{secret}/api-keys/{secret}"
        assert {running.ask(method, place, as_=OWNER).status for method in ("GET", "DELETE")} == {400}
    return secrets


def secret_of(running: Running) -> bytes:
    return (running.folder / "secret.key").read_bytes()


def write_down(url: str, own: bytes, secret: str) -> None:
    event, members = AuditEvent.PLATFORM_STOP, {"target": "x", "details": {"x": secret}, "at": datetime.now(UTC)}
    with closing(audited(url, own)) as database, database.write() as connection:
        entries.record(connection, PLATFORM, event=event, **members)


def test_a_command_that_prints_a_secret_is_detected(home: Home) -> None:
    with pytest.raises(AssertionError, match="standard error has 1 secrets"):
        home.frost("iam", secret_format.mint())


@pytest.mark.parametrize("folder", ["screenshots", "tests", "client", "tui", "service"])
def test_no_picture_and_no_source_holds_a_secret(folder: str) -> None:
    # `.parts` has the packages that the tests of identity providers install; some show an example of a token.
    assert leaks_of_files(ROOT / folder, (), without=".parts") == []
