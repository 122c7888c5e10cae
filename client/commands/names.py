"""Live names for completion: contexts, tenants, organizations, operations, groups, policies, keys, identities.

They come from the config file and from a platform that already runs, for a credential that is already there: pressing
Tab starts nothing and signs in nowhere.
"""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from client.commands.invocation import Invocation
    from client.core import Call
    from client.errors import FrostError


def context_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """The contexts of the config file."""
    run: Invocation = ctx.obj
    contexts = run.config.contexts.values()
    return _items(((context.name, str(context.api_endpoint)) for context in contexts), incomplete)


def tenant_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Tenant ids, with the names."""
    return _items(((one["id"], _where(one)) for one in _tenants(ctx)), incomplete)


def tenant_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """What `tenant use` takes: names; the slug where a name is taken twice or cannot be typed; ids once begun."""
    from client.tenancy import folded

    found = _tenants(ctx)
    taken = [folded(one["displayName"]) for one in found] + [folded(one["slug"]) for one in found]
    pairs: list[tuple[str, str]] = []
    for one in found:
        alone = taken.count(folded(one["displayName"])) == 1 + (folded(one["slug"]) == folded(one["displayName"]))
        named = alone and one["displayName"].isprintable()
        if named:
            pairs.append((one["displayName"], _where(one)))
        if taken.count(folded(one["slug"])) == 1 and (not named or incomplete):
            pairs.append((one["slug"], _where(one)))
        elif not named or incomplete:
            pairs.append((one["id"], _where(one)))
        if incomplete:
            pairs.append((one["id"], _where(one)))
    return _items(dict(pairs).items(), incomplete)


def organization_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Organization ids, with the names."""
    from client.api import account

    found = _asked(ctx, account.organizations())["organizations"]
    return _items(((one["id"], one["name"]) for one in found), incomplete)


def operation_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """The operations of the catalogue, with what they do."""
    from client.api import catalogue

    found = _asked(ctx, catalogue.operations(incomplete))["operations"]
    return _items(((one["name"], one["description"]) for one in found), incomplete)


def group_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Group ids, with the names."""
    return _ids_of(ctx, "group", incomplete)


def policy_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Policy ids, with the names."""
    return _ids_of(ctx, "policy", incomplete)


def principal_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Ids of the type that was given before: keys, identities or groups, with the names."""
    return _ids_of(ctx, str(ctx.params.get("kind")), incomplete)


def own_key_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Ids of the caller's own keys, with their names and tenants."""
    from client.api import keys

    found = _asked(ctx, keys.own())["apiKeys"]
    return _items(((one["id"], f"{one['name']} · {one['tenantName']} · {one['status']}") for one in found), incomplete)


def scope_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """The scopes a key can be given, also behind a comma; those that no service enforces are not offered."""
    from client.api import account

    found = _asked(ctx, account.scopes())["scopes"]
    before, comma, _ = incomplete.rpartition(",")
    pairs = (
        (f"{before}{comma}{one['scope']}", one["description"])
        for one in found
        if one["scope"] != "*" and one.get("enforced", True)
    )
    return _items(pairs, incomplete)


def tag_words(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """The default tags there are, as `key=value`, also behind a comma."""
    from client.api import default_tags

    found = _asked(ctx, default_tags.get(_tenant(ctx)))["tags"]
    before, comma, _ = incomplete.rpartition(",")
    pairs = ((f"{before}{comma}{key}={value}", "as it is now") for key, value in sorted(found.items()))
    return _items(pairs, incomplete)


def apply_run_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Ids of the runs of an apply that can be taken back, with what they added."""
    from client.api import default_tags
    from client.records import time_text
    from client.records_tags import tags_text

    found = [one for one in _asked(ctx, default_tags.runs(_tenant(ctx)))["runs"] if one.get("undoable")]
    pairs = ((one["runId"], f"{time_text(one.get('startedAt'))} {tags_text(one.get('appliedTags'))}") for one in found)
    return _items(pairs, incomplete)


def resource_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """The resource types whose limit can be requested, with use and limit."""
    return _items(_types(ctx), incomplete)


def planned_types(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """The same as the beginnings of `TYPE=N`."""
    return _items(((f"{name}=", about) for name, about in _types(ctx)), incomplete)


def review_ids(ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem[str]]":
    """Ids of the quota requests that wait for the platform's staff."""
    from client import local
    from client.api import platform
    from client.connection import Staff
    from client.pages import MOST
    from client.records_quotas import amount_text

    run: Invocation = ctx.obj
    staff = Staff(os.environ)
    if not local.is_running(staff.endpoint):
        return []
    found = run.driver(staff).call(platform.quota_request_page("pending", limit=MOST))["requests"]
    pairs = ((one["id"], f"{one['resourceType']} {amount_text(one['limit'], one.get('unit'))}") for one in found)
    return _items(pairs, incomplete)


def _types(ctx: click.Context) -> list[tuple[str, str]]:
    from client.api import quotas
    from client.records import quantity

    found = quotas.quotas_of(_asked(ctx, quotas.report(_tenant(ctx))))
    return [
        (one["resourceType"], f"{quantity(one['used'], one['unit'])} of {quantity(one['limit'], one['unit'])}")
        for one in found
    ]


def _ids_of(ctx: click.Context, kind: str, incomplete: str) -> "list[CompletionItem[str]]":
    return _items(ids_and_names(lambda call: _asked(ctx, call), lambda: _tenant(ctx), kind), incomplete)


def ids_and_names(ask: "Callable[[Call], Any]", tenant: Callable[[], str], kind: str) -> list[tuple[str, str]]:
    """Ids and names of a tenant's things of a kind, as far as one page goes; of kinds that are not listed, none.

    Args:
        ask: Sends the request.
        tenant: The tenant's id, asked for when it is needed.
        kind: policy, group, api_key or workload_identity.
    """
    from client.api import groups, policies, principals
    from client.pages import MOST

    match kind:
        case "policy":
            return [(one["id"], one["name"]) for one in ask(policies.page(tenant(), limit=MOST))["policies"]]
        case "group":
            return [(one["id"], one["name"]) for one in ask(groups.page(tenant(), limit=MOST))["groups"]]
        case "api_key":
            return [(one["id"], one["name"]) for one in ask(principals.keys(tenant()))["apiKeys"]]
        case "workload_identity":
            found = ask(principals.identity_page(tenant(), limit=MOST))["bindings"]
            return [(one["id"], f"{one['namespace']}/{one['serviceAccount']}") for one in found]
    return []


def _tenant(ctx: click.Context) -> str:
    """The tenant the command would work in."""
    from client import tenancy
    from client.api import account

    run: Invocation = ctx.obj

    def default() -> str:
        return str(_asked(ctx, account.me())["tenantId"])

    return tenancy.resolve(run.flags.tenant, os.environ, run.context, default).tenant_id


def _tenants(ctx: click.Context) -> list[dict[str, Any]]:
    from client.api import tenants

    found: list[dict[str, Any]] = _asked(ctx, tenants.list_all())["tenants"]
    return found


def _asked(ctx: click.Context, call: "Call") -> Any:
    """The answer of a platform that runs, to a credential that is there; anything else is no answer."""
    run: Invocation = ctx.obj
    return run.driver(run.connection.only_if_ready()).call(call)


def name_the_id(run: "Invocation", error: "FrostError") -> None:
    """Have the refusal of a tenant's name tell the id, when exactly one tenant has it and that can be known at once.

    Only a platform on this machine is asked, one that runs, with a credential that is there.
    """
    from client import tenancy
    from client.api import tenants
    from client.errors import FrostError
    from client.text import safe

    try:
        if run.connection.endpoint.kind != "unix":
            return
        found = run.driver(run.connection.only_if_ready()).call(tenants.list_all())["tenants"]
        one = tenancy.find(found, str((error.details or {})["given"]))
    except (FrostError, KeyError):
        return
    error.hint = f"the id of {safe(one['displayName'], 60)} ({safe(one['organizationName'], 60)}) is {one['id']}"


def _where(one: dict[str, Any]) -> str:
    return f"{one['displayName']} · {one['organizationName']}"


def _items(pairs: Iterable[tuple[str, str]], incomplete: str) -> "list[CompletionItem[str]]":
    from click.shell_completion import CompletionItem

    from client.text import safe

    return [CompletionItem(value, help=safe(about, 60)) for value, about in pairs if value.startswith(incomplete)]
