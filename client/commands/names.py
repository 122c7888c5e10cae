"""Live names for completion: contexts, tenants, organizations.

They come from the config file and from a platform that already runs, for a credential that is already there: pressing
Tab starts nothing and signs in nowhere.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from client.commands.invocation import Invocation
    from client.core import Call


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


def _tenants(ctx: click.Context) -> list[dict[str, Any]]:
    from client.api import tenants

    found: list[dict[str, Any]] = _asked(ctx, tenants.list_all())["tenants"]
    return found


def _asked(ctx: click.Context, call: "Call") -> Any:
    """The answer of a platform that runs, to a credential that is there; anything else is no answer."""
    run: Invocation = ctx.obj
    return run.driver(run.connection.only_if_ready()).call(call)


def _where(one: dict[str, Any]) -> str:
    return f"{one['displayName']} · {one['organizationName']}"


def _items(pairs: Iterable[tuple[str, str]], incomplete: str) -> "list[CompletionItem[str]]":
    from click.shell_completion import CompletionItem

    from client.text import safe

    return [CompletionItem(value, help=safe(about, 60)) for value, about in pairs if value.startswith(incomplete)]
