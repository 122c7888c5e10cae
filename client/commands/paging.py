"""`--limit`, `--cursor` and `--all` of paged lists."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from client.commands.command import Number
from client.commands.invocation import Invocation
from client.errors import usage
from client.tables.columns import Kind
from client.transport.call import MAX_PAGE_SIZE, Call, cursors, next_cursor

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
    trail = cursors(cursor or "")
    at: str | None = next(trail)
    next_page = ""
    while at is not None:
        call_of = _page_of(page, limit, at)
        answer = run.call_for_tenant(call_of)
        items += answer[call_of(run.tenant.tenant_id).member]
        next_page = next_cursor(answer)
        try:
            at = trail.send(next_page) if everything else None
        except StopIteration:
            at = None
    run.output.records(kind, items, more_members={"nextCursor": next_page, **(more_members or {})})
    if next_page and not run.output.structured:
        tenant_id = "" if run.flags.tenant else run.tenant.tenant_id
        run.output.note(f"more: {next_command(run.arguments, next_page, tenant_id)}")
    return len(items)


def _page_of(page: PageOf, limit: int | None, cursor: str) -> Callable[[str], Call[object]]:
    return lambda tenant_id: page(tenant_id, limit, cursor)


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
