"""Checks again that a credential is accepted, without its secret."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection

from service.authn import machine_credentials, sessions
from service.db.engine import Database
from service.principal import Principal

CONFIRM: Mapping[str, Callable[[Connection, Principal, datetime], Principal | None]] = {
    "session": sessions.confirm,
    "api_key": machine_credentials.confirm_api_key,
    "workload": machine_credentials.confirm_workload_token,
}
"""By the kind of a principal. Each returns the current principal; None if its credential is not valid any more."""


def find_refused(database: Database, principals: Iterable[Principal], at: datetime) -> list[str]:
    """Return the ids of the credentials that are not accepted any more."""
    with database.read() as connection:
        return [
            str(principal.credential_id)
            for principal in principals
            if CONFIRM[principal.kind](connection, principal, at) is None
        ]
