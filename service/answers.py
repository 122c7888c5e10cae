"""What each endpoint answers with, as JSON schemas made from the client's models; only the API description asks."""

import importlib
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

REFERENCE = "#/components/schemas/"

# By operation id: a model (module:name), or the members of an object; `[]` is an array, no colon is a plain type.
ANSWERS: dict[str, str | dict[str, str]] = {
    "getCliConfig": "account:CliConfig",
    "getMe": "account:Me",
    "listOrganizations": {"organizations": "account:Organization[]"},
    "listScopes": {"scopes": "account:Scope[]", "operations": "object[]"},
    "listTenants": {"tenants": "tenants:Tenant[]", "defaultTenantId": "string"},
    "listOrganizationTenants": {"tenants": "tenants:Tenant[]", "defaultTenantId": "string"},
    "createTenant": "tenants:Tenant",
    "getTenant": "tenants:Tenant",
    "renameTenant": "tenants:Tenant",
    "listOperations": {"operations": "operations:Operation[]"},
    "getOperation": "operations:Operation",
    "platformStatus": "platform:PlatformStatus",
    "listPlatformOperations": {"operations": "operations:Operation[]"},
    "stopPlatform": "platform:Stopping",
}


@cache
def schemas() -> dict[str, Any]:
    """The schemas of every model in `ANSWERS`, and of those inside them, by name."""
    flat = [part for answer in ANSWERS.values() for part in (answer.values() if isinstance(answer, dict) else [answer])]
    names = sorted({part.removesuffix("[]") for part in flat if ":" in part})
    _, definitions = models_json_schema(
        [(_model(name), "serialization") for name in names], ref_template=REFERENCE + "{model}"
    )
    found: dict[str, Any] = definitions["$defs"]
    return found


def schema(operation_id: str) -> dict[str, Any] | None:
    """The schema of an endpoint's answer; None when it has no described one."""
    answer = ANSWERS.get(operation_id)
    if isinstance(answer, dict):
        members = {name: _schema(part) for name, part in answer.items()}
        return {"type": "object", "required": list(members), "properties": members}
    return _schema(answer) if answer else None


def _schema(part: str) -> dict[str, Any]:
    if part.endswith("[]"):
        return {"type": "array", "items": _schema(part.removesuffix("[]"))}
    _, colon, name = part.partition(":")
    return {"$ref": REFERENCE + name} if colon else {"type": part}


def _model(name: str) -> type[BaseModel]:
    module, _, attribute = name.partition(":")
    model: type[BaseModel] = getattr(importlib.import_module(f"client.models.{module}"), attribute)
    return model
