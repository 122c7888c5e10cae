"""A subject as a principal of the tenant: all that its decisions rest on is read here, nothing comes from a caller.

One who is not there stands on nothing, and is looked up with the same statements as one who is.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import cast

from sqlalchemy import Connection

from service.access import standing as stored
from service.access.standing import PrincipalKind, Standing
from service.decision_point import store

KINDS: tuple[PrincipalKind, ...] = ("user", "api_key", "workload_identity")


def is_kind(text: str) -> bool:
    return text in KINDS


def standing_of(connection: Connection, tenant_id: str, kind: str, identifier: str, at: datetime) -> Standing:
    """What a subject stands on now."""
    organization_id = stored.organization_of(connection, tenant_id)
    nobody = Standing(cast(PrincipalKind, kind), identifier, tenant_id, organization_id, None, ())
    if kind == "user":
        person = store.person(connection, tenant_id, identifier)
        return nobody if person is None else Standing("user", person.id, tenant_id, organization_id, person.role, None)
    if kind == "api_key":
        key = store.key(connection, tenant_id, identifier, at)
        role = stored.role_in(connection, tenant_id, key.user_id if key else identifier)
        held = stored.policies_of(connection, tenant_id, kind, identifier)
        if key is None:
            return nobody
        return Standing("api_key", identifier, tenant_id, organization_id, role, tuple(key.scopes), held)
    identity = store.identity(connection, tenant_id, identifier)
    held = stored.policies_of(connection, tenant_id, "workload_identity", identifier)
    if identity is None:
        return nobody
    scopes = tuple(identity.scopes) or None
    return Standing("workload_identity", identifier, tenant_id, organization_id, None, scopes, held)


def next_standings(
    connection: Connection, tenant_id: str, kind: str, after: str, most: int, at: datetime
) -> Iterator[Standing]:
    """The subjects of a kind whose ids come behind `after`, with what they stand on."""
    organization_id = stored.organization_of(connection, tenant_id)
    if kind == "user":
        for row in store.next_people(connection, tenant_id, after, most):
            yield Standing("user", row.id, tenant_id, organization_id, row.role, None)
        return
    if kind == "api_key":
        rows = store.next_keys(connection, tenant_id, after, most, at)
        roles = stored.roles_in(connection, tenant_id)
        held = stored.held_by(connection, tenant_id, kind, [row.id for row in rows])
        for row in rows:
            role, policies = roles.get(row.user_id), held.get(row.id, ())
            yield Standing("api_key", row.id, tenant_id, organization_id, role, tuple(row.scopes), policies)
        return
    rows = store.next_identities(connection, tenant_id, after, most)
    held = stored.held_by(connection, tenant_id, kind, [row.id for row in rows])
    for row in rows:
        scopes = tuple(row.scopes) or None
        yield Standing("workload_identity", row.id, tenant_id, organization_id, None, scopes, held.get(row.id, ()))
