"""What can be granted: scopes of API keys, operations of policies. contract: account api-key scopes, iam catalog

The operation catalogue in the database.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, select
from starlette.responses import JSONResponse

from service.api.dependencies import ContextDep, PlatformDep
from service.api.protected_route import protected_router
from service.catalogue.operations import scopes
from service.db.tables import catalogue_operations

router = protected_router("iam")


@router.get("/api/v1/scopes", operation_id="listScopes")
def list_scopes(platform: PlatformDep, _: ContextDep) -> JSONResponse:
    """Every scope, the global `*` first among them, and every operation in the order it entered the catalogue."""
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
    """The operations whose name holds a text, letter case ignored and nothing in it special, sorted by name."""
    wanted = filter.casefold()
    with platform.database.read() as connection:
        rows = operations(connection)
    return JSONResponse(
        {
            "operations": [
                {"name": row.name, "accessLevel": row.access_level, "description": row.description}
                for row in sorted(rows, key=lambda row: str(row.name))
                if wanted in row.name
            ],
            "total": len(rows),
        }
    )


def operations(connection: Connection) -> Sequence[Row[Any]]:
    """Every operation of the catalogue, in the order they were added: `name`, `access_level`, `description`."""
    return connection.execute(select(catalogue_operations).order_by(catalogue_operations.c.position)).all()
