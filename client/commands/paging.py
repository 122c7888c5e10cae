"""`--limit`, `--cursor` and `--all` of paged lists."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from client.commands.command import Number
from client.commands.invocation import Invocation
from client.errors import usage
from client.tables.columns import Kind
from client.transport.call import MAX_PAGE_SIZE, Call

PageOf = Callable[[str, int | None, str], Call[object]]
"""Returns the request of a page for a tenant id, a page size (None: the platform's default) and a cursor."""


FLAGS: tuple[click.Option, ...] = (
    click.Option(
        ["--limit"],
        type=Number(1, MAX_PAGE_SIZE),
        metavar="N",
        help=f"Items per page, 1 to {MAX_PAGE_SIZE}; default 50.",
    ),
    click.Option(["--cursor"], metavar="CURSOR", help="Start after the page with this nextCursor."),
    click.Option(["--all", "everything"], is_flag=True, help="List all pages."),
)


def listed(
    run: Invocation,
    kind: Kind,
    page: PageOf,
    *,
    limit: int | None,
    cursor: str | None,
    everything: bool,
    more_members: Mapping[str, Any] | None = None,
) -> int:
    """Print a page as a list, or with `everything` all pages from the cursor on.

    Args:
        more_members: Further members of a JSON or YAML document.

    Returns:
        The number of items.

    Raises:
        FrostError: The cursor is empty (exit 2) or belongs to another list.
    """
    if cursor == "":
        raise usage("--cursor is empty", "omit it to start at the first page")
    items: list[dict[str, Any]] = []
    next_cursor = ""
    for records, next_page in run.pages_for_tenant(lambda tenant, at: page(tenant, limit, at), cursor or ""):
        items += records
        next_cursor = next_page
        if not everything:
            break
    run.output.records(kind, items, more_members={"nextCursor": next_cursor, **(more_members or {})})
    if next_cursor and not run.output.structured:
        tenant_id = "" if run.flags.tenant else run.tenant.tenant_id
        run.output.note(f"more: {next_command(run.arguments, next_page, tenant_id)}")
    return len(items)


def next_command(arguments: Sequence[str], cursor: str, tenant_id: str = "") -> str:
    """Return the command line for the next page.

    Args:
        arguments: The command line of this page, without the program's name.
        cursor: The cursor of the next page.
        tenant_id: The tenant of this page, unless `arguments` has `--tenant`. A cursor is valid in its own tenant only,
            and the selected tenant may change before the command is run.
    """
    import shlex

    end = arguments.index("--") if "--" in arguments else len(arguments)
    remaining: list[str] = []
    rest = iter(arguments[:end])
    for word in rest:
        if word == "--cursor":
            next(rest, None)
        elif not word.startswith("--cursor="):
            remaining.append(word)
    tenant = ["--tenant", tenant_id] if tenant_id else []
    return shlex.join(["frost", *remaining, *tenant, "--cursor", cursor, *arguments[end:]])
