"""What the commands of groups and policies take alike: ids, types, names; and what they say of an id that is none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from client.commands.invocation import Invocation
from client.commands.names import principal_ids
from client.core import path
from client.errors import FrostError, usage
from client.tenancy import check_display_name

MEMBER_TYPES = ("api_key", "workload_identity")
ATTACHEE_TYPES = (*MEMBER_TYPES, "group")
PRINCIPAL_TYPES = (*MEMBER_TYPES, "user")
FORCE = click.Option(["--force"], is_flag=True, help="Do not ask; required when not reading from a terminal.")
Thing = tuple[str, str]
"""A kind (policy, group, api_key, workload_identity, user) and the id that was given for it."""
VERSION_HELP = "Only if this is still its version; else nothing is changed (frost)."


def pair(types: Sequence[str], *, required: bool, verb: str) -> tuple[click.Option, click.Option]:
    """`--type` and `--id`, which name a principal together."""
    return (
        click.Option(
            ["--type", "kind"], required=required, type=click.Choice(types), help=f"What {verb}: {', '.join(types)}."
        ),
        click.Option(
            ["--id", "identifier"],
            required=required,
            metavar="ID",
            callback=an_id,
            help="Its id.",
            shell_complete=principal_ids,
        ),
    )


def name(value: str) -> str:
    """A name that some platform could take. Raises FrostError (exit 2)."""
    return check_display_name(value)


def an_id(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """An id as it may be sent anywhere: refused before anything is sent when it could address something else.

    Raises:
        FrostError: It is empty, or holds characters that no id has (exit 2).
    """
    if value is None or ctx.resilient_parsing:
        return value
    name = param.opts[0] if isinstance(param, click.Option) else str(param.metavar)
    if not value:
        raise usage(f"{name} is empty; it takes an id")
    try:
        path("{}", value)
    except FrostError as error:
        raise usage(f"{name}: {error.message}") from error
    return value


def text_of(value: str | None, flag: str) -> str | None:
    """A value that must not be empty when it is given. Raises FrostError (exit 2)."""
    if value is not None and not value.strip():
        raise usage(f"{flag} needs a value, an empty one was given")
    return value


@contextmanager
def missing(
    run: Invocation, thing: Thing, other: Thing | None = None, *, unrelated: str = "", see: str = ""
) -> Iterator[None]:
    """Where something is not in the tenant, has the refusal say which of the things that a command names.

    Args:
        thing: What the command is about; a policy or a group where there is another.
        other: What it was to be brought together with.
        unrelated: What is wrong when `thing` is there, for commands that part the two.
        see: The command that shows what is together with `thing`.
    """
    try:
        yield
    except FrostError as error:
        if error.gone:
            from client.commands import iam_missing

            iam_missing.explain(run, error, thing, other, unrelated, see)
        raise


@contextmanager
def missing_version(run: Invocation, policy_id: str, number: int) -> Iterator[None]:
    """The same for a version of a policy."""
    try:
        yield
    except FrostError as error:
        if error.gone:
            from client.commands import iam_missing

            iam_missing.explain_version(run, error, policy_id, number)
        raise
