"""`--limit`, `--cursor`, `--all`: one way for every list in pages (contract: Paged commands; checklist P)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from client.commands.frame import Number
from client.commands.invocation import Invocation
from client.core import Call
from client.errors import usage
from client.pages import MOST, cursors, next_cursor
from client.records import Kind

PageOf = Callable[[str, int | None, str], Call]
"""Makes the request of a page: of a tenant, with so many items (None: the platform's own number), behind a cursor."""


FLAGS: tuple[click.Option, ...] = (
    click.Option(["--limit"], type=Number(1, MOST), metavar="N", help=f"Items on a page, 1 to {MOST}; default 50."),
    click.Option(["--cursor"], metavar="CURSOR", help="Go on behind a page: its nextCursor."),
    click.Option(["--all", "everything"], is_flag=True, help="Follow the pages to the end."),
)


def listed(
    run: Invocation,
    kind: Kind,
    page: PageOf,
    *,
    limit: int | None,
    cursor: str | None,
    everything: bool,
    beside: Mapping[str, Any] | None = None,
) -> int:
    """Print a page, or all of them from the cursor on, as one list; in a document with what belongs `beside` it.

    Returns:
        How many items there were.

    Raises:
        FrostError: An empty cursor (exit 2), or one that is not of this list.
    """
    if cursor == "":
        raise usage("--cursor is empty", "leave it out to begin at the first page")
    items: list[dict[str, Any]] = []
    trail = cursors(cursor or "")
    at: str | None = next(trail)
    following = ""
    while at is not None:
        call_of = _page_of(page, limit, at)
        answer = run.call_for_tenant(call_of)
        items += answer[call_of(run.tenant.tenant_id).member]
        following = next_cursor(answer)
        try:
            at = trail.send(following) if everything else None
        except StopIteration:
            at = None
    run.output.records(kind, items, beside={"nextCursor": following, **(beside or {})})
    if following and not run.output.structured:
        tenant_id = "" if run.flags.tenant else run.tenant.tenant_id
        run.output.note(f"more: {next_command(run.words, following, tenant_id)}")
    return len(items)


def _page_of(page: PageOf, limit: int | None, cursor: str) -> Callable[[str], Call]:
    return lambda tenant_id: page(tenant_id, limit, cursor)


def next_command(words: Sequence[str], cursor: str, tenant_id: str = "") -> str:
    """Return the command line for the next page.

    Args:
        words: The command line of this page, without the program's name.
        cursor: The next page's.
        tenant_id: The tenant of this page, unless `words` has `--tenant`. A cursor is valid in its own tenant only, and
            the selected tenant may be another one when the command is run.
    """
    import shlex

    end = words.index("--") if "--" in words else len(words)
    kept: list[str] = []
    rest = iter(words[:end])
    for word in rest:
        if word == "--cursor":
            next(rest, None)
        elif not word.startswith("--cursor="):
            kept.append(word)
    tenant = ["--tenant", tenant_id] if tenant_id else []
    return shlex.join(["frost", *kept, *tenant, "--cursor", cursor, *words[end:]])
