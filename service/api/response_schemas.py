"""What each endpoint answers with, as JSON schemas made from the client's models; only the API description asks."""

import importlib
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

REFERENCE = "#/components/schemas/"
RESOURCE = {
    **dict.fromkeys(
        ("id", "tenantId", "kind", "service", "name", "region", "state", "createdAt", "updatedAt"), "string"
    ),
    **dict.fromkeys(("tags", "relations", "attributes"), "object"),
}

OPENED = dict.fromkeys(("decision", "operation", "resourceId", "resourceKind"), "string")
# By operation id: a model (module:name), or the members of an object that are always there; `[]` is an array, `?` may
# be null, no colon is a plain type.
ANSWERS: dict[str, str | dict[str, str]] = {
    "alive": {"status": "string"},
    "ready": {"status": "string", "checks": "object"},
    "getDescription": {"openapi": "string", "info": "object", "paths": "object", "components": "object"},
    "getCliConfig": "account:CliConfig",
    "getMe": "account:Me",
    "deleteAccount": "account:DeletedAccount",
    "restoreAccount": "platform:RestoredAccount",
    "listOrganizations": {"organizations": "account:Organization[]"},
    "listScopes": {"scopes": "account:Scope[]", "operations": "object[]"},
    "listCatalogue": {"operations": "object[]", "total": "integer"},
    "listSessions": {"sessions": "account:Session[]"},
    "revokeAllSessions": "account:EndedSessions",
    "exchangeToken": {
        "access_token": "string",
        "issued_token_type": "string",
        "token_type": "string",
        "expires_in": "integer",
    },
    "listKeys": {"apiKeys": "keys:ApiKey[]"},
    "listMyKeys": {"apiKeys": "keys:ApiKey[]"},
    "listGrantableScopes": {"scopes": "keys:GrantableScope[]"},
    "createKey": "keys:NewKey",
    "getKey": "keys:ApiKey",
    "updateKey": "keys:ApiKey",
    "revokeKey": "keys:ApiKey",
    "rotateKey": "keys:RotatedKey",
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
    "listOperations": {"operations": "operations:Operation[]"},
    "getOperation": "operations:Operation",
    "evaluate": {"decision": "boolean"},
    "searchSubjects": {"page": "object", "results": "object[]"},
    "searchResources": {"page": "object", "results": "object[]"},
    "searchActions": {"page": "object", "results": "object[]"},
    "listPlatformOperations": {"operations": "operations:Operation[]"},
    "verifyAuditLog": "platform:AuditVerdict",
    "createGroup": "groups:Group",
    "listGroups": {"groups": "groups:Group[]", "nextCursor": "string"},
    "getGroup": "groups:Group",
    "updateGroup": "groups:Group",
    "listGroupMembers": {"members": "groups:Member[]", "nextCursor": "string"},
    "createPolicy": "policies:Policy",
    "listPolicies": {"policies": "policies:Policy[]", "nextCursor": "string"},
    "getPolicy": "policies:Policy",
    "updatePolicy": "policies:Policy",
    "listPolicyVersions": {"versions": "policies:PolicyVersion[]", "nextCursor": "string"},
    "getPolicyVersion": "policies:PolicyVersion",
    "rollBackPolicy": "policies:Policy",
    "listPolicyAttachments": {"attachments": "policies:Attachment[]", "nextCursor": "string"},
    "simulate": {
        "decision": "string",
        "reason": "string",
        "because": "string?",
        "decidingRule": "object?",
        "nearestRule": "object?",
        "rules": "object[]",
        "missing": "object[]",
        "asAuthor": "boolean",
        "warnings": "object[]",
    },
    "mapCoverage": {"total": "integer", "targets": "object[]", "warnings": "object[]"},
    "checkDocument": {"answer": "string", "counterexamples": "object[]", "warnings": "object[]"},
    "getAccess": {"principal": "object", "limits": "object[]", "policies": "object[]", "operations": "object[]"},
    "whoMay": {
        "principals": "object[]",
        "total": "integer",
        "conditional": "object[]",
        "conditionalTotal": "integer",
        "examined": "integer",
    },
    "previewChange": {"principals": "object[]", "refused": "object?"},
    "createBinding": "principals:Binding",
    "listBindings": {"bindings": "principals:Binding[]", "nextCursor": "string"},
    "getBinding": "principals:Binding",
    "updateBinding": "principals:Binding",
    "setIssuer": {"clusterId": "string", "issuer": "string", "audience": "string", "keyIds": "string[]"},
    "getIssuer": {"clusterId": "string", "issuer": "string", "audience": "string", "keyIds": "string[]"},
    "listResources": {"resources": "object[]", "nextCursor": "string"},
    "createResource": RESOURCE,
    "readResource": RESOURCE,
    "updateResource": RESOURCE,
    "startResource": RESOURCE,
    "stopResource": RESOURCE,
    "restartResource": RESOURCE,
    "forwardPort": OPENED,
    "openDatabaseConsole": OPENED,
    "openShell": OPENED,
    "openClusterProxy": OPENED,
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
# Answers beside the first: status, what it says, and its schema as above.
OTHERS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "ready": (("503", "Something is amiss", "object"),),
    "undoDefaultTagRun": (("200", "What it would do", "default_tags:ApplyResult"),),
    "requestTenantQuota": (("200", "That is the limit already", "quotas:RequestAnswer"),),
    "requestOrganizationQuota": (("200", "That is the limit already", "quotas:RequestAnswer"),),
}
MEDIA_TYPES = {"streamEvents": "text/event-stream"}


@cache
def schemas() -> dict[str, Any]:
    """The schemas of every model in `ANSWERS`, and of those inside them, by name."""
    answers = [*ANSWERS.values(), *(schema for others in OTHERS.values() for *_, schema in others)]
    flat = [part for answer in answers for part in (answer.values() if isinstance(answer, dict) else [answer])]
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


def others(operation_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    """The other answers of an endpoint: status, description, schema."""
    return [(status, what, _schema(part)) for status, what, part in OTHERS.get(operation_id, ())]


def _schema(part: str) -> dict[str, Any]:
    if part.endswith("?"):
        return {"anyOf": [_schema(part.removesuffix("?")), {"type": "null"}]}
    if part.endswith("[]"):
        return {"type": "array", "items": _schema(part.removesuffix("[]"))}
    _, colon, name = part.partition(":")
    return {"$ref": REFERENCE + name} if colon else {"type": part}


def _model(name: str) -> type[BaseModel]:
    module, _, attribute = name.partition(":")
    model: type[BaseModel] = getattr(importlib.import_module(f"client.models.{module}"), attribute)
    return model
