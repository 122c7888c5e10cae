"""The search that every platform and home of the tests ends with finds what it looks for. hostile C15"""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import insert

from service.access import keys, workloads
from service.db import tables
from service.db.engine import Database
from tests.leaks import leaks_of_database, leaks_of_files, secrets_in
from tests.service.account import Key
from tests.service.running import OWNER, Running

ROOT = Path(__file__).parents[2]


def test_keys_and_tokens_are_told_by_their_form(own: Running) -> None:
    secrets = [keys.mint(), keys.mint(workloads.MARK), own.token(OWNER)]
    text = f"x={secrets[0]}; '{secrets[1]}'\nAuthorization: Bearer {secrets[2]}\n"
    assert list(secrets_in(text.encode())) == secrets
    assert list(secrets_in(keys.masked(text).replace(secrets[2], "").encode())) == []
    assert list(secrets_in(b"fmk_" + b"a" * 36)) == []


def test_a_platform_that_wrote_a_secret_down_is_found_out() -> None:
    with pytest.raises(AssertionError, match=r"platform\.db-wal"), Running() as running:  # noqa: PT012 - found as it ends
        secret = Key(running, "compute:read").secret
        assert running.leaks() == []
        with (running.folder.parent / "log").open("a") as log:
            log.write(f"{secret}\n")
        assert [leak.partition(":")[0] for leak in running.leaks()] == ["log"]
        database = Database(running.database_url)
        organization = {"id": secret, "name": "o", "slug": "o", "created_at": datetime.now(UTC)}
        with database.write() as connection:
            connection.execute(insert(tables.organizations).values(organization))
        database.close()
        assert [leak.partition(":")[0] for leak in leaks_of_database(running.database_url)] == ["organizations"]


@pytest.mark.parametrize("folder", ["screenshots", "tests", "client", "tui", "service"])
def test_no_picture_and_no_source_holds_a_secret(folder: str) -> None:
    assert leaks_of_files(ROOT / folder, ()) == []
