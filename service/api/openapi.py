"""The OpenAPI document of the platform, built at the first request for it.

Each route names its operation id; the summary follows from it. The document lists every status of an operation
without a catch-all, so that tests detect a missing status.
"""

import re
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import JSONResponse

from service.api.protected_route import protected_router
from service.authz.route_policies import HOME_PATHS, ROUTE_POLICIES, RoutePolicy
from service.settings import VERSION

router = protected_router("description")

OWN_TENANT_SUFFIX = "InOwnTenant"
"""The end of the operation ids of `HOME_PATHS`."""

ENVELOPE = "#/components/schemas/Error"
GONE = "#/components/schemas/Gone"
TOO_MANY = "#/components/schemas/TooMany"
CONFLICT = "#/components/schemas/Conflict"
_MEMBERS = {
    "code": {"type": "string", "description": "An upper-case word a program can switch on."},
    "message": {"type": "string"},
    "details": {"type": "object", "additionalProperties": True},
}
SCHEMAS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "description": "Most refusals.",
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
        "description": "This resource does not exist, or not for this caller.",
        "required": ["code", "message"],
        "properties": _MEMBERS,
    },
    "Conflict": {
        "type": "object",
        "description": "A resource is in no state for this.",
        "required": ["code", "message"],
        "properties": _MEMBERS,
    },
    "TooMany": {
        "type": "object",
        "description": "Refused by the gateway before anything was looked at: too many requests of a key, or guesses.",
        "required": ["error", "message", "retry_after"],
        "properties": {
            "error": {"type": "string"},
            "message": {"type": "string"},
            "retry_after": {"type": "integer", "minimum": 1, "description": "seconds"},
        },
    },
}
REFUSALS = {
    "400": "The request is wrong",
    "401": "No credential, or none that is good",
    "403": "Not for this caller",
    "404": "Not there, or not for this caller",
    "408": "The body did not arrive in time",
    "409": "Not as things are now",
    "412": "Changed since the version the write was made from",
    "413": "The body is too large",
    "415": "The body is of another type",
    "422": "What is stored does not keep today's rules",
    "429": "Too many; `Retry-After` says when again",
    "503": "Not at the moment, or not here",
}
OTHER_ENVELOPES = {"404": GONE, "409": CONFLICT, "429": TOO_MANY}
# Further refusals, by operation id.
SPECIAL_REFUSALS = {
    "getCliConfig": ("503",),
    "applyDefaultTags": ("422",),
    "exchangeToken": ("400", "401", "403", "413", "415", "429"),
}
SECURITY = {
    "session": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


@router.get("/api/openapi.json", operation_id="getDescription")
def get_description(request: Request) -> JSONResponse:
    """Return the OpenAPI description of the platform."""
    return JSONResponse(document(request.app))


@cache
def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the application."""
    from service.api import response_schemas

    description = get_openapi(title="frost", version=VERSION, routes=app.routes)
    components = description.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(SCHEMAS)
    schemas.update(response_schemas.component_schemas())
    components["securitySchemes"] = SECURITY
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            policy = ROUTE_POLICIES[method.upper(), path]
            _add_security_and_refusals(operation, path, policy)
            _add_responses(operation)
            operation["summary"] = _summary(operation["operationId"])
            if policy.home:
                tenant = "the tenant of the API key, or the default tenant of the person"
                note = f"The same as `{HOME_PATHS[path]}` for {tenant}."
                operation["description"] = f"{operation.get('description', '')}\n\n{note}".strip()
    return description


def _base_id(operation: dict[str, Any]) -> str:
    """Return the operation id of the same operation with a tenant in its path."""
    return str(operation["operationId"]).removesuffix(OWN_TENANT_SUFFIX)


def _summary(operation_id: str) -> str:
    """Turn `listMyKeys` into `List My Keys`."""
    words = re.findall(r"[A-Z]?[a-z0-9]+", operation_id)
    return " ".join(word[0].upper() + word[1:] for word in words)


def _add_responses(operation: dict[str, Any]) -> None:
    from service.api import response_schemas

    responses, operation_id = operation["responses"], _base_id(operation)
    success = next(status for status in responses if status.startswith("2"))
    if schema := response_schemas.response_schema(operation_id):
        responses[success]["content"] = {"application/json": {"schema": schema}}
    for status, description, schema in response_schemas.further_responses(operation_id):
        responses[status] = {"description": description, "content": {"application/json": {"schema": schema}}}
    if media_type := response_schemas.MEDIA_TYPES.get(operation_id):
        responses[success]["content"] = {media_type: {"schema": {"type": "string"}}}


def _add_security_and_refusals(operation: dict[str, Any], path: str, policy: RoutePolicy) -> None:
    operation["security"] = _security(policy)
    _add_path_parameters(operation, path)
    responses = operation["responses"]
    responses.pop("422", None)
    if path.startswith("/access/"):
        responses["default"] = {"description": "A refusal", "content": {"text/plain": {"schema": {"type": "string"}}}}
    elif not path.startswith("/issuer/"):
        for status in sorted(_refusals(operation, path, policy)):
            other = OTHER_ENVELOPES.get(status)
            schema = {"oneOf": [{"$ref": ENVELOPE}, {"$ref": other}]} if other else {"$ref": ENVELOPE}
            content = {"application/json": {"schema": schema}}
            responses[status] = {"description": REFUSALS[status], "content": content}
    if policy.scope:
        operation["description"] = (
            f"{operation.get('description', '')}\n\nAPI keys need the scope `{policy.scope}`.".strip()
        )


def _refusals(operation: dict[str, Any], path: str, policy: RoutePolicy) -> set[str]:
    """Return the error statuses of an operation."""
    parameters = operation.get("parameters", ())
    statuses = {*SPECIAL_REFUSALS.get(_base_id(operation), ())}
    if policy.who != "anyone":
        # 503: the keys of the identity provider are unavailable, or the event streams are used up.
        statuses |= {"401", "403", "429", "503"}
    if parameters or "requestBody" in operation:
        statuses.add("400")
    if "{" in path or policy.local:
        statuses.add("404")
    if "requestBody" in operation:
        # 404: the body may name a resource.
        statuses |= {"404", "408", "413", "415", "503"}
    if policy.audit_event:
        statuses.add("409")
    if any(parameter["name"] == "If-Match" for parameter in parameters):
        statuses.add("412")
    return statuses


def _security(policy: RoutePolicy) -> list[dict[str, list[str]]]:
    if policy.who in ("principal", "person_or_key"):
        return [{"session": []}, {"apiKey": []}]
    return [{name: []} for name in {"person": ("session",), "key": ("apiKey",)}.get(policy.who, ())]


def _add_path_parameters(operation: dict[str, Any], path: str) -> None:
    """Add the ids in the path that `ProtectedRoute` reads: the endpoint does not declare them."""
    parameters = operation.setdefault("parameters", [])
    declared = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
    for name in re.findall(r"{(\w+)}", path):
        if name not in declared:
            schema = {"type": "string"} | ({"format": "uuid"} if name in ("tenant_id", "organization_id") else {})
            parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    if not parameters:
        del operation["parameters"]
