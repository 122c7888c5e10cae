"""What the platform needs of a PostgreSQL database: refused in one sentence before anything is created."""

import itertools
import logging
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, insert, select, text

from service.app import open_platform
from service.db import postgresql_needs
from service.db.engine import Database
from service.db.statements import after_key
from service.db.tables import platform_state
from service.jobs.dbos_queue import SCHEMA
from service.settings import from_arguments
from tests.service.postgres import Cluster
from tests.service.queries import fetch_scalars

_numbers = itertools.count(1)


def create_database(cluster: Cluster, options: str) -> str:
    """Create a database; return its name."""
    name = f"needs_{next(_numbers)}"
    cluster.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
    return name


def refusal(url: str, folder: Path) -> str:
    settings = from_arguments(["--data-dir", str(folder), "--database", url, "--world", "empty"], {})
    with pytest.raises(ValueError) as refused:
        open_platform(settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def created(cluster: Cluster, name: str) -> list[str]:
    """Return the tables and schemas that a start has created."""
    with psycopg.connect(cluster.url(name)) as connection:
        query = (
            "SELECT relname::text FROM pg_class WHERE relnamespace::regnamespace::text !~ '^(pg_|information_schema)'"
            " UNION ALL SELECT nspname::text FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public|own)'"
        )
        return [row[0] for row in connection.execute(query)]


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_another_encoding_is_refused_and_nothing_is_left_behind(
    cluster: Cluster, tmp_path: Path, encoding: str
) -> None:
    name = create_database(cluster, f"ENCODING '{encoding}' LOCALE 'C'")
    expected = f"the database {name} has the encoding {encoding}; create one with the encoding UTF8"
    assert refusal(cluster.url(name), tmp_path) == expected
    assert created(cluster, name) == []
    assert list(tmp_path.iterdir()) == []


def test_missing_rights_are_refused_and_nothing_is_left_behind(cluster: Cluster, tmp_path: Path) -> None:
    name = create_database(cluster, "ENCODING 'UTF8' LOCALE 'C'")
    role = f"role_{name}"
    cluster.execute(f"CREATE ROLE {role} LOGIN")
    url = cluster.url(name).replace("//frost@", f"//{role}@")

    def execute(statement: str) -> None:
        with psycopg.connect(cluster.url(name), autocommit=True) as connection:
            connection.execute(statement.encode())

    # On PostgreSQL 14, everybody may create tables there.
    execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    assert "may not create tables in the schema public" in refusal(url, tmp_path)
    execute(f"GRANT CREATE ON SCHEMA public TO {role}")
    assert f"may not create the schema {SCHEMA} in the database {name}" in refusal(url, tmp_path)
    execute(f"ALTER ROLE {role} SET search_path TO nowhere")
    assert "has no schema that exists" in refusal(url, tmp_path)
    execute(f"ALTER ROLE {role} RESET search_path")
    execute(f"CREATE SCHEMA {SCHEMA}")
    assert f"may not use the schema {SCHEMA}" in refusal(url, tmp_path)
    execute(f"DROP SCHEMA {SCHEMA}")
    assert created(cluster, name) == []
    assert list(tmp_path.iterdir()) == []
    execute(f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {role}")
    arguments = ["--data-dir", str(tmp_path), "--database", url, "--world", "empty"]
    open_platform(from_arguments(arguments, {})).database.close()
    # A migrated database needs no further tables.
    execute(f"REVOKE CREATE ON SCHEMA public FROM {role}")
    open_platform(from_arguments(arguments, {})).database.close()


def test_an_old_server_is_refused() -> None:
    facts = SimpleNamespace(version=90_624)
    connection: Any = SimpleNamespace(execute=lambda *_: SimpleNamespace(one=lambda: facts))
    with pytest.raises(ValueError, match=r"^the server is PostgreSQL 9; upgrade it to version 13 or later$"):
        postgresql_needs._check(connection, SCHEMA, needs_migration=True)


@pytest.mark.parametrize(("value", "warnings"), [("off", 1), ("on", 0)])
def test_commits_that_may_be_lost_are_named_once(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, value: str, warnings: int
) -> None:
    name = create_database(cluster, "ENCODING 'UTF8' LOCALE 'C'")
    cluster.execute(f"ALTER DATABASE {name} SET synchronous_commit = {value}")
    arguments = ["--data-dir", str(tmp_path), "--database", cluster.url(name), "--world", "empty"]
    with caplog.at_level(logging.WARNING):
        open_platform(from_arguments(arguments, {})).database.close()
    assert [record.getMessage().partition(":")[0] for record in caplog.records if "synchronous" in record.msg] == [
        "synchronous_commit is off"
    ] * warnings


def test_the_isolation_and_the_encoding_are_those_of_the_platform(cluster: Cluster) -> None:
    """Neither the database nor the role nor the URL may choose others, on any connection."""
    name = create_database(cluster, "ENCODING 'UTF8' LOCALE 'C'")
    cluster.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    cluster.execute(f"ALTER DATABASE {name} SET client_encoding = 'LATIN1'")
    options = r"&options=-c%20default_transaction_isolation%3Dserializable%20-c%20statement_timeout%3D5s"
    for url in (cluster.url(name), f"{cluster.url(name)}{options}"):
        with closing(Database(url)) as database:
            with database.write() as connection:
                shown = [connection.exec_driver_sql(f"SHOW {what}").scalar() for what in SHOWN]
                assert shown == ["read committed", "UTF8", "5s" if "options" in url else "1min"]
            assert fetch_scalars(database, text("SHOW transaction_isolation")) == ["repeatable read"]
            assert fetch_scalars(database, text("SELECT 'Ж 🧊'")) == ["Ж 🧊"]


SHOWN = ("transaction_isolation", "client_encoding", "statement_timeout")


# Page order

NAMES = (
    *("alpha", "Alpha", "ALPHA", "al-pha", "al pha", "al_pha", "a.lpha", "álpha", "zeta", "Zeta", "ähnlich", "ahnlich"),
    *(
        "10",
        "9",
        "09",
        " 9",
        "_x",
        "-x",
        "x-",
        "X",
        "ß",
        "ss",
        "Ss",
        "İ",
        "ı",
        "i",
        "I",
        "Ж",
        "ж",
        "中",
        "🧊",
        "e\u0301",
        "é",
    ),
)


COLUMNS = (platform_state.c.value, platform_state.c.name)


def read_pages(connection: Connection, *, newest_first: bool) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the whole list, and its pages of three rows one after the other."""
    query = select(*COLUMNS).order_by(*(column.desc() if newest_first else column for column in COLUMNS))
    whole = [tuple(row) for row in connection.execute(query)]
    pages: list[tuple[str, str]] = []
    page = connection.execute(query.limit(3)).all()
    while page:
        pages += [tuple(row) for row in page]
        following = query.where(after_key(COLUMNS, pages[-1], newest_first=newest_first))
        page = connection.execute(following.limit(3)).all()
    return whole, pages


@pytest.mark.parametrize(
    "locale", ["LOCALE 'C'", "LOCALE 'en_US.UTF-8'", "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'"]
)
def test_pages_have_every_row_once_in_the_order_of_the_list(cluster: Cluster, locale: str) -> None:
    try:
        name = create_database(cluster, f"ENCODING 'UTF8' {locale}")
    except psycopg.Error as error:
        pytest.skip(f"the server does not have {locale}: {str(error).splitlines()[0]}")
    with closing(Database(cluster.url(name))) as database:
        with database.write() as connection:
            platform_state.create(connection)
            rows = [{"name": str(number), "value": value} for number, value in enumerate(NAMES * 2)]
            connection.execute(insert(platform_state), rows)
        with database.read() as connection:
            whole, pages = read_pages(connection, newest_first=False)
            backward, backward_pages = read_pages(connection, newest_first=True)
    assert len(set(whole)) == 2 * len(NAMES)
    assert (pages, backward_pages) == (whole, backward)
    assert backward == whole[::-1]
    is_binary = [value for value, _ in whole] == sorted(value for value, _ in whole)
    assert is_binary == (locale == "LOCALE 'C'")
