"""The grants of workload identities: one that has any is not left with none by a detach or by dropping its scopes.

Only those two are refused; taking it out of a group, deleting a group or a policy leaves it inert. contract: Workload
identity; checklist O12
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from service.errors import Refusal
from service.iam import principal_store


def granted(connection: Connection, tenant_id: str, bindings: Sequence[str]) -> set[str]:
    """Which of some identities have a grant: scopes, or a policy attached to them or to a group of theirs."""
    scoped = {row.id for row in principal_store.identities_among(connection, tenant_id, bindings) if row.scopes}
    return scoped | principal_store.granted_policies(connection, tenant_id, bindings)


def require_kept(connection: Connection, tenant_id: str, before: set[str]) -> None:
    """Refuse the change just made on this connection when it took the last grant of an identity.

    Raises:
        Refusal: 400 BINDING_WOULD_HAVE_NO_GRANT naming the identities.
    """
    refuse_left(sorted(before - granted(connection, tenant_id, sorted(before))))


def refuse_left(left: Sequence[str]) -> None:
    """Refuse a change that leaves identities without any grant.

    Raises:
        Refusal: 400 BINDING_WOULD_HAVE_NO_GRANT naming the identities.
    """
    if left:
        raise Refusal(
            400,
            "BINDING_WOULD_HAVE_NO_GRANT",
            "the binding would be left with no grant source",
            details={"bindingIds": left[:20]},
            hint="give it scopes or another policy first, or delete the binding",
        )
