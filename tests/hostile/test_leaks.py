"""The search that every platform and home of the tests ends with finds what it looks for."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from service.audit import entries
from service.audit.events import AuditEvent
from service.authn import secret_format
from service.principal import PLATFORM
from tests.homes import Home
from tests.leaks import leaks_of_database, leaks_of_files, secrets_in
from tests.service.account import Key
from tests.service.audited import audited
from tests.service.clusters import Cluster as Kubernetes
from tests.service.clusters import Workload
from tests.service.postgres import Cluster
from tests.service.running import DEVICE_GRANT, OWNER, Running

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
        write_down(running.database_url, kept_by(running), secret)
        assert [leak.partition(":")[0] for leak in leaks_of_database(running.database_url)] == ["audit_log"]


@pytest.mark.slow
def test_files_of_postgresql_contain_no_secret() -> None:
    with pytest.raises(AssertionError, match=r"^\['0{7}1"), Cluster() as server:
        search_the_files_of(server)


def search_the_files_of(server: Cluster) -> None:
    """The tables as they are on the disk, the write-ahead log, the server's own log; then secrets are put there."""
    server.create("day")
    with Running(server.url("day")) as running:
        told = a_day_of(running)
        running.seen |= told
        own = kept_by(running)
    assert len(told) == 11
    server.execute("CHECKPOINT")
    assert leaks_of_files(server.folder, (), told) == []
    for secret in told:
        write_down(server.url("day"), own, secret)
    server.execute("CHECKPOINT")
    for place in (server.wal, server.folder / "data" / "base"):
        found = {leak.rpartition(" ")[2] for leak in leaks_of_files(place, (), told)}
        assert found == {f"{secret[: secret_format.PREFIX_LENGTH]}…" for secret in told}
    across_pages = [secret_format.mint() for _ in range(1000)]
    server.execute(f"SELECT pg_logical_emit_message(true, 'x', '{' '.join(across_pages)}')")
    server.execute("CHECKPOINT")
    found = {leak.rpartition(" ")[2] for leak in leaks_of_files(server.wal, ())}
    assert found >= {f"{secret[: secret_format.PREFIX_LENGTH]}…" for secret in across_pages}


def a_day_of(running: Running) -> set[str]:
    """Uses every kind of secret on a platform; which those were."""
    key = Key(running, "compute:read")
    assert key.use().status == 200
    rotated = key.manage("POST", "/rotate", {}).json()["key"]
    assert key.revoke().status == 200
    assert key.use().status == 401
    cluster = Kubernetes(running)
    assert cluster.register().status == 200
    workload = Workload(cluster, "media", "image-resizer")
    assert workload.use().status == 200
    started = running.form("/issuer/device_authorization", client_id="frost-cli")
    running.form("/issuer/device/approve", user_code=started["user_code"], email=OWNER)
    polled = {"grant_type": DEVICE_GRANT, "device_code": started["device_code"]}
    renewed = {"grant_type": "refresh_token"}
    access = [running.token(OWNER)]
    for form in (polled, renewed):
        given = running.form("/issuer/token", client_id="frost-cli", **form)
        access.append(given["access_token"])
        renewed["refresh_token"] = given["refresh_token"]
    told = {key.secret, rotated, workload.token, *access, *running.seen}
    for secret in told:
        # By mistake in a path, which goes to the log, and with a change to the audit log.
        place = f"/api/v1/tenants/{secret}/api-keys/{secret}"
        assert {running.ask(method, place, as_=OWNER).status for method in ("GET", "DELETE")} == {400}
    return told


def kept_by(running: Running) -> bytes:
    """The platform's own secret."""
    return (running.folder / "secret.key").read_bytes()


def write_down(url: str, own: bytes, secret: str) -> None:
    database = audited(url, own)
    with database.write() as connection:
        entries.record(
            connection,
            PLATFORM,
            event=AuditEvent.PLATFORM_STOP,
            target="x",
            details={"x": secret},
            at=datetime.now(UTC),
        )
    database.close()


def test_a_command_that_prints_a_secret_is_detected() -> None:
    home = Home()
    try:
        secret = secret_format.mint()
        with pytest.raises(AssertionError, match="standard error has 1 secrets"):
            home.frost("iam", secret)
    finally:
        home.remove()


@pytest.mark.parametrize("folder", ["screenshots", "tests", "client", "tui", "service"])
def test_no_picture_and_no_source_holds_a_secret(folder: str) -> None:
    # `.parts` has the packages that the tests of identity providers install; some show an example of a token.
    assert leaks_of_files(ROOT / folder, (), without=".parts") == []
