"""Searches files and databases that a test leaves behind for secrets."""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import inspect

from service.authn import machine_credentials, secret_format
from service.db.engine import Database

# Two patterns: one that starts with letters is searched for much faster than a choice of two.
_FORMS = (re.compile(rb"fm[kw]_[0-9A-Za-z]{36}"), re.compile(rb"eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{20,}", re.ASCII))
# PostgreSQL's: XLOG_BLCKSZ, and the sizes of XLogPageHeaderData and, in a file's first page, XLogLongPageHeaderData.
WAL_PAGE, WAL_HEAD, WAL_FIRST_HEAD = 8192, 24, 40
_FORMLESS = ("refresh_token", "device_code", "code", "code_verifier")


def secrets_in(content: bytes) -> Iterator[str]:
    """Yield the secrets of a text or a file."""
    for form in _FORMS:
        for found in form.findall(content):
            text = found.decode("ascii")
            if secret_format.is_well_formed(text) or machine_credentials.is_workload_token(text) or _is_token(text):
                yield text


def formless_in(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the secrets without a form of a request, an answer or a stored context."""
    yield from (str(fields[name]) for name in _FORMLESS if fields.get(name))


def _is_token(text: str) -> bool:
    head = text.partition(".")[0]
    try:
        return "alg" in json.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        return False


def _leaked(content: bytes, seen: Collection[str]) -> list[str]:
    return [*secrets_in(content), *(secret for secret in seen if secret.encode() in content)]


def leaks_of_files(
    folder: Path, allowed: Collection[str], seen: Collection[str] = (), *, without: str | None = None
) -> list[str]:
    """Return the files below a folder in which a secret can be read.

    Args:
        allowed: names of files that may hold secrets.
        seen: secrets that no pattern matches.
        without: the name of folders to skip.
    """
    leaks = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name not in allowed and without not in path.parts:
            content = _unpaged(path.read_bytes()) if path.parent.name == "pg_wal" else path.read_bytes()
            leaks += [f"{path.name}: {_masked(secret)}" for secret in _leaked(content, seen)]
    return leaks


def _unpaged(segment: bytes) -> bytes:
    """Return a file of PostgreSQL's write-ahead log without the heads of its pages, which interrupt records."""
    pages = range(WAL_PAGE, len(segment), WAL_PAGE)
    return b"".join([segment[WAL_FIRST_HEAD:WAL_PAGE], *(segment[at + WAL_HEAD : at + WAL_PAGE] for at in pages)])


def leaks_of_database(url: str, seen: Collection[str] = ()) -> list[str]:
    """Return the tables in which a secret can be read, including those of the job engine."""
    database, leaks = Database(url), []
    try:
        with database.read() as connection:
            inspector = inspect(connection)
            for schema in inspector.get_schema_names():
                system = schema in ("information_schema", "pg_catalog")
                for name in () if system else inspector.get_table_names(schema):
                    for row in connection.exec_driver_sql(f'SELECT * FROM "{schema}"."{name}"'):
                        leaks += [f"{name}: {_masked(secret)}" for secret in _leaked(repr(row).encode(), seen)]
    finally:
        database.close()
    return leaks


def _masked(secret: str) -> str:
    return secret[: secret_format.PREFIX_LENGTH] + "…"
