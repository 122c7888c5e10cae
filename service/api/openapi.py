"""The OpenAPI document of the platform, built on the first request for it.

Except for AuthZEN and the issuer, it lists every status of an operation, so that tests detect a missing status.
"""

import re
import threading
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request

from service.api.protected_route import protected_router
from service.authz.route_policies import HOME_PATHS, ROUTE_POLICIES, RoutePolicy
from service.json_bodies import JSONResponse
from service.settings import VERSION

router = protected_router("description")
_lock = threading.Lock()

OWN_TENANT_SUFFIX = "InOwnTenant"
"""The suffix of operation ids of `HOME_PATHS`."""

ENVELOPE = "#/components/schemas/Error"
GONE = "#/components/schemas/Gone"
TOO_MANY = "#/components/schemas/TooMany"
CONFLICT = "#/components/schemas/Conflict"
_MEMBERS = {
    "code": {"type": "string", "description": "The reason, for programs."},
    "message": {"type": "string"},
    "details": {"type": "object", "additionalProperties": True},
}
SCHEMAS: dict[str, Any] = {
    "Error": {
        "type": "object",
        "description": "The error of most refusals.",
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
        "description": "The resource does not exist, or the principal may not see it.",
        "required": ["code", "message"],
        "properties": _MEMBERS,
    },
    "Conflict": {
        "type": "object",
        "description": "The state of the resource does not allow the request.",
        "required": ["code", "message"],
        "properties": _MEMBERS,
    },
    "TooMany": {
        "type": "object",
        "description": "Too many requests of a credential, or too many failed logins.",
        "required": ["error", "message", "retry_after"],
        "properties": {
            "error": {"type": "string"},
            "message": {"type": "string"},
            "retry_after": {"type": "integer", "minimum": 1, "description": "seconds"},
        },
    },
}
REFUSALS = {
    "400": "The request is not valid",
    "401": "The credential is missing or not valid",
    "403": "Permission denied",
    "404": "The resource does not exist, or the principal may not see it",
    "408": "The request body did not arrive in time",
    "409": "The request conflicts with the current state of the resource",
    "412": "The version in `If-Match` is not the current version",
    "413": "The request body is too large",
    "415": "The content type or content encoding is not supported",
    "422": "The stored default tags are not valid under the current rules",
    "429": "Too many requests or failed logins; retry after the seconds in `Retry-After`",
    "503": "The service is temporarily unavailable, or not available over this connection",
}
OTHER_ENVELOPES = {"404": GONE, "409": CONFLICT, "429": TOO_MANY}
# Further statuses by operation id.
SPECIAL_REFUSALS = {
    "getCliConfig": ("503",),
    "applyDefaultTags": ("422",),
    "exchangeToken": ("400", "401", "403", "413", "415", "429"),
}
LOCATION = {"Location": {"description": "The path of the new object.", "schema": {"type": "string"}}}
WITHOUT_LOCATION = ("requestTenantQuota", "requestOrganizationQuota")
"""Operations that create objects without a path."""
SECURITY = {
    "session": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


@router.get("/api/openapi.json", operation_id="getDescription")
def get_description(request: Request) -> JSONResponse:
    """Return the OpenAPI description of the platform."""
    # Concurrent first requests wait for one document.
    with _lock:
        description = document(request.app)
    return JSONResponse(description)


@cache
def document(app: FastAPI) -> dict[str, Any]:
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
    """Return the operation id without the suffix of `HOME_PATHS`."""
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
    if success == "201" and operation_id not in WITHOUT_LOCATION:
        responses[success]["headers"] = LOCATION
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
    parameters = operation.get("parameters", ())
    statuses = {*SPECIAL_REFUSALS.get(_base_id(operation), ())}
    if policy.who != "anyone":
        # 503: no keys of the identity provider, or too many event streams.
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
    """Add the path parameters that the endpoint does not declare."""
    parameters = operation.setdefault("parameters", [])
    declared = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
    for name in re.findall(r"{(\w+)}", path):
        if name not in declared:
            schema = {"type": "string"} | ({"format": "uuid"} if name in ("tenant_id", "organization_id") else {})
            parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    if not parameters:
        del operation["parameters"]
