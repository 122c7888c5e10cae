"""The SHA-256 digest of a text in a statement: part of the key of what is derived from the text.

A number, such as the version of a policy, does not identify a text: a failover to a server that lags, a restore, or a
statement of an administrator may leave another text under the same number.
"""

from hashlib import sha256
from typing import Any

from sqlalchemy import ColumnElement, String
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

SQLITE_FUNCTION = "frost_digest"
"""PostgreSQL has its own function."""


def digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


class DigestOf(FunctionElement[str]):
    """The digest of a column, as `digest` returns it; None for NULL."""

    type = String()
    inherit_cache = True

    def __init__(self, text: ColumnElement[Any]) -> None:
        super().__init__(text)


@compiles(DigestOf, "postgresql")
def _compile_for_postgresql(element: DigestOf, compiler: Any, **options: Any) -> str:
    return f"encode(sha256(convert_to({compiler.process(element.clauses, **options)}, 'UTF8')), 'hex')"


@compiles(DigestOf, "sqlite")
def _compile_for_sqlite(element: DigestOf, compiler: Any, **options: Any) -> str:
    return f"{SQLITE_FUNCTION}({compiler.process(element.clauses, **options)})"


def digest_or_none(text: str | None) -> str | None:
    """Return the digest of a text of SQLite, which may be NULL."""
    return None if text is None else digest(text)
