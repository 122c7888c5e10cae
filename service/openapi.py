"""The description of the API, served at `/api/openapi.json` and made when somebody asks for it.

Operation ids are the endpoints' names in camelCase. Every operation says who may call it, and that each of its
refusals is one of the two envelopes; answers are described by the client's own models.
"""

import re
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import JSONResponse

from service.access.guard import area
from service.access.table import RULES, Rule
from service.version import VERSION

router = area("description")

ENVELOPE = "#/components/schemas/Error"
GONE = "#/components/schemas/Gone"
_MEMBERS = {
    "code": {"type": "string", "description": "An upper-case word a program can switch on."},
    "message": {"type": "string"},
    "details": {"type": "object", "additionalProperties": True},
}
SCHEMAS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "description": "Every refusal but one.",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message"],
                "properties": {
                    **_MEMBERS,
                    "hint": {"type": "string"},
                    "operationId": {"type": "string"},
                    "required_permission": {"type": "string"},
                },
            }
        },
    },
    "Gone": {
        "type": "object",
        "description": "This resource does not exist, or not for this caller. The only refusal in this shape.",
        "required": ["code", "message"],
        "properties": _MEMBERS,
    },
}
SECURITY = {
    "session": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


@router.get("/api/openapi.json")
def get_description(request: Request) -> JSONResponse:
    """This document."""
    return JSONResponse(document(request.app))


@cache
def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of the application."""
    from service import answers

    described = get_openapi(title="frost", version=VERSION, routes=app.routes)
    components = described.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(SCHEMAS)
    schemas.update(answers.schemas())
    components["securitySchemes"] = SECURITY
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            operation["operationId"] = _camel(operation["summary"])
            _complete(operation, path, RULES[method.upper(), path])
            if schema := answers.schema(operation["operationId"]):
                success = next(status for status in operation["responses"] if status.startswith("2"))
                operation["responses"][success]["content"] = {"application/json": {"schema": schema}}
    return described


def _complete(operation: dict[str, Any], path: str, rule: Rule) -> None:
    operation["security"] = _security(rule)
    _add_path_parameters(operation, path)
    responses = operation["responses"]
    responses.pop("422", None)
    if not path.startswith("/issuer/"):
        refused = {"oneOf": [{"$ref": ENVELOPE}, {"$ref": GONE}]}
        responses["default"] = {"description": "A refusal", "content": {"application/json": {"schema": refused}}}
    if rule.scope:
        operation["description"] = (
            f"{operation.get('description', '')}\n\nAPI keys need the scope `{rule.scope}`.".strip()
        )


def _camel(summary: str) -> str:
    first, *others = re.findall(r"[A-Za-z0-9]+", summary)
    return str(first).lower() + "".join(word.capitalize() for word in others)


def _security(rule: Rule) -> list[dict[str, list[str]]]:
    if rule.who == "caller":
        return [{"session": []}, {"apiKey": []}]
    return [{"session": []}] if rule.who == "person" else []


def _add_path_parameters(operation: dict[str, Any], path: str) -> None:
    """Ids in the path are read by the guard, not by the endpoints, so the framework does not know of them."""
    parameters = operation.setdefault("parameters", [])
    known = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
    for name in re.findall(r"{(\w+)}", path):
        if name not in known:
            schema = {"type": "string"} | ({"format": "uuid"} if name in ("tenant_id", "organization_id") else {})
            parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    if not parameters:
        del operation["parameters"]
