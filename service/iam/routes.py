"""What can be granted: scopes of API keys, operations of policies. contract: account api-key scopes, iam catalog"""

from fastapi import Depends
from starlette.responses import JSONResponse

from service.access.authority import Access, authorize
from service.access.guard import area
from service.iam import store
from service.platform import Platform, platform_of
from service.world.catalogue import scopes

router = area("iam")


@router.get("/api/v1/scopes")
def list_scopes(platform: Platform = Depends(platform_of), _: Access = Depends(authorize)) -> JSONResponse:
    """Every scope, the global `*` first among them, and every operation in the order it entered the catalogue."""
    with platform.database.read() as connection:
        operations = store.operations(connection)
    return JSONResponse(
        {
            "scopes": [
                {"scope": scope.scope, "description": scope.description, "enforced": scope.enforced}
                for scope in scopes()
            ],
            "operations": [
                {"name": row.name, "accessLevel": row.access_level, "description": row.description}
                for row in operations
            ],
        }
    )


@router.get("/api/v1/iam/catalogue")
def list_catalogue(
    platform: Platform = Depends(platform_of),
    _: Access = Depends(authorize),
    filter: str = "",
) -> JSONResponse:
    """The operations whose name holds a text, letter case ignored and nothing in it special, sorted by name."""
    wanted = filter.casefold()
    with platform.database.read() as connection:
        operations = store.operations(connection)
    return JSONResponse(
        {
            "operations": [
                {"name": row.name, "accessLevel": row.access_level, "description": row.description}
                for row in sorted(operations, key=lambda row: str(row.name))
                if wanted in row.name
            ],
            "total": len(operations),
        }
    )
