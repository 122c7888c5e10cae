"""Queries for cluster issuers and workload identities."""

from typing import Any

from sqlalchemy import Connection, and_, delete, select

from service.db.dialect import upsert_insert
from service.db.engine import Record
from service.db.tables import cluster_issuers, resources, tenants, workload_identities, workload_tokens
from service.principals.queries import CLUSTER


def save_issuer(connection: Connection, tenant_id: str, cluster_id: str, values: dict[str, Any]) -> None:
    statement = upsert_insert(connection, cluster_issuers).values(tenant_id=tenant_id, cluster_id=cluster_id, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["tenant_id", "cluster_id"], set_=values))


def find_issuer(connection: Connection, tenant_id: str, cluster_id: str) -> Record | None:
    return connection.execute(
        select(cluster_issuers).where(
            cluster_issuers.c.tenant_id == tenant_id, cluster_issuers.c.cluster_id == cluster_id
        )
    ).one_or_none()


def delete_issuer(connection: Connection, tenant_id: str, cluster_id: str) -> None:
    """Delete a cluster's issuer and the tokens of its workloads."""
    delete_tokens(connection, tenant_id, cluster_id)
    connection.execute(
        delete(cluster_issuers).where(
            cluster_issuers.c.tenant_id == tenant_id, cluster_issuers.c.cluster_id == cluster_id
        )
    )


def delete_tokens(connection: Connection, tenant_id: str, cluster_id: str) -> None:
    identity_ids = select(workload_identities.c.id).where(
        workload_identities.c.tenant_id == tenant_id, workload_identities.c.cluster_id == cluster_id
    )
    connection.execute(delete(workload_tokens).where(workload_tokens.c.identity_id.in_(identity_ids)))


def find_issuer_of_cluster(connection: Connection, cluster_id: str) -> Record | None:
    """Return the issuer of an existing cluster."""
    return connection.execute(
        select(cluster_issuers)
        .join(
            resources,
            and_(resources.c.id == cluster_issuers.c.cluster_id, resources.c.tenant_id == cluster_issuers.c.tenant_id),
        )
        .where(cluster_issuers.c.cluster_id == cluster_id, resources.c.kind == CLUSTER)
    ).one_or_none()


def find_identity(
    connection: Connection, tenant_id: str, cluster_id: str, namespace: str, service_account: str
) -> Record | None:
    """Return an identity with the organization of its tenant."""
    return connection.execute(
        select(workload_identities, tenants.c.organization_id)
        .join(tenants, tenants.c.id == workload_identities.c.tenant_id)
        .where(
            workload_identities.c.tenant_id == tenant_id,
            workload_identities.c.cluster_id == cluster_id,
            workload_identities.c.namespace == namespace,
            workload_identities.c.service_account == service_account,
        )
    ).one_or_none()
