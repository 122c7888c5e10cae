"""Flags for the context of a simulated request."""

from collections.abc import Sequence
from typing import Any

import click

from client.commands.ids import parse_tags, text_of
from client.errors import usage
from client.text import safe

FLAGS: tuple[click.Option, ...] = (
    click.Option(["--region"], metavar="REGION", help="Region of the request, also if the target's region is *."),
    click.Option(
        ["--request-tag"],
        multiple=True,
        metavar="KEY=VALUE,…",
        help='Tags on the request; "" for no tags. Unknown if omitted.',
    ),
    click.Option(
        ["--resource-tag"],
        multiple=True,
        metavar="KEY=VALUE,…",
        help='Tags on the resource; "" for no tags. Unknown if omitted.',
    ),
    click.Option(["--source-ip"], metavar="ADDRESS", help="Source address of the request."),
    click.Option(["--time"], metavar="TIME", help="Time of the request, RFC 3339; default now."),
)


def facts(
    *,
    region: str | None,
    request_tag: Sequence[str],
    resource_tag: Sequence[str],
    source_ip: str | None,
    time: str | None,
    **more: str | None,
) -> dict[str, Any]:
    """Return the request context as JSON. Omitted values are unknown, except the time, which defaults to now.

    Raises:
        FrostError: A value is invalid (exit 2).
    """
    values: dict[str, Any] = {
        "region": text_of(region, "--region"),
        "requestTags": _tags(request_tag, "--request-tag"),
        "resourceTags": _tags(resource_tag, "--resource-tag"),
        "sourceIp": _address(source_ip),
        "currentTime": _instant(time),
        **more,
    }
    return {name: value for name, value in values.items() if value is not None}


def operation(value: str) -> str:
    """Return the name of one operation. Raises FrostError (exit 2) for a part of a name or a pattern."""
    parts = value.split(":")
    if len(parts) != 3 or not all(parts) or "*" in value:
        raise usage(
            f"--operation takes one operation svc:resource:action, not {safe(value, 100)!r}",
            "list them: frost iam catalog --filter TEXT",
        )
    return value


def target(value: str) -> str:
    """Return a target, `*` or a full resource name (FRN). Raises FrostError (exit 2)."""
    fields = value.split(":", 4)
    kind, _, identifier = fields[-1].partition("/")
    if value != "*" and not (len(fields) == 5 and fields[0] == "frn" and all(fields) and kind and identifier):
        raise usage(
            f"--target takes * or frn:<service>:<region>:<tenant>:<type>/<id>, not {safe(value, 100)!r}",
            "parts may be *: --target 'frn:compute:*:*:instances/i-1'",
        )
    return value


def _tags(values: Sequence[str], flag: str) -> dict[str, str] | None:
    """Return the tags of an option; None without the option, an empty set for `""`."""
    if not values:
        return None
    return {} if list(values) == [""] else parse_tags(values, flag)


def _address(value: str | None) -> str | None:
    if value is None:
        return None
    from ipaddress import ip_address

    try:
        ip_address(value)
    except ValueError as error:
        raise usage(f"--source-ip takes an IPv4 or IPv6 address, not {safe(value, 60)!r}") from error
    return value


def _instant(value: str | None) -> str | None:
    if value is None:
        return None
    from client.tables.columns import parse_time

    if "T" not in value.upper() or parse_time(value) is None:
        raise usage(f"--time takes an RFC 3339 time with a zone, not {safe(value, 60)!r}", "as in 2026-03-01T09:00:00Z")
    return value
