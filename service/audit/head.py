"""The head of the audit log's chain, which authenticates the number of entries and the last digest."""

import hmac
from collections.abc import Mapping
from functools import cache
from typing import Any

from sqlalchemy import Connection, Update, select, update

from service.audit.digests import head_mac
from service.db.prepared import prepared
from service.db.statements import named_parameters
from service.db.tables import audit_head

GENESIS_HASH = "0" * 64
"""The previous hash of the first entry."""
HEAD_ID = 1
_LOCKED_HEAD = prepared(select(audit_head).with_for_update())


class ChainBroken(Exception):
    """The head is missing or forged. To append an entry would hide the damage."""


def lock_head(connection: Connection, key: bytes) -> dict[str, Any]:
    """Lock the head until the transaction ends, and return it.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    row = connection.execute(_LOCKED_HEAD).one_or_none()
    return require_head(None if row is None else row._asdict(), key)


def require_head(row: Mapping[Any, Any] | None, key: bytes) -> dict[str, Any]:
    """Return the verified head.

    Args:
        row: the columns of the stored head; None if there is none.

    Raises:
        ChainBroken: the head is missing or forged.
    """
    if row is None:
        raise ChainBroken("the end of the audit log's chain is missing")
    head = {str(name): value for name, value in row.items()}
    if not hmac.compare_digest(head_mac(key, head), head["seal"]):
        raise ChainBroken("the end of the audit log's chain was not written by this platform")
    return head


def update_head(connection: Connection, key: bytes, head: dict[str, Any], **changed: Any) -> None:
    """Change columns of a locked head."""
    seal = head_mac(key, {**head, **changed})
    connection.execute(_update(tuple(changed)), {**changed, "seal": seal})


@cache
def _update(columns: tuple[str, ...]) -> Update:
    return prepared(update(audit_head).values(named_parameters(audit_head, (*columns, "seal"))))
