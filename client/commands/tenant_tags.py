"""`frost tenant default-tags get|set|clear` (contract: tenant default-tags; checklist D)."""

from collections.abc import Callable, Mapping

import click

from client.api import default_tags as calls
from client.api import tenants
from client.commands import asking, tag_input
from client.commands.frame import Group, Lazy
from client.commands.invocation import Invocation
from client.commands.names import tag_words
from client.commands.tenant_input import BESIDE, OF_GROUP, check_within
from client.core import Call, Versioned
from client.errors import Exit, FrostError
from client.tag_changes import TagChanges, difference, merged

_HISTORY = "client.commands.tenant_tag_history"
_TRIES = 50
"""How often a change is made anew from a newer set; each time somebody else has made one."""

default_tags = Group(
    "default-tags",
    {
        "apply": Lazy("client.commands.tenant_apply:apply", "Add the default tags to the resources that exist."),
        "history": Lazy(
            f"{_HISTORY}:history", "List what the default tags were, newest first, and the last ten applies.", ours=True
        ),
        "undo": Lazy(
            f"{_HISTORY}:undo", "Take your last change of the default tags back, or what an apply added.", ours=True
        ),
    },
    help="The tags that resources of a tenant get.",
    params=[OF_GROUP],
)


@default_tags.leaf("get", BESIDE, examples=("frost tenant default-tags get", "frost tenant default-tags get -o json"))
def get(run: Invocation, organization: str | None) -> None:
    """Print the default tags, one key=value per line.

    Under -o json and -o yaml they are one flat map.
    """
    check_within(run, organization)
    shown(run, run.call_for_tenant(calls.get)["tags"])


def shown(run: Invocation, tags: Mapping[str, str]) -> None:
    """A set as its map, or a line for each tag; nothing for an empty one (checklist D01, D02)."""
    ordered = {key: tags[key] for key in sorted(tags)}
    if run.output.structured:
        run.output.document(ordered)
    elif ordered:
        run.output.lines(f"{key}={value}" for key, value in ordered.items())
    else:
        run.output.note("no default tags")


@default_tags.leaf(
    "set",
    click.Option(
        ["--tag"], multiple=True, metavar="KEY=VALUE,…", help="A tag, or several with commas.", shell_complete=tag_words
    ),
    click.Option(["--merge"], is_flag=True, help="Add to the set; without it the whole set is replaced."),
    click.Option(["--dry-run"], is_flag=True, help="Say what would change, and change nothing (frost)."),
    BESIDE,
    examples=(
        "frost tenant default-tags set --tag env=prod,team=web",
        "frost tenant default-tags set --tag cost-center=eu:42 --merge",
    ),
)
def set_(run: Invocation, tag: tuple[str, ...], merge: bool, dry_run: bool, organization: str | None) -> None:
    """Replace the default tags, or with --merge add to them.

    It says what was added (+), changed (~) and removed (-). Existing resources keep what they have: see `frost tenant
    default-tags apply`. It needs the role admin or owner.
    """
    given = tag_input.tags(tag)
    tag_input.check(given)
    check_within(run, organization)
    if dry_run:
        stored = run.call_for_tenant(calls.get)["tags"]
        wanted = merged(stored, given) if merge else given
        tag_input.check(wanted)
        told(run, wanted, difference(stored, wanted), dry_run=True)
        return
    change(run, lambda stored: merged(stored, given) if merge else given, must_read=merge)


@default_tags.leaf(
    "clear",
    click.Option(["--yes"], is_flag=True, help="Do not ask; required when not reading from a terminal."),
    BESIDE,
    examples=("frost tenant default-tags clear",),
)
def clear(run: Invocation, yes: bool, organization: str | None) -> None:
    """Remove every default tag.

    Existing resources keep theirs. It needs the role admin or owner.
    """
    if yes:
        check_within(run, organization)
        change(run, lambda stored: {}, must_read=False)
        return
    asking.needs_terminal("this removes every default tag", "--yes does it without a question")
    check_within(run, organization)
    stored = run.versioned_for_tenant(calls.get)
    before = stored.record["tags"]
    if not before:
        told(run, {}, difference({}, {}))
        return
    for line in difference(before, {}).lines():
        run.talk.more(f"  {line}")
    asking.confirm(
        run.talk,
        f'Remove {counted(len(before))} of tenant "{tenant_name(run)}"? Existing resources keep theirs.',
        refused="",
        hint="",
    )
    made = run.change_for_tenant(lambda tenant: calls.put(tenant, {}, stored.version))
    told(run, made.record["tags"], difference(before, made.record["tags"]))


def change(run: Invocation, wanted: Callable[[Mapping[str, str]], Mapping[str, str]], *, must_read: bool) -> None:
    """Write a set made from the stored one, and say what changed; made anew when another was written meanwhile.

    Args:
        run: The command.
        wanted: Makes the new set from the stored one.
        must_read: Whether the new set depends on the stored one. If not, a key that may only write does so unread.
    """
    for _ in range(_TRIES):
        stored = _stored(run, must_read)
        before = None if stored is None else stored.record["tags"]
        after = wanted(before or {})
        tag_input.check(after)
        version = None if stored is None else stored.version
        try:
            made = run.change_for_tenant(_put(after, version))
        except FrostError as error:
            if error.status != 412:
                raise
            continue
        kept = made.record["tags"]
        told(run, kept, None if before is None else difference(before, kept))
        return
    raise FrostError(
        "the default tags are being changed by others all the time; nothing was changed",
        code="STALE_VERSION",
        hint="try again",
        exit_code=Exit.CONFLICT,
    )


def _put(tags: Mapping[str, str], version: int | None) -> Callable[[str], Call]:
    return lambda tenant: calls.put(tenant, tags, version)


def _stored(run: Invocation, must_read: bool) -> Versioned | None:
    """The set as it is; None when it may be written and not be read."""
    try:
        return run.versioned_for_tenant(calls.get)
    except FrostError as error:
        if must_read or error.code != "INSUFFICIENT_SCOPE":
            raise
        return None


def told(run: Invocation, tags: Mapping[str, str], changes: TagChanges | None, *, dry_run: bool = False) -> None:
    """Say what a change did, or would do; None is a difference that nobody may know."""
    if run.output.structured:
        document = {"tags": {key: tags[key] for key in sorted(tags)}, **(changes.document() if changes else {})}
        run.output.document({"dryRun": True, **document} if dry_run else document)
    elif changes is None:
        shown(run, tags)
    elif changes:
        run.output.lines(changes.lines())
    if changes is None:
        run.output.note("the former set may not be read with this credential, so what changed is not shown")
    elif not changes:
        run.output.note(f"nothing {'changes' if dry_run else 'changed'}: it is like that already")
    elif dry_run:
        run.output.note("nothing was changed: this is a dry run")
    elif changes.added or changes.changed:
        run.output.note("existing resources keep theirs: frost tenant default-tags apply adds what they lack")


def counted(number: int) -> str:
    return f"{number} default tag{'s' if number != 1 else ''}"


def tenant_name(run: Invocation) -> str:
    """The tenant's name, for a question."""
    return str(run.call_for_tenant(tenants.get)["displayName"])
