"""Workload identities, which groups hold and policies are attached to. Source: facts 3."""

from __future__ import annotations

from client.models.base import Instant, Wire


class Binding(Wire):
    """A workload identity: a service account of a cluster. `inert`: it has neither scopes nor a policy."""

    id: str
    cluster_id: str = ""
    tenant_id: str = ""
    namespace: str
    service_account: str
    scopes: tuple[str, ...] = ()
    inert: bool = False
    created_at: Instant
    updated_at: Instant
