"""Routes for operators: status and stop of the platform, and verification, export and removal of the audit log.

They are served only on the unix socket.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Connection, func, select
from sqlalchemy.engine import make_url

from service import validation
from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.audit import entries, segments
from service.audit.continuity import locate
from service.audit.entries import AuditEvent
from service.audit.mark import Mark
from service.audit.seals import ChainBroken, key_of
from service.audit.segments import Proof, SegmentRefused
from service.audit.verification import Fault, Verification, verify
from service.clock import wire_time
from service.db import migrate
from service.db.tables import platform_state, resources, tenants
from service.errors import ApiError
from service.jobs import queries as operations
from service.json_bodies import JSONResponse
from service.settings import VERSION

router = protected_router("platform")
audit_router = protected_router("audit")

Before = Annotated[str, Query(description="RFC 3339; entries before this time are exported")]
After = Annotated[int, Query(ge=0, description="number of the last exported entry")]


@router.get("/api/v1/platform/status", operation_id="platformStatus")
def platform_status(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Return the platform's version, process, seed, database and numbers of rows."""
    with platform.database.read() as connection:
        stalled = operations.stalled_count(connection, platform.clock.now())
        open_count = operations.open_count(connection)
        seed = select(platform_state.c.value).where(platform_state.c.name == "world").scalar_subquery()
        counts = connection.execute(
            select(
                seed.label("world"),
                select(func.count()).select_from(tenants).scalar_subquery().label("tenants"),
                select(func.count()).select_from(resources).scalar_subquery().label("resources"),
            )
        ).one()
    return JSONResponse(
        {
            "version": VERSION,
            "pid": os.getpid(),
            "startedAt": wire_time(platform.started_at),
            "world": counts.world,
            "database": make_url(platform.settings.database_url).render_as_string(hide_password=True),
            "socket": str(platform.settings.socket),
            "schemaRevision": migrate.HEAD,
            "openOperations": open_count,
            "stalledOperations": stalled,
            "tenants": counts.tenants,
            "resources": counts.resources,
            "auditMark": platform.chain_watch.report(),
        }
    )


@router.post("/api/v1/platform/stop", operation_id="stopPlatform", status_code=202)
def stop_platform(platform: PlatformDep, context: ContextDep) -> JSONResponse:
    """Stop the process after the current requests, as SIGTERM does."""
    with platform.database.write() as connection:
        entries.record(
            connection, context.principal, event=AuditEvent.PLATFORM_STOP, target="platform", at=platform.clock.now()
        )
    platform.request_stop()
    return JSONResponse({"status": "stopping"}, 202)


class Segment(BaseModel):
    """The proof of an exported segment."""

    model_config = ConfigDict(extra="forbid", strict=True)

    first: int = Field(ge=1)
    last: int = Field(ge=1)
    begins: str = Field(max_length=32)
    ends: str = Field(max_length=32)
    previous_hash: str = Field(alias="previousHash", max_length=64)
    hash: str = Field(max_length=64)
    sha256: str = Field(max_length=64)
    seal: str = Field(max_length=64)

    def proof(self) -> Proof:
        return Proof(**self.model_dump(exclude={"seal"}))


@audit_router.get("/api/v1/platform/audit/verify", operation_id="verifyAuditLog")
def verify_audit_log(platform: PlatformDep) -> JSONResponse:
    """Verify the chain of the audit log and that it continues its mark; `firstBad` is null if it is intact."""
    key, mark = key_of(platform.secret), platform.chain_watch.mark
    with platform.database.read() as connection:
        verification = verify(connection, key)
        fault = verification.fault or _mark_fault(connection, key, mark)
    return JSONResponse(
        {
            "entries": verification.entries,
            "unsealed": verification.unsealed,
            "unchained": verification.unchained,
            "dropped": _dropped_segments(verification),
            "ok": fault is None,
            "firstBad": fault and {"id": fault.id, "at": fault.at and wire_time(fault.at), "why": fault.reason},
            "head": verification.head,
            "chainedSince": verification.began_at and wire_time(verification.began_at),
            "mark": platform.chain_watch.report(),
        }
    )


def _mark_fault(connection: Connection, key: bytes, mark: Mark | None) -> Fault | None:
    try:
        locate(connection, key, mark)
    except ChainBroken as error:
        return Fault(None, None, str(error))
    return None


@audit_router.get("/api/v1/platform/audit/export", operation_id="exportAuditLog")
def export_audit_log(platform: PlatformDep, before: Before, after: After = 0) -> JSONResponse:
    """Export the next segment: its entries as JSON Lines, and its proof; both null without further entries."""
    instant = validation.instant(before, "before")
    with _refusals(), platform.database.read() as connection:
        exported = segments.export_segment(connection, key_of(platform.secret), after=after, before=instant)
    if exported is None:
        return JSONResponse({"segment": None, "lines": None})
    proof, lines = exported
    return JSONResponse({"segment": _document(proof, proof.seal(key_of(platform.secret))), "lines": lines})


@audit_router.post("/api/v1/platform/audit/drop", operation_id="dropAuditSegment")
def drop_audit_segment(platform: PlatformDep, context: ContextDep, body: Segment) -> JSONResponse:
    """Remove the entries of the oldest segment, given the proof of its export; a checkpoint records them."""
    proof, now = body.proof(), platform.clock.now()
    with _refusals(), platform.database.write() as connection:
        segments.drop_segment(connection, key_of(platform.secret), proof, body.seal, now)
        entries.record(
            connection,
            context.principal,
            event=AuditEvent.AUDIT_DROP,
            target=f"audit:{proof.first}-{proof.last}",
            details={"entries": proof.entries, "hash": proof.hash, "sha256": proof.sha256},
            at=now,
        )
    return JSONResponse({"first": proof.first, "last": proof.last, "dropped": True})


@audit_router.post("/api/v1/platform/audit/verify-segment", operation_id="verifyAuditSegment")
def verify_audit_segment(platform: PlatformDep, body: Segment) -> JSONResponse:
    """Verify the proof of an exported segment, and that the chain continues it."""
    proof = body.proof()
    with _refusals(), platform.database.read() as connection:
        dropped = segments.is_dropped(connection, key_of(platform.secret), proof, body.seal)
    return JSONResponse({"first": proof.first, "last": proof.last, "dropped": dropped})


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except SegmentRefused as error:
        raise ApiError(409, error.code, str(error)) from None
    except ChainBroken as error:
        raise ApiError(409, "AUDIT_BROKEN", str(error)) from None


def _dropped_segments(verification: Verification) -> dict[str, Any] | None:
    dropped = verification.dropped
    if dropped.at is None:
        return None
    return {"first": 1, "last": dropped.entries, "at": wire_time(dropped.at)}


def _document(proof: Proof, seal: str) -> dict[str, Any]:
    return {
        "first": proof.first,
        "last": proof.last,
        "begins": proof.begins,
        "ends": proof.ends,
        "previousHash": proof.previous_hash,
        "hash": proof.hash,
        "sha256": proof.sha256,
        "seal": seal,
    }


router.routes.extend(audit_router.routes)
