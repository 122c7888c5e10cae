"""`frost tenant default-tags get|set|clear`, and `--tag`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from client.api import default_tags as calls
from client.api import tenants
from client.commands import output
from client.commands.command import Group, Lazy
from client.commands.completers import tag_words
from client.commands.invocation import Invocation
from client.commands.parameters import YES, Option
from client.commands.tenants import OF_GROUP, WITHIN_ORGANIZATION, check_within
from client.errors import Exit, FrostError, usage
from client.tables.default_tags import TagChanges, difference, merged
from client.text import safe
from client.texts.effects import counted
from client.transport.call import Call, Versioned


def tags(values: Sequence[str]) -> dict[str, str]:
    """Parse the values of `--tag`. Raises FrostError (exit 2) without values or for an invalid value."""
    if not values:
        raise usage(
            "--tag is required (frost tenant default-tags set)",
            "use --tag KEY=VALUE; to remove all tags: frost tenant default-tags clear",
        )
    from client.commands.options import parse_tags  # only writes need it

    return parse_tags(values, "--tag")


def check(tag_set: Mapping[str, str]) -> None:
    """Refuse a set that the platform would refuse, with the same message. Raises FrostError (exit 2)."""
    from client.models import validation as rules

    problem = rules.problem_of_set(tag_set)
    if problem is not None:
        details: dict[str, object] = {"member": "tags", "key": problem.key, "reason": problem.reason}
        if problem.reason == "count":
            details |= {"max": rules.MOST, "count": len(tag_set)}
        elif problem.index is not None:
            details["index"] = problem.index
        raise FrostError(
            safe(problem.message, 400),
            code="INVALID_INPUT",
            hint="nothing was changed",
            exit_code=Exit.USAGE,
            details=details,
        )


_HISTORY = "client.commands.default_tags.history"
_TRIES = 50
"""Maximum attempts of a change; each one fails because another user has changed the set."""

default_tags = Group(
    "default-tags",
    {
        "apply": Lazy("client.commands.default_tags.apply:apply", "Add the default tags to existing resources."),
        "history": Lazy(
            f"{_HISTORY}:history", "List the versions of the default tags, newest first, and the last ten applies."
        ),
        "undo": Lazy(f"{_HISTORY}:undo", "Undo your last change of the default tags, or the tags added by an apply."),
    },
    help="Manage the tags that new resources of a tenant get.",
    params=[OF_GROUP],
)


@default_tags.leaf(
    "get", WITHIN_ORGANIZATION, examples=("frost tenant default-tags get", "frost tenant default-tags get -o json")
)
def get(run: Invocation, organization: str | None) -> None:
    """Print the default tags, one key=value per line.

    With -o json and -o yaml, print one flat map.
    """
    check_within(run, organization)
    print_tags(run, run.call_for_tenant(calls.get)["tags"])


def print_tags(run: Invocation, tags: Mapping[str, str]) -> None:
    """Print a set as a map, or a line for each tag."""
    ordered = {key: tags[key] for key in sorted(tags)}
    if run.output.structured:
        run.output.document(ordered)
    elif ordered:
        run.output.lines(f"{key}={value}" for key, value in ordered.items())
    else:
        run.output.note("no default tags")


@default_tags.leaf(
    "set",
    Option(
        ["--tag"],
        multiple=True,
        metavar="KEY=VALUE,…",
        help="Tag to set; repeat or separate with commas.",
        shell_complete=tag_words,
    ),
    Option(["--merge"], is_flag=True, help="Add to the default tags instead of replacing them."),
    Option(["--dry-run"], is_flag=True, help="Show the changes without making them."),
    WITHIN_ORGANIZATION,
    examples=(
        "frost tenant default-tags set --tag env=prod,team=web",
        "frost tenant default-tags set --tag cost-center=eu:42 --merge",
    ),
)
def set_(run: Invocation, tag: tuple[str, ...], merge: bool, dry_run: bool, organization: str | None) -> None:
    """Replace the default tags, or add to them with --merge.

    Prints added (+), changed (~) and removed (-) tags. Existing resources do not change: see `frost tenant
    default-tags apply`. Requires the role admin or owner.
    """
    new_tags = tags(tag)
    check(new_tags)
    check_within(run, organization)
    if dry_run:
        stored = run.call_for_tenant(calls.get)["tags"]
        result = merged(stored, new_tags) if merge else new_tags
        check(result)
        print_changes(run, result, difference(stored, result), dry_run=True)
        return
    change(run, lambda stored: merged(stored, new_tags) if merge else new_tags, must_read=merge)


@default_tags.leaf(
    "clear",
    YES,
    WITHIN_ORGANIZATION,
    examples=("frost tenant default-tags clear",),
)
def clear(run: Invocation, yes: bool, organization: str | None) -> None:
    """Remove all default tags.

    Tags of existing resources do not change. Requires the role admin or owner.
    """
    if yes:
        check_within(run, organization)
        change(run, lambda stored: {}, must_read=False)
        return
    output.needs_terminal("this removes every default tag", "use --yes to skip the confirmation")
    check_within(run, organization)
    stored = run.versioned_for_tenant(calls.get)
    before = stored.record["tags"]
    if not before:
        print_changes(run, {}, difference({}, {}))
        return
    for line in difference(before, {}).lines():
        run.talk.more(f"  {line}")
    removed = counted(len(before), "default tag")
    output.confirm(
        run.talk,
        f'Remove {removed} of tenant "{tenant_name(run)}"? Tags of existing resources do not change.',
        refused="",
        hint="",
    )
    response = run.change_for_tenant(lambda tenant: calls.put(tenant, {}, stored.version))
    print_changes(run, response.record["tags"], difference(before, response.record["tags"]))


def change(run: Invocation, compute: Callable[[Mapping[str, str]], Mapping[str, str]], *, must_read: bool) -> None:
    """Write a set computed from the stored one and print the changes. Retry if the stored set has changed.

    Args:
        run: The command.
        compute: Returns the new set for the stored one.
        must_read: Whether the new set depends on the stored one. If not, a credential without read access may write.

    Raises:
        FrostError: The set is invalid (exit 2), or the stored set changed before every attempt (exit 6).
    """
    for _ in range(_TRIES):
        stored = _stored(run, must_read)
        before = None if stored is None else stored.record["tags"]
        after = compute(before or {})
        check(after)
        version = None if stored is None else stored.version
        try:
            response = run.change_for_tenant(_put(after, version))
        except FrostError as error:
            if error.status != 412:
                raise
            continue
        after_write = response.record["tags"]
        print_changes(run, after_write, None if before is None else difference(before, after_write))
        return
    raise FrostError(
        "the default tags were changed by others during every attempt; nothing was changed",
        code="STALE_VERSION",
        hint="try again",
        exit_code=Exit.CONFLICT,
    )


def _put(tags: Mapping[str, str], version: int | None) -> Callable[[str], Call[object]]:
    return lambda tenant: calls.put(tenant, tags, version)


def _stored(run: Invocation, must_read: bool) -> Versioned[Any] | None:
    """Return the stored set; None if the credential may write but not read, and reading is optional."""
    try:
        return run.versioned_for_tenant(calls.get)
    except FrostError as error:
        if must_read or error.code != "INSUFFICIENT_SCOPE":
            raise
        return None


def print_changes(
    run: Invocation, tags: Mapping[str, str], changes: TagChanges | None, *, dry_run: bool = False
) -> None:
    """Print the changes of a write or a dry run; None if the credential may not read the former set."""
    if run.output.structured:
        document = {"tags": {key: tags[key] for key in sorted(tags)}, **(changes.document() if changes else {})}
        run.output.document({"dryRun": True, **document} if dry_run else document)
    elif changes is None:
        print_tags(run, tags)
    elif changes:
        run.output.lines(changes.lines())
    if changes is None:
        run.output.note("the changes are not shown: this credential may not read the previous tags")
    elif not changes:
        run.output.note(f"nothing {'changes' if dry_run else 'changed'}: same tags")
    elif dry_run:
        run.output.note("nothing was changed: this is a dry run")
    elif changes.added or changes.changed:
        run.output.note("existing resources do not change; add missing tags with: frost tenant default-tags apply")


def tenant_name(run: Invocation) -> str:
    """Return the tenant's display name."""
    return str(run.call_for_tenant(tenants.get)["displayName"])
