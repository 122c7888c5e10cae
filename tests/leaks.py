"""Whatever a test made is searched for where no secret may be: once for all tests, when a platform or a home is left.

API keys and tokens are told by their form: `fmk_` and `fmw_` with a checksum that fits, and signed JSON Web Tokens.
hostile C15
"""

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Collection, Iterator
from pathlib import Path

from sqlalchemy import inspect

from service.access import keys, workloads
from service.db.engine import Database

_FORMS = re.compile(rb"fm[kw]_[0-9A-Za-z]{36}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{20,}", re.ASCII)


def secrets_in(content: bytes) -> Iterator[str]:
    """The secrets of a text or of the bytes of a file."""
    for found in _FORMS.findall(content):
        text = found.decode("ascii")
        if keys.well_formed(text) or workloads.well_formed(text) or _is_token(text):
            yield text


def _is_token(text: str) -> bool:
    head = text.partition(".")[0]
    try:
        return "alg" in json.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except ValueError:
        return False


def leaks_of_files(folder: Path, allowed: Collection[str]) -> list[str]:
    """Where below a folder a secret can be read, but in files of these names."""
    leaks = []
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.name not in allowed:
            leaks += [f"{path.name}: {_told(secret)}" for secret in secrets_in(path.read_bytes())]
    return leaks


def leaks_of_database(url: str) -> list[str]:
    """In which tables a secret can be read, the engine's own ones too."""
    database, leaks = Database(url), []
    try:
        with database.read() as connection:
            inspector = inspect(connection)
            for schema in inspector.get_schema_names():
                if schema in ("information_schema", "pg_catalog"):
                    continue
                for name in inspector.get_table_names(schema):
                    for row in connection.exec_driver_sql(f'SELECT * FROM "{schema}"."{name}"'):
                        leaks += [f"{name}: {_told(secret)}" for secret in secrets_in(repr(row).encode())]
    finally:
        database.close()
    return leaks


def _told(secret: str) -> str:
    return secret[: keys.PREFIX_LENGTH] + "…"
