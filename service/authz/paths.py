"""Paths shared by route policies and routes."""

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
