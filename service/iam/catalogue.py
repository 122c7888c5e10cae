"""Lists the scopes of API keys and the operations of policies."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select

from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.catalogue.operations import scopes
from service.db.tables import catalogue_operations
from service.json_bodies import JSONResponse

router = protected_router("iam")


@router.get("/api/v1/scopes", operation_id="listScopes")
def list_scopes(platform: PlatformDep, _: ContextDep) -> JSONResponse:
    """List all scopes, the global `*` first, and all operations in the order of their addition to the catalogue."""
    with platform.database.read() as connection:
        rows = operations(connection)
    return JSONResponse(
        {
            "scopes": [
                {"scope": scope.scope, "description": scope.description, "enforced": scope.enforced}
                for scope in scopes()
            ],
            "operations": [
                {"name": row.name, "accessLevel": row.access_level, "description": row.description} for row in rows
            ],
        }
    )


@router.get("/api/v1/iam/catalogue", operation_id="listCatalogue")
def list_catalogue(
    platform: PlatformDep,
    _: ContextDep,
    filter: str = "",
) -> JSONResponse:
    """List the operations with a text in their name, ignoring case, sorted by name."""
    text = filter.casefold()
    with platform.database.read() as connection:
        rows = operations(connection)
    return JSONResponse(
        {
            "operations": [
                {"name": row.name, "accessLevel": row.access_level, "description": row.description}
                for row in sorted(rows, key=lambda row: str(row.name))
                if text in row.name
            ],
            "total": len(rows),
        }
    )


def operations(connection: Connection) -> Sequence[Row[Any]]:
    """Return all operations of the catalogue in order of addition: `name`, `access_level`, `description`."""
    return connection.execute(select(catalogue_operations).order_by(catalogue_operations.c.position)).all()
