"""The description of the API, served at `/api/openapi.json` and made when somebody asks for it.

Operation ids are the endpoints' names in camelCase. Every operation says who may call it, with which statuses it can
refuse and in which envelope; answers are described by the client's own models. Nothing is described as "anything
else", so that a status that is not there is a mistake of this description or of the platform, and tests can tell.
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
# What only these can answer.
OWN_REFUSALS = {
    "getCliConfig": ("503",),
    "applyDefaultTags": ("422",),
    "exchangeToken": ("400", "401", "403", "413", "415", "429"),
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
    from service.api import response_schemas

    described = get_openapi(title="frost", version=VERSION, routes=app.routes)
    components = described.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas.update(SCHEMAS)
    schemas.update(response_schemas.schemas())
    components["securitySchemes"] = SECURITY
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            operation["operationId"] = _camel(operation["summary"])
            rule = ROUTE_POLICIES[method.upper(), path]
            _complete(operation, path, rule)
            _describe_answers(operation)
            if rule.home:
                _name_home(operation, path)
    return described


def _name_home(operation: dict[str, Any], path: str) -> None:
    """Tell an operation without a tenant in its path from the same one with it."""
    operation["operationId"] += "InOwnTenant"
    operation["summary"] += " In Own Tenant"
    operation["description"] = (
        f"{operation.get('description', '')}\n\nThe same as `{HOME_PATHS[path]}` for the tenant of the API key, or the "
        "default tenant of the person."
    ).strip()


def _describe_answers(operation: dict[str, Any]) -> None:
    from service.api import response_schemas

    responses = operation["responses"]
    success = next(status for status in responses if status.startswith("2"))
    if schema := response_schemas.schema(operation["operationId"]):
        responses[success]["content"] = {"application/json": {"schema": schema}}
    for status, what, schema in response_schemas.others(operation["operationId"]):
        responses[status] = {"description": what, "content": {"application/json": {"schema": schema}}}
    if media_type := response_schemas.MEDIA_TYPES.get(operation["operationId"]):
        responses[success]["content"] = {media_type: {"schema": {"type": "string"}}}


def _complete(operation: dict[str, Any], path: str, rule: RoutePolicy) -> None:
    operation["security"] = _security(rule)
    _add_path_parameters(operation, path)
    responses = operation["responses"]
    responses.pop("422", None)
    if path.startswith("/access/"):
        responses["default"] = {"description": "A refusal", "content": {"text/plain": {"schema": {"type": "string"}}}}
    elif not path.startswith("/issuer/"):
        for status in sorted(_refusals(operation, path, rule)):
            other = OTHER_ENVELOPES.get(status)
            schema = {"oneOf": [{"$ref": ENVELOPE}, {"$ref": other}]} if other else {"$ref": ENVELOPE}
            content = {"application/json": {"schema": schema}}
            responses[status] = {"description": REFUSALS[status], "content": content}
    if rule.scope:
        operation["description"] = (
            f"{operation.get('description', '')}\n\nAPI keys need the scope `{rule.scope}`.".strip()
        )


def _refusals(operation: dict[str, Any], path: str, rule: RoutePolicy) -> set[str]:
    """Return the statuses an operation can refuse with."""
    parameters = operation.get("parameters", ())
    found = {*OWN_REFUSALS.get(operation["operationId"], ())}
    if rule.who != "anyone":
        # 503: an identity provider whose keys cannot be had, or no stream free.
        found |= {"401", "403", "429", "503"}
    if parameters or "requestBody" in operation:
        found.add("400")
    if "{" in path or rule.local:
        found.add("404")
    if "requestBody" in operation:
        # The 404 is what a body names.
        found |= {"404", "408", "413", "415", "503"}
    if rule.audit_event:
        found.add("409")
    if any(parameter["name"] == "If-Match" for parameter in parameters):
        found.add("412")
    return found


def _camel(summary: str) -> str:
    first, *others = re.findall(r"[A-Za-z0-9]+", summary)
    return str(first).lower() + "".join(word.capitalize() for word in others)


def _security(rule: RoutePolicy) -> list[dict[str, list[str]]]:
    if rule.who in ("principal", "person_or_key"):
        return [{"session": []}, {"apiKey": []}]
    return [{name: []} for name in {"person": ("session",), "key": ("apiKey",)}.get(rule.who, ())]


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
