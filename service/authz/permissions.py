"""The operations that routes require."""

from enum import StrEnum


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
