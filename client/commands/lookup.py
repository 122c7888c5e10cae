"""Find a group, policy, API key or workload identity of a tenant by name, and the lists that have the names."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from client import name_lookup
from client.api import groups, policies, tenants
from client.commands.invocation import Invocation
from client.errors import Exit, FrostError
from client.name_lookup import NamedKind
from client.text import safe
from client.transport.call import MAX_PAGE_SIZE, Call

_CELLS = 130
_BY_TAB = "shell completion lists the names of this tenant: frost completion --help"


class TenantList(NamedTuple):
    """A list of a tenant's records that have names.

    Attributes:
        kind: The type of the records.
        page: Returns the request of a page for a tenant id and a cursor.
        hint: How to list the names.
    """

    kind: NamedKind
    page: Callable[[str, str], Call[object]]
    hint: str


TENANT_LISTS: Mapping[str, TenantList] = {
    "policy": TenantList(
        name_lookup.POLICY,
        lambda tenant, cursor: policies.page(tenant, limit=MAX_PAGE_SIZE, cursor=cursor),
        "list them with: frost iam policy list --all",
    ),
    "group": TenantList(
        name_lookup.GROUP,
        lambda tenant, cursor: groups.page(tenant, limit=MAX_PAGE_SIZE, cursor=cursor),
        "list them with: frost iam group list --all",
    ),
    "api_key": TenantList(name_lookup.API_KEY, lambda tenant, cursor: groups.keys(tenant), _BY_TAB),
    "workload_identity": TenantList(
        name_lookup.WORKLOAD_IDENTITY,
        lambda tenant, cursor: groups.identity_page(tenant, limit=MAX_PAGE_SIZE, cursor=cursor),
        _BY_TAB,
    ),
}
"""By the type on the command line: policy, group, api_key, workload_identity."""


def tenant_record_id(run: Invocation, kind: str, name: str) -> str:
    """Return the id of the only record with a name in the selected tenant. Reads all pages of the list.

    Args:
        run: The command.
        kind: A key of `TENANT_LISTS`.
        name: The user's input; not an id.

    Raises:
        FrostError: No record has the name (exit 5), or several have it (exit 1).
    """
    of = TENANT_LISTS[kind]
    records = [record for page, _ in run.pages_for_tenant(of.page) for record in page]
    found = name_lookup.match(of.kind, records, name)
    if found is None:
        hint = of.hint
        if run.tenant.source == "flag" and "frost iam" in hint:
            hint += f" --tenant {run.tenant.tenant_id}"
        message = f'no {of.kind.noun} named "{safe(name, _CELLS)}" in tenant {_tenant_name(run)}'
        raise FrostError(message, code="NOT_FOUND", hint=hint, exit_code=Exit.NOT_FOUND)
    return str(found["id"])


def _tenant_name(run: Invocation) -> str:
    """Return the display name of the selected tenant for a message; its id if the name is not readable."""
    try:
        return f'"{safe(run.call(tenants.get(run.tenant.tenant_id))["displayName"], _CELLS)}"'
    except FrostError:
        return run.tenant.tenant_id
