"""Changes: the write transaction of a route, in which its principal is authorized again, and `Idempotency-Key`.

The credential, the membership or a policy may be revoked after the first authorization, while the request waits. So
routes open their write transaction with `change`. Its first statement locks the domains of the decision and reads their
revisions (`service/db/revisions.py`). Equal revisions replace the second authorization: only times and conditions are
checked again. Otherwise another process or request has changed the access since, and the principal is authorized
from the database, under the locks.

A repeated request with an `Idempotency-Key` creates nothing and finds the resource of the first request. The route
decides about the response: usually the current resource; for an API key a refusal, because its secret is returned only
once. Keys expire after a day.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, TypeVar

from sqlalchemy import Connection, case

from service.api.enforcement import enforce, require_operation
from service.audit.entries import AuditEvent
from service.authn.confirmation import CONFIRM
from service.authz.context import AuthorizationContext, authorize
from service.authz.entitlements import Entitlements
from service.context import Platform
from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.revisions import CATALOGUE_DOMAIN, Revisions, lock_revisions
from service.db.tables import idempotency_keys
from service.errors import ApiError, authentication_required, tenant_access_denied

C = TypeVar("C", bound=AuthorizationContext)
IDEMPOTENCY_KEY_LIFETIME = timedelta(days=1)
"""How long a key is kept."""
_PRIMARY_KEY = (idempotency_keys.c.actor_id, idempotency_keys.c.operation, idempotency_keys.c.key)


@contextmanager
def change(
    platform: Platform, context: C, *, shared: bool = False, organizations: Collection[str] = ()
) -> Iterator[tuple[Connection, C]]:
    """Begin a write transaction; yield its connection and the renewed context.

    Changes of an organization run one after the other, and so do those of a person, until they are committed.

    Args:
        shared: allow other shared changes of the organization at the same time. For changes that increase no revision.
        organizations: further organizations that the change affects.

    Raises:
        ApiError: 401 or 403, as for a new request.
    """
    own = [domain for domain in (context.organization_id, context.principal.user_id) if domain]
    catalogue = [CATALOGUE_DOMAIN] if context.rule is not None and context.rule.needs_database else []
    with platform.database.write() as connection:
        if shared:
            revisions = lock_revisions(connection, shared=own + catalogue)
        else:
            revisions = lock_revisions(connection, exclusive=[*own, *organizations], shared=catalogue)
        yield connection, _renew(platform, connection, context, revisions)


def _renew(platform: Platform, connection: Connection, context: C, revisions: Revisions) -> C:
    """Check times and conditions again; authenticate and authorize again if a revision has changed."""
    now, rule, confirm = platform.clock.now(), context.rule, CONFIRM.get(context.principal.kind)
    if rule is None or confirm is None:
        raise RuntimeError("a change needs the access that the guard has decided")
    facts = replace(context.facts, current_time=now.timestamp())
    if _is_unchanged(context, revisions, now):
        if context.grants is not None:
            require_operation(rule, context, context.grants, facts)
        return replace(context, facts=facts)
    principal = confirm(connection, context.principal, now)
    if principal is None:
        raise authentication_required()
    if not rule.needs_database:
        return replace(context, principal=principal)
    entitlements = Entitlements(principal, platform.decisions, connection)
    fresh = authorize(rule, entitlements, context.path)
    if not isinstance(fresh, type(context)):
        raise RuntimeError("a change needs the context that the route policy gives")  # noqa: TRY004
    if fresh.organization_id != context.organization_id:
        # It is not locked.
        raise tenant_access_denied()
    grants = enforce(rule, entitlements, fresh, facts)
    catalogue = entitlements.catalogue() if rule.tenancy == "tenant" else None
    return replace(fresh, rule=rule, path=context.path, facts=facts, grants=grants, catalogue=catalogue)


def _is_unchanged(context: AuthorizationContext, revisions: Revisions, at: datetime) -> bool:
    """Return whether the credential is valid at a time, and the decision was made under these revisions."""
    expires_at, token_ends_at = context.principal.expires_at, context.principal.token_ends_at
    if (expires_at is not None and at >= expires_at) or (token_ends_at is not None and at.timestamp() >= token_ends_at):
        return False
    return bool(revisions) and all(context.revisions.get(domain) == revision for domain, revision in revisions.items())


def resolve_idempotency_key(
    connection: Connection,
    context: AuthorizationContext,
    key: str | None,
    event: AuditEvent,
    request: Sequence[Any],
    new: str,
    at: datetime,
) -> str:
    """Return the id of the resource to create: `new`, or the id from an earlier request with the same key.

    Args:
        request: the parent and all members as JSON values, which must be equal for the same key.

    Raises:
        ApiError: 409 IDEMPOTENCY_KEY_REUSED for different values, with the `id` of the resource.
    """
    if key is None:
        return new
    digest = request_hash(*request)
    actor_id = context.principal.key_id or context.principal.actor_id
    row = {"actor_id": actor_id, "operation": event.value, "key": key, "request_hash": digest, "resource_id": new}
    claimed = claim_idempotency_key(connection, row, at)
    check_same_request(claimed.request_hash, digest, id=claimed.resource_id)
    return str(claimed.resource_id)


def request_hash(*request: Any) -> str:
    return sha256(json.dumps(request).encode()).hexdigest()


def check_same_request(stored: str, now: str, **details: str) -> None:
    """Raise 409 IDEMPOTENCY_KEY_REUSED with `details` if the digests of two requests differ."""
    if stored != now:
        raise ApiError(
            409,
            "IDEMPOTENCY_KEY_REUSED",
            "this Idempotency-Key was used for another request",
            details=details or None,
            hint="send the request under a new key",
        )


def claim_idempotency_key(connection: Connection, values: Mapping[str, Any], at: datetime) -> Record:
    """Insert an idempotency key or replace an expired key; return its stored `request_hash` and `resource_id`.

    A single statement, so that concurrent requests wait for the first and get its values.
    """
    insert = upsert_insert(connection, idempotency_keys).values(**values, created_at=at)
    expired = idempotency_keys.c.created_at < at - IDEMPOTENCY_KEY_LIFETIME
    values_now = {
        # Unchanged columns are set as well, because RETURNING only returns rows that were written.
        name: case((expired, insert.excluded[name]), else_=idempotency_keys.c[name])
        for name in ("request_hash", "resource_id", "created_at")
    }
    return connection.execute(
        insert.on_conflict_do_update(index_elements=_PRIMARY_KEY, set_=values_now).returning(
            idempotency_keys.c.request_hash, idempotency_keys.c.resource_id
        )
    ).one()
