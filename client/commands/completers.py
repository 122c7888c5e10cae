"""Completion of contexts, tenants, organizations, operations, groups, policies, keys and identities.

Names come from the config file and, with an existing credential, from a running platform. Completion starts no
platform and does not sign in.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from client.commands.invocation import Invocation
    from client.errors import FrostError
    from client.name_lookup import NamedKind
    from client.transport.call import Call


def context_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete the contexts of the config file."""
    run: Invocation = ctx.obj
    contexts = run.config.contexts.values()
    return _items(((context.name, str(context.api_endpoint)) for context in contexts), incomplete)


def tenant_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete tenant ids, with names."""
    return _items(((tenant["id"], _tenant_description(tenant)) for tenant in _tenants(ctx)), incomplete)


def tenant_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete a tenant: its name, slug or id."""
    from client.name_lookup import TENANT

    return _names_and_ids(TENANT, _tenants(ctx), incomplete, _tenant_description)


def organization_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete an organization: its name, slug or id."""
    from client.api import account
    from client.name_lookup import ORGANIZATION

    organizations = _fetch(ctx, account.organizations())["organizations"]
    return _names_and_ids(ORGANIZATION, organizations, incomplete, lambda one: str(one["name"]))


def operation_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete the operations of the catalogue, with descriptions."""
    from client.api import analysis

    operations = _fetch(ctx, analysis.operations(incomplete))["operations"]
    return _items(((operation["name"], operation["description"]) for operation in operations), incomplete)


def group_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete a group: its name or id."""
    return _of_tenant(ctx, "group", incomplete)


def policy_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete a policy: its name or id."""
    return _of_tenant(ctx, "policy", incomplete)


def principal_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete a key, identity or group: its name or id. The type precedes on the command line."""
    return _of_tenant(ctx, str(ctx.params.get("kind")), incomplete)


def own_key_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete one of the caller's keys: its name or id."""
    from client.api import keys
    from client.name_lookup import API_KEY

    records = _fetch(ctx, keys.own())["apiKeys"]
    return _names_and_ids(
        API_KEY, records, incomplete, lambda one: f"{one['name']} · {one['tenantName']} · {one['status']}"
    )


def scope_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete the scopes of a key, also after a comma. Scopes that no service enforces are omitted."""
    from client.api import account

    scopes = _fetch(ctx, account.scopes())["scopes"]
    before, comma, _ = incomplete.rpartition(",")
    pairs = (
        (f"{before}{comma}{scope['scope']}", scope["description"])
        for scope in scopes
        if scope["scope"] != "*" and scope.get("enforced", True)
    )
    return _items(pairs, incomplete)


def tag_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete the current default tags as `key=value`, also after a comma."""
    from client.api import default_tags

    tags = _fetch(ctx, default_tags.get(_tenant(ctx)))["tags"]
    before, comma, _ = incomplete.rpartition(",")
    pairs = ((f"{before}{comma}{key}={value}", "current value") for key, value in sorted(tags.items()))
    return _items(pairs, incomplete)


def apply_run_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete ids of apply runs that can be undone, with the tags that they added."""
    from client.api import default_tags
    from client.tables.columns import time_text
    from client.tables.default_tags import tags_text

    runs = [run for run in _fetch(ctx, default_tags.runs(_tenant(ctx)))["runs"] if run.get("undoable")]
    pairs = ((run["runId"], f"{time_text(run.get('startedAt'))} {tags_text(run.get('appliedTags'))}") for run in runs)
    return _items(pairs, incomplete)


def resource_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete the resource types whose limit can be requested, with use and limit."""
    return _items(_types(ctx), incomplete)


def planned_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete the same types as prefixes of `TYPE=N`."""
    return _items(((f"{name}=", about) for name, about in _types(ctx)), incomplete)


def review_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete ids of quota requests that wait for review."""
    from client.api import platform
    from client.connection import Staff
    from client.platform import control
    from client.tables.quotas import amount_text
    from client.transport.call import MAX_PAGE_SIZE

    run: Invocation = ctx.obj
    staff = Staff(os.environ)
    if not control.is_running(staff.endpoint):
        return []
    requests = run.driver(staff).ask_json(platform.quota_request_page("pending", limit=MAX_PAGE_SIZE))["requests"]
    pairs = (
        (request["id"], f"{request['resourceType']} {amount_text(request['limit'], request.get('unit'))}")
        for request in requests
    )
    return _items(pairs, incomplete)


def _types(ctx: click.Context) -> list[tuple[str, str]]:
    from client.api import quotas
    from client.tables.columns import quantity

    records = quotas.quotas_of(_fetch(ctx, quotas.report(_tenant(ctx))))
    return [
        (
            record["resourceType"],
            f"{quantity(record['used'], record['unit'])} of {quantity(record['limit'], record['unit'])}",
        )
        for record in records
    ]


def _of_tenant(ctx: click.Context, kind: str, incomplete: str) -> "list[CompletionItem[str]]":
    """Complete names and ids from the first page of a list of the tenant; nothing for types without a list."""
    of = tenant_list(kind)
    if of is None:
        return []
    call = of.page(_tenant(ctx), "")
    return _names_and_ids(of.kind, _fetch(ctx, call)[call.member], incomplete, lambda one: of.kind.names(one)[0])


class TenantList(NamedTuple):
    """A list of a tenant's records that have names.

    Attributes:
        kind: The type of the records.
        page: Returns the request of a page for a tenant id and a cursor.
        hint: How to list the names.
    """

    kind: "NamedKind"
    page: "Callable[[str, str], Call[object]]"
    hint: str


def tenant_list(kind: str) -> TenantList | None:
    """Return the list of a type: policy, group, api_key or workload_identity; None for a type without a list."""
    from client import name_lookup
    from client.api import groups, policies
    from client.transport.call import MAX_PAGE_SIZE

    by_tab = "shell completion lists the names of this tenant: frost completion --help"
    lists = {
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
        "api_key": TenantList(name_lookup.API_KEY, lambda tenant, cursor: groups.keys(tenant), by_tab),
        "workload_identity": TenantList(
            name_lookup.WORKLOAD_IDENTITY,
            lambda tenant, cursor: groups.identity_page(tenant, limit=MAX_PAGE_SIZE, cursor=cursor),
            by_tab,
        ),
    }
    return lists.get(kind)


def _names_and_ids(
    kind: "NamedKind", records: Sequence[dict[str, Any]], incomplete: str, about: Callable[[dict[str, Any]], str]
) -> "list[CompletionItem[str]]":
    """Complete records by name, or by id if no name selects the record.

    After the first character, further names and the ids of all records match too.
    """
    from collections import Counter

    from client.name_lookup import folded, is_id, normalize_name

    form = normalize_name if kind.exact_first else folded
    counts = Counter(name for record in records for name in set(map(form, kind.names(record))))
    pairs: dict[str, str] = {}
    for record in records:
        names = [
            name
            for name in kind.names(record)
            if counts[form(name)] == 1 and name.isprintable() and not name.startswith("-") and not is_id(name)
        ]
        values = [*names, str(record["id"])]
        pairs.update((value, about(record)) for value in (values if incomplete else values[:1]))
    return _items(pairs.items(), incomplete)


def _tenant(ctx: click.Context) -> str:
    """Return the id of the tenant that the command would use."""
    from client import tenancy
    from client.api import account

    run: Invocation = ctx.obj

    def default() -> str:
        return str(_fetch(ctx, account.me()).get("tenantId") or "")

    return tenancy.resolve(run.flags.tenant, os.environ, run.context, default).tenant_id


def _tenants(ctx: click.Context) -> list[dict[str, Any]]:
    from client.api import tenants

    records: list[dict[str, Any]] = _fetch(ctx, tenants.list_all())["tenants"]
    return records


def _fetch(ctx: click.Context, call: "Call[object]") -> Any:
    """Return the response of a running platform with an existing credential. Raises FrostError if there is none."""
    run: Invocation = ctx.obj
    return run.driver(run.connection.only_if_ready()).ask_json(call)


def name_the_id(run: "Invocation", error: "FrostError") -> None:
    """Add a tenant's id to the error that refuses its name, if exactly one tenant matches.

    Sends a request only to a running platform on this machine, with an existing credential.
    """
    from client import tenancy
    from client.api import tenants
    from client.errors import FrostError
    from client.text import safe

    try:
        if run.connection.endpoint.kind != "unix":
            return
        records = run.driver(run.connection.only_if_ready()).ask_json(tenants.list_all())["tenants"]
        one = tenancy.find(records, str((error.details or {})["given"]))
    except (FrostError, KeyError):
        return
    error.hint = f"the id of {safe(one['displayName'], 60)} ({safe(one['organizationName'], 60)}) is {one['id']}"


def _tenant_description(one: dict[str, Any]) -> str:
    return f"{one['displayName']} · {one['organizationName']}"


def _items(pairs: Iterable[tuple[str, str]], incomplete: str) -> "list[CompletionItem[str]]":
    from click.shell_completion import CompletionItem

    from client.text import safe

    return [CompletionItem(value, help=safe(about, 60)) for value, about in pairs if value.startswith(incomplete)]
