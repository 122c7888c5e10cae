"""Parameters that commands share: names, ids, types, tags and pages; and errors for missing objects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from client.commands.command import Number
from client.commands.completers import principal_names, tenant_list
from client.commands.invocation import Invocation
from client.commands.parameters import Argument, Option
from client.errors import Exit, FrostError, usage
from client.name_lookup import is_id, match
from client.tables.columns import Kind, Record
from client.tenancy import check_display_name
from client.text import safe
from client.transport.call import MAX_PAGE_SIZE, Call, path

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


MEMBER_TYPES = ("api_key", "workload_identity")
ATTACHEE_TYPES = (*MEMBER_TYPES, "group")
PRINCIPAL_TYPES = (*MEMBER_TYPES, "user")
FORCE = Option(["--force"], is_flag=True, help="Do not ask for confirmation; required without a terminal.")
Thing = tuple[str, str]
"""A type (policy, group, api_key, workload_identity, user) and an id from the command line."""
VERSION_HELP = "Fail without changes if the current version differs."
_CELLS = 130


def pair(types: Sequence[str], *, required: bool, of: str) -> tuple[click.Option, click.Option]:
    """Return `--type` and `--id`, which together name a principal or a group."""
    return (
        Option(
            ["--type", "kind"],
            required=required,
            type=click.Choice(types),
            help=f"Type {of}: {', '.join(types)}.",
        ),
        Option(
            ["--id", "identifier"],
            required=required,
            metavar="NAME|ID",
            callback=name_or_id,
            help="Name or ID; the name of a workload identity is NAMESPACE/SERVICE_ACCOUNT.",
            shell_complete=principal_names,
        ),
    )


def name_argument(
    parameter: str,
    metavar: str,
    object_: str,
    shell_complete: "Callable[[click.Context, click.Parameter, str], list[CompletionItem[str]]]",
) -> click.Argument:
    """Return an argument that takes a name or an id.

    Args:
        parameter: The parameter of the command's function.
        metavar: The name of the argument in the help, `POLICY`.
        object_: The object in the help, `the policy`.
        shell_complete: Returns the names and ids that a shell offers.
    """
    help = f"Name or ID of {object_}."
    return Argument([parameter], metavar=metavar, callback=name_or_id, help=help, shell_complete=shell_complete)


def name(value: str) -> str:
    """Return a display name in canonical form. Raises FrostError (exit 2) if it is invalid."""
    return check_display_name(value)


def name_or_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return a name or an id as typed. Raises FrostError (exit 2) if it is empty."""
    if value is not None and not value.strip() and not ctx.resilient_parsing:
        raise usage(f"{_label(param)} is empty; expected a name or an ID")
    return value


def find_id(run: Invocation, kind: str, argument: str) -> str:
    """Return the id of an object of the selected tenant, given by its id or its name.

    An id is returned without a request.

    Args:
        run: The command.
        kind: policy, group, api_key, workload_identity or user. Users have no names here, only ids.
        argument: The user's input.

    Raises:
        FrostError: No object has the name (exit 5), or several have it (exit 1).
    """
    if is_id(argument):
        return argument.lower()
    if kind == "user":
        return argument
    return tenant_record_id(run, kind, argument)


def find_named(run: Invocation, kind: str, argument: str) -> tuple[str, str]:
    """Return an object for a sentence, and its id as `find_id` does: `policy "deploy" (ID)`, or `policy ID`."""
    identifier = find_id(run, kind, argument)
    is_name = identifier != argument.lower()
    return f'{kind} "{safe(argument, 130)}" ({identifier})' if is_name else f"{kind} {identifier}", identifier


def tenant_record_id(run: Invocation, kind: str, record_name: str) -> str:
    """Return the id of the only record with a name in the selected tenant. Reads all pages of the list.

    Args:
        run: The command.
        kind: policy, group, api_key or workload_identity.
        record_name: The user's input; not an id.

    Raises:
        FrostError: No record has the name (exit 5), or several have it (exit 1).
    """
    of = tenant_list(kind)
    assert of is not None
    records = [record for page, _ in run.pages_for_tenant(of.page) for record in page]
    selected = match(of.kind, records, record_name)
    if selected is None:
        message = f'no {of.kind.noun} named "{safe(record_name, _CELLS)}" in tenant {_tenant_name(run)}'
        raise FrostError(message, code="NOT_FOUND", hint=of.hint, exit_code=Exit.NOT_FOUND)
    return str(selected["id"])


def _tenant_name(run: Invocation) -> str:
    """Return the display name of the selected tenant for a message; its id if the name is not readable."""
    from client.api import tenants

    try:
        return f'"{safe(run.call(tenants.get(run.tenant.tenant_id))["displayName"], _CELLS)}"'
    except FrostError:
        return run.tenant.tenant_id


def an_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return an id that is safe in the path of a request.

    Raises:
        FrostError: The id is empty or has characters that no id has (exit 2).
    """
    if value is None or ctx.resilient_parsing:
        return value
    if not value:
        raise usage(f"{_label(param)} is empty; expected an ID")
    try:
        path("{}", value)
    except FrostError as error:
        raise usage(f"{_label(param)}: {error.message}") from error
    return value


def _label(param: click.Parameter) -> str:
    return param.opts[0] if isinstance(param, click.Option) else str(param.metavar)


def text_of(value: str | None, flag: str) -> str | None:
    """Return an option's value. Raises FrostError (exit 2) if it is empty."""
    if value is not None and not value.strip():
        raise usage(f"{flag} requires a value")
    return value


def parse_tags(values: Sequence[str], flag: str) -> dict[str, str]:
    """Parse `KEY=VALUE` options. A comma separates tags, since no value may contain one.

    Raises:
        FrostError: A tag has no key or no `=`, or a key has two values (exit 2).
    """
    tags: dict[str, str] = {}
    for pair in ",".join(values).split(","):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise usage(f"{flag} takes key=value, not {safe(pair, 80)!r}", f"for an empty value: {flag} key=")
        if tags.setdefault(key, value) != value:
            raise usage(f"{flag}: {safe(key, 80)} has different values")
    return tags


@contextmanager
def missing(
    run: Invocation, thing: Thing, other: Thing | None = None, *, unrelated: str = "", see: str = ""
) -> Iterator[None]:
    """Name the missing object in a NOT_FOUND error of a command about one or two objects.

    Args:
        thing: The object of the command; a policy or a group if there is another.
        other: The object to add to it, or to remove from it.
        unrelated: The message if `thing` exists, for commands that remove `other` from it.
        see: The command that lists the objects related to `thing`.
    """
    try:
        yield
    except FrostError as error:
        if error.gone:
            explain(run, error, thing, other, unrelated, see)
        raise


@contextmanager
def missing_version(run: Invocation, policy_id: str, number: int) -> Iterator[None]:
    """Name the missing policy or version in a NOT_FOUND error."""
    try:
        yield
    except FrostError as error:
        if error.gone:
            explain_version(run, error, policy_id, number)
        raise


_WHERE = {
    "policy": "list the policies: frost iam policy list --all",
    "group": "list the groups: frost iam group list --all",
    "user": "list users with: frost iam who --operation OPERATION --target '*'; your own id: frost whoami -o json",
}


_BY_TAB = "shell completion lists the IDs of this tenant: frost completion --help"


def explain(run: Invocation, error: FrostError, thing: Thing, other: Thing | None, unrelated: str, see: str) -> None:
    """Name the missing object in an error, or the missing relation of two objects.

    The arguments are those of `missing`.
    """
    if other is None or not _existing(run, thing):
        _not_here(run, error, thing)
    elif unrelated:
        error.message = safe(unrelated, 300)
        error.hint = f"list them: {see}"
    else:
        _not_here(run, error, other)


def explain_version(run: Invocation, error: FrostError, policy_id: str, number: int) -> None:
    """Name the missing version of a policy in an error, and the newest one. The platform deletes old versions."""
    policy = _existing(run, ("policy", policy_id))
    if policy is None:
        _not_here(run, error, ("policy", policy_id))
        return
    newest = policy["version"]
    absent = f"no version {number}" if number > newest else f"no version {number} any more"
    error.message = f"policy {safe(policy_id, 80)} has {absent}: the newest is version {newest}"
    error.hint = f"list them: frost iam policy history {safe(policy_id, 80)}"


def _existing(run: Invocation, thing: Thing) -> dict[str, Any] | None:
    """Return a policy or a group; None if it does not exist."""
    from client.api import groups, policies

    kind, identifier = thing
    get = policies.get if kind == "policy" else groups.get
    try:
        record: dict[str, Any] = run.call(get(run.tenant.tenant_id, identifier))
    except FrostError as error:
        if error.gone:
            return None
        raise
    return record


def _not_here(run: Invocation, error: FrostError, thing: Thing) -> None:
    """Name a missing object in an error, and how to list the objects of its type."""
    kind, identifier = thing
    error.message = f"{kind} {safe(identifier, 130)} not found in this tenant"
    if kind == "user" and "@" in identifier:
        error.message = f"user takes an id, {safe(identifier, 130)} is an address"
    error.hint = _WHERE.get(kind, _BY_TAB)


PageOf = Callable[[str, int | None, str], Call[object]]
"""Returns the request of a page for a tenant id, a page size (None: the platform's default) and a cursor."""


PAGE_FLAGS: tuple[click.Option, ...] = (
    Option(
        ["--limit"],
        type=Number(1, MAX_PAGE_SIZE),
        metavar="N",
        help=f"Items per page, 1 to {MAX_PAGE_SIZE}; default 50.",
    ),
    Option(["--cursor"], metavar="CURSOR", help="Start after the page with this nextCursor."),
    Option(["--all", "everything"], is_flag=True, help="List all pages."),
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
    rows: Callable[[Sequence[Record]], Sequence[Record]] | None = None,
) -> int:
    """Print a page as a list, or with `everything` all pages from the cursor on.

    Args:
        more_members: Further members of a JSON or YAML document.
        rows: Returns the rows of a table that is not wide, if they are not the items.

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
    shown: Sequence[Record] = items
    if rows is not None and not run.output.structured and not run.output.wide:
        shown = rows(items)
    run.output.records(kind, shown, more_members={"nextCursor": next_cursor, **(more_members or {})})
    if next_cursor and not run.output.structured:
        # A cursor is valid in its own tenant only, and the selected tenant may change before the command is run.
        tenant = [] if run.flags.tenant else ["--tenant", run.tenant.tenant_id]
        line = run.command_line(without=("cursor",), added=[*tenant, "--cursor", next_cursor])
        run.output.note(f"more: {line}")
    return len(items)
