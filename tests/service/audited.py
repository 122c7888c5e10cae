"""Databases that a test opens itself, with an audit log that is kept: who changes something there writes an entry."""

from datetime import UTC, datetime
from hashlib import sha256

from service.audit import chain
from service.db.engine import Database

SECRET = sha256(b"the secret of the tests' audit logs").digest()


def audited(url: str, secret: bytes = SECRET) -> Database:
    """A database opened as a platform with this secret opens it."""
    database = Database(url)
    chain.initialize_chain(database, secret, datetime.now(UTC), rolling=False)
    chain.install_audit_hooks(database, secret)
    return database
