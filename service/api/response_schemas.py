"""JSON schemas of the responses, generated from the client's models."""

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

REFERENCE = "#/components/schemas/"
Schema = str | dict[str, "Schema"] | list["Schema"]
"""A model (`module:name`) or JSON type, where `[]` marks an array and `?` a nullable value; the required members of an
object; or a list with the schema of its elements."""

RESOURCE: Schema = {
    **dict.fromkeys(
        ("id", "tenantId", "kind", "service", "name", "region", "state", "createdAt", "updatedAt"), "string"
    ),
    **dict.fromkeys(("tags", "relations", "attributes"), "object"),
}
INTERACTIVE_SESSION: Schema = {**dict.fromkeys(("decision", "operation", "resourceId", "resourceKind"), "string")}
SEARCH_PAGE: Schema = {"next_token": "string", "count": "integer"}
ENTITY: Schema = {"type": "string", "id": "string"}

SCHEMAS_BY_OPERATION: dict[str, Schema] = {
    "alive": {"status": "string"},
    "ready": {"status": "string", "checks": "object"},
    "getDescription": {"openapi": "string", "info": "object", "paths": "object", "components": "object"},
    "getCliConfig": "account:CliConfig",
    "getMe": "account:Me",
    "deleteAccount": "account:DeletedAccount",
    "restoreAccount": "platform:RestoredAccount",
    "listOrganizations": {"organizations": "account:Organization[]"},
    "listScopes": {"scopes": "account:Scope[]", "operations": "iam:CatalogueOperation[]"},
    "listCatalogue": {"operations": "iam:CatalogueOperation[]", "total": "integer"},
    "listSessions": {"sessions": "account:Session[]"},
    "revokeAllSessions": "account:EndedSessions",
    "exchangeToken": {
        "access_token": "string",
        "issued_token_type": "string",
        "token_type": "string",
        "expires_in": "integer",
    },
    "listKeys": {"apiKeys": "account:ApiKey[]"},
    "listMyKeys": {"apiKeys": "account:ApiKey[]"},
    "listGrantableScopes": {"scopes": "account:GrantableScope[]"},
    "createKey": "account:NewKey",
    "getKey": "account:ApiKey",
    "updateKey": "account:ApiKey",
    "revokeKey": "account:ApiKey",
    "rotateKey": "account:RotatedKey",
    "listTenants": {"tenants": "tenants:Tenant[]", "defaultTenantId": "string?"},
    "listOrganizationTenants": {"tenants": "tenants:Tenant[]", "defaultTenantId": "string?"},
    "createTenant": "tenants:Tenant",
    "getTenant": "tenants:Tenant",
    "renameTenant": "tenants:Tenant",
    "getDefaultTags": "default_tags:DefaultTags",
    "putDefaultTags": "default_tags:DefaultTags",
    "listDefaultTagVersions": {"versions": "default_tags:TagVersion[]", "nextCursor": "string"},
    "applyDefaultTags": "default_tags:ApplyStarted",
    "previewDefaultTags": "default_tags:ApplyResult",
    "listDefaultTagRuns": {"runs": "default_tags:ApplyRun[]"},
    "undoDefaultTagRun": "default_tags:ApplyStarted",
    "listOperations": {"operations": "tenants:Operation[]"},
    "getOperation": "tenants:Operation",
    "evaluate": {"decision": "boolean"},
    "searchSubjects": {"page": SEARCH_PAGE, "results": [ENTITY]},
    "searchResources": {"page": SEARCH_PAGE, "results": [ENTITY]},
    "searchActions": {"page": SEARCH_PAGE, "results": [{"name": "string"}]},
    "listPlatformOperations": {"operations": "tenants:Operation[]"},
    "verifyAuditLog": "platform:AuditVerdict",
    "exportAuditLog": "platform:AuditExport",
    "dropAuditSegment": "platform:SegmentState",
    "verifyAuditSegment": "platform:SegmentState",
    "createGroup": "iam:Group",
    "listGroups": {"groups": "iam:Group[]", "nextCursor": "string"},
    "getGroup": "iam:Group",
    "updateGroup": "iam:Group",
    "listGroupMembers": {"members": "iam:Member[]", "nextCursor": "string"},
    "createPolicy": "iam:Policy",
    "listPolicies": {"policies": "iam:Policy[]", "nextCursor": "string"},
    "getPolicy": "iam:Policy",
    "updatePolicy": "iam:Policy",
    "listPolicyVersions": {"versions": "iam:PolicyVersion[]", "nextCursor": "string"},
    "getPolicyVersion": "iam:PolicyVersion",
    "rollBackPolicy": "iam:Policy",
    "listPolicyAttachments": {"attachments": "iam:Attachment[]", "nextCursor": "string"},
    "simulate": {
        "decision": "string",
        "reason": "string",
        "because": "string?",
        "decidingRule": "analysis:DecidingRule?",
        "nearestRule": "analysis:NearestRule?",
        "rules": "analysis:SimulatedRule[]",
        "someTarget": "boolean?",
        "missing": "analysis:MissingFact[]",
        "asAuthor": "boolean",
        "warnings": "analysis:DocumentProblem[]",
    },
    "mapCoverage": {
        "total": "integer",
        "targets": "analysis:TargetCoverage[]",
        "warnings": "analysis:DocumentProblem[]",
    },
    "checkDocument": {
        "answer": "string",
        "counterexamples": "analysis:Counterexample[]",
        "warnings": "analysis:DocumentProblem[]",
    },
    "getAccess": {
        "principal": "iam:AccessPrincipal",
        "limits": "iam:AccessLimit[]",
        "policies": "iam:AccessPolicy[]",
        "operations": "iam:AccessOperation[]",
    },
    "whoMay": {
        "principals": "iam:AllowedPrincipal[]",
        "total": "integer",
        "conditional": "iam:AllowedPrincipal[]",
        "conditionalTotal": "integer",
        "examined": "integer",
    },
    "previewChange": {"principals": "analysis:PrincipalChange[]", "refused": "analysis:PredictedError?"},
    "createBinding": "iam:Binding",
    "listBindings": {"bindings": "iam:Binding[]", "nextCursor": "string"},
    "getBinding": "iam:Binding",
    "updateBinding": "iam:Binding",
    "setIssuer": {"clusterId": "string", "issuer": "string", "audience": "string", "keyIds": "string[]"},
    "getIssuer": {"clusterId": "string", "issuer": "string", "audience": "string", "keyIds": "string[]"},
    "listResources": {"resources": [RESOURCE], "nextCursor": "string"},
    "createResource": RESOURCE,
    "readResource": RESOURCE,
    "updateResource": RESOURCE,
    "startResource": RESOURCE,
    "stopResource": RESOURCE,
    "restartResource": RESOURCE,
    "forwardPort": INTERACTIVE_SESSION,
    "openDatabaseConsole": INTERACTIVE_SESSION,
    "openShell": INTERACTIVE_SESSION,
    "openClusterProxy": INTERACTIVE_SESSION,
    "reportTenantQuotas": "quotas:Report",
    "reportOrganizationQuotas": "quotas:Report",
    "listComputeLimits": "object",
    "listComputeUsage": "object",
    "requestTenantQuota": "quotas:RequestAnswer",
    "requestOrganizationQuota": "quotas:RequestAnswer",
    "listTenantQuotaRequests": {"requests": "quotas:QuotaRequest[]", "nextCursor": "string"},
    "listOrganizationQuotaRequests": {"requests": "quotas:QuotaRequest[]", "nextCursor": "string"},
    "listQuotaRequestsForReview": {"requests": "quotas:QuotaRequest[]", "nextCursor": "string"},
    "reviewQuotaRequest": "quotas:RequestAnswer",
    "platformStatus": "platform:PlatformStatus",
    "stopPlatform": "platform:Stopping",
}
# By operation id: status, description and schema.
FURTHER_RESPONSES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "ready": (("503", "A check failed; the body names it", "object"),),
    "undoDefaultTagRun": (("200", "The effect of the undo (`dryRun`)", "default_tags:ApplyResult"),),
    "requestTenantQuota": (("200", "The limit is unchanged; no request was stored", "quotas:RequestAnswer"),),
    "requestOrganizationQuota": (("200", "The limit is unchanged; no request was stored", "quotas:RequestAnswer"),),
}
MEDIA_TYPES = {"streamEvents": "text/event-stream"}


@cache
def component_schemas() -> dict[str, Any]:
    """Return the schemas of the models in the tables above and of nested models, by name."""
    further = [schema for responses in FURTHER_RESPONSES.values() for *_, schema in responses]
    types = _type_names([*SCHEMAS_BY_OPERATION.values(), *further])
    names = sorted({name.removesuffix("[]").removesuffix("?") for name in types if ":" in name})
    _, document = models_json_schema(
        [(_model(name), "serialization") for name in names], ref_template=REFERENCE + "{model}"
    )
    definitions: dict[str, Any] = document["$defs"]
    return definitions


def response_schema(operation_id: str) -> dict[str, Any] | None:
    """Return the schema of the successful response; None without a JSON body."""
    schema = SCHEMAS_BY_OPERATION.get(operation_id)
    return _json_schema(schema) if schema else None


def further_responses(operation_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (status, description, _json_schema(type_name))
        for status, description, type_name in FURTHER_RESPONSES.get(operation_id, ())
    ]


def _type_names(schema: Schema) -> Iterator[str]:
    """Yield the names of the models and types of a schema and of its members and elements."""
    if isinstance(schema, str):
        yield schema
    else:
        for part in schema.values() if isinstance(schema, dict) else schema:
            yield from _type_names(part)


def _json_schema(schema: Schema) -> dict[str, Any]:
    if isinstance(schema, dict):
        members = {name: _json_schema(member) for name, member in schema.items()}
        return {"type": "object", "required": list(members), "properties": members}
    if isinstance(schema, list):
        return {"type": "array", "items": _json_schema(schema[0])}
    if schema.endswith("?"):
        return {"anyOf": [_json_schema(schema.removesuffix("?")), {"type": "null"}]}
    if schema.endswith("[]"):
        return {"type": "array", "items": _json_schema(schema.removesuffix("[]"))}
    _, colon, model = schema.partition(":")
    return {"$ref": REFERENCE + model} if colon else {"type": schema}


def _model(name: str) -> type[BaseModel]:
    module, _, attribute = name.partition(":")
    model: type[BaseModel] = getattr(importlib.import_module(f"client.models.{module}"), attribute)
    return model
