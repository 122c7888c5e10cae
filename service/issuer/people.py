"""Who signs in: the person of the machine, or another person of the world asked for by address (`--as EMAIL`)."""

from sqlalchemy import Connection

from service.access import audit
from service.issuer import store
from service.issuer.protocol import IssuerRequest
from service.issuer.store import Person
from service.world.facts import fact

UNKNOWN = "There is no such person on this platform."


def asked_for(connection: Connection, email: str | None) -> Person | None:
    """The person of that address, else who the first sign-in of this world is; None when unknown or deleted."""
    address = email or fact(connection, "first_person")
    return store.person_by_email(connection, address) if address else None


def note_refused(request: IssuerRequest, email: str | None) -> None:
    """Write down that somebody at the socket asked to be a person who does not exist."""
    shown = "".join(letter for letter in email or "" if letter.isprintable())
    audit.record(
        request.connection,
        request.caller,
        operation="session.start",
        target=f"user:{shown}",
        outcome="refused",
        details={"reason": "unknown_person"},
        at=request.at,
    )
