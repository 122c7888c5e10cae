"""Paths and permissions of endpoints, shared by route policies and routes."""

from enum import StrEnum

TENANTS = "/api/v1/tenants"
TENANT = f"{TENANTS}/{{tenant_id}}"
ORGANIZATION = "/api/v1/organizations/{organization_id}"
ORGANIZATION_TENANTS = f"{ORGANIZATION}/tenants"

API_KEYS = f"{TENANT}/api-keys"
API_KEY = f"{API_KEYS}/{{key_id}}"
DEFAULT_TAGS = f"{TENANT}/default-tags"
OPERATIONS = f"{TENANT}/operations"

IAM = f"{TENANT}/iam"
GROUPS = f"{IAM}/groups"
GROUP = f"{GROUPS}/{{group_id}}"
POLICIES = f"{IAM}/policies"
POLICY = f"{POLICIES}/{{policy_id}}"
ATTACHMENTS = f"{POLICY}/attachments"

BINDINGS = f"{TENANT}/workload-identity/bindings"
BINDING = f"{BINDINGS}/{{binding_id}}"
CLUSTER_ISSUER = f"{TENANT}/workload-identity/clusters/{{cluster_id}}/issuer"

RESOURCES = f"{TENANT}/resources/{{kind}}"
RESOURCE = f"{RESOURCES}/{{resource_id}}"
INTERACTIVE = f"{TENANT}/interactive"

QUOTAS = f"{TENANT}/quotas"
TENANT_QUOTA_REQUESTS = f"{TENANT}/quota-requests"
ORGANIZATION_QUOTA_REQUESTS = f"{ORGANIZATION}/quota-requests"
PLATFORM_QUOTA_REQUESTS = "/api/v1/platform/quota-requests"


class Permission(StrEnum):
    """An operation of the catalogue, as `<service>:<resource type>:<verb>`, in alphabetical order.

    Operations on resources are not included: the resource type in the path completes them.
    """

    IAM_POLICIES_SIMULATE = "iam:policies:simulate"
    IAM_WORKLOAD_IDENTITIES_CREATE = "iam:workload-identities:create"
    IAM_WORKLOAD_IDENTITIES_DELETE = "iam:workload-identities:delete"
    IAM_WORKLOAD_IDENTITIES_LIST = "iam:workload-identities:list"
    IAM_WORKLOAD_IDENTITIES_READ = "iam:workload-identities:read"
    IAM_WORKLOAD_IDENTITIES_UPDATE = "iam:workload-identities:update"
    ORGANIZATIONS_DEFAULT_TAGS_APPLY = "organizations:default-tags:apply"
    ORGANIZATIONS_DEFAULT_TAGS_READ = "organizations:default-tags:read"
    ORGANIZATIONS_DEFAULT_TAGS_UPDATE = "organizations:default-tags:update"
    ORGANIZATIONS_ORGANIZATIONS_LIST = "organizations:organizations:list"
    ORGANIZATIONS_TENANTS_CREATE = "organizations:tenants:create"
    ORGANIZATIONS_TENANTS_LIST = "organizations:tenants:list"
    ORGANIZATIONS_TENANTS_READ = "organizations:tenants:read"
    ORGANIZATIONS_TENANTS_UPDATE = "organizations:tenants:update"
    QUOTAS_LIMITS_LIST = "quotas:limits:list"
    QUOTAS_REQUESTS_CREATE = "quotas:requests:create"
    QUOTAS_REQUESTS_LIST = "quotas:requests:list"
    SESSIONS_CLUSTER_PROXIES_OPEN = "sessions:cluster-proxies:open"
    SESSIONS_DATABASE_CONSOLES_OPEN = "sessions:database-consoles:open"
    SESSIONS_PORT_FORWARDS_OPEN = "sessions:port-forwards:open"
    SESSIONS_SHELLS_OPEN = "sessions:shells:open"
