"""What people change in the configuration: contexts added and chosen, their endpoint and region, the output format.

Every value is checked before the file is touched, so a refusal changes nothing.
Source: contract: config; checklist F01 to F13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from client.config import LOCAL, OUTPUT_FORMATS, Config, Context, Stored, select
from client.config_edit import Document, edit, quoted, replaced
from client.endpoint import Endpoint
from client.errors import Exit, FrostError, usage
from client.text import safe

LONGEST_NAME = 64
LONGEST_REGION = 128
_CREDENTIALS = {"api_key": "API key", "session": "session"}
_DEFAULTS = dict.fromkeys(("api_endpoint", "region", "tenant", "read_only"), "default")


def choose(config: Config, name: str) -> None:
    """Makes a context the current one.

    Raises:
        FrostError: There is none of that name (exit 5); the known ones are listed (checklist F13).
    """
    if not name:
        raise usage("the name of a context is needed, an empty one was given")
    select(config, {}, name)
    with edit(config.path) as document:
        document.context(name)
        if not document.flat:
            document.data["current_context"] = quoted(name)


def draft(config: Config, name: str, endpoint: str) -> Config:
    """The configuration as it will be with a context for an endpoint; nothing is written.

    The same name with the same endpoint is nothing new, and accepted. A context that holds no credential takes the
    endpoint: what a mistyped one left behind is in nobody's way. The context of the local platform never does.

    Raises:
        FrostError: The name or the endpoint cannot be used (exit 2), or the name has another endpoint (exit 6).
    """
    _check_name(name)
    wanted = str(_endpoint(endpoint))
    known = config.contexts.get(name)
    if known is None:
        drafted = Context(name, wanted, "", "", False, Stored(), False, {**_DEFAULTS, "api_endpoint": "context"})
    elif str(Endpoint.parse(known.api_endpoint)) == wanted:
        return config
    elif known.credentials.kinds or known.sources["api_endpoint"] == "default":
        raise FrostError(
            f"context {safe(name)!r} exists with another endpoint, {safe(known.api_endpoint, 200)}",
            code="CONTEXT_EXISTS",
            hint="take another name, or change it: frost config use-context NAME, frost config set api_endpoint URL",
            exit_code=Exit.CONFLICT,
        )
    else:
        drafted = known._replace(api_endpoint=wanted, sources={**known.sources, "api_endpoint": "context"})
    return config._replace(contexts={**config.contexts, name: drafted})


def add(config: Config, name: str, endpoint: str) -> None:
    """Writes what `draft` describes; the current context stays, and so does a context that has the endpoint.

    Raises:
        FrostError: As `draft` does.
    """
    drafted = draft(config, name, endpoint)
    if drafted is config:
        return
    with edit(config.path) as document:
        document.context(name)["api_endpoint"] = quoted(drafted.contexts[name].api_endpoint)


def check_new(config: Config, name: str) -> None:
    """Refuses a name that no new context can have.

    Raises:
        FrostError: It cannot be a name (exit 2), or there is a context of that name (exit 6).
    """
    _check_name(name)
    if name in config.contexts:
        raise _exists(name)


def add_new(config: Config, name: str, endpoint: str, tenant: str) -> None:
    """Writes a context that is not there yet, for an endpoint and a tenant; the current one stays.

    Raises:
        FrostError: As `check_new` does, also for what another process has written meanwhile.
    """
    check_new(config, name)
    with edit(config.path) as document:
        if name in document.names():
            raise _exists(name)
        document.context(name).update({"api_endpoint": quoted(endpoint), "tenant": quoted(tenant)})


def _check_name(name: str) -> None:
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name != name.strip() or "/" in name:
        raise usage(
            f"{safe(name, 80)!r} cannot be the name of a context",
            f"use 1 to {LONGEST_NAME} printable characters without / and without spaces around them",
        )


def _exists(name: str) -> FrostError:
    return FrostError(
        f"context {safe(name)!r} exists already",
        code="CONTEXT_EXISTS",
        hint="take another name; the contexts there are: frost config get-contexts",
        exit_code=Exit.CONFLICT,
    )


def set_endpoint(config: Config, name: str, endpoint: str) -> list[str]:
    """Set the endpoint of a context and remove the credentials of its former one.

    A credential belongs to the platform that issued it and is never sent to another one.

    Returns:
        Notices for the person: which credentials were removed.
    """
    wanted = str(_endpoint(endpoint))
    notices = _remove_credentials_of_another(config, name, wanted)
    with edit(config.path) as document:
        document.context(name)["api_endpoint"] = quoted(wanted)
    return notices


def drop_endpoint(config: Config, name: str, default: str) -> list[str]:
    """Remove the endpoint of a context, so that the `default` one is used: the platform of this machine.

    Credentials are treated, and notices returned, as by `set_endpoint`.
    """
    notices = _remove_credentials_of_another(config, name, default)
    with edit(config.path) as document:
        document.context(name).pop("api_endpoint", None)
    return notices


def _remove_credentials_of_another(config: Config, name: str, endpoint: str) -> list[str]:
    known = config.contexts.get(name)
    if known is None or _is_same(known.api_endpoint, endpoint) or not known.credentials.kinds:
        return []
    from client import credentials

    kinds = " and ".join(_CREDENTIALS[kind] for kind in known.credentials.kinds)
    removed = f"the {kinds} of context {safe(name)} for {safe(known.api_endpoint, 200)} {{}} removed"
    return [
        removed.format("are" if len(known.credentials.kinds) > 1 else "is"),
        *credentials.forget(config, name, ended=False),
        *(credentials.forget_api_key(config, name) if "api_key" in known.credentials.kinds else ()),
    ]


def _is_same(endpoint: str, other: str) -> bool:
    try:
        return str(Endpoint.parse(endpoint)) == str(Endpoint.parse(other))
    except FrostError:  # what the file holds need not be an endpoint
        return endpoint == other


def remove(config: Config, name: str) -> list[str]:
    """Takes a context away with its credentials; its session is not ended on the platform. Returns notices.

    Raises:
        FrostError: It is the current one (exit 1), or there is none of that name (exit 5).
    """
    select(config, {}, name)
    if name == config.current_context:
        raise FrostError(
            f"context {safe(name)!r} is the current one",
            code="CONTEXT_IN_USE",
            hint="choose another one before: frost config use-context NAME",
        )
    from client import credentials

    with edit(config.path) as document:
        notices = credentials.forget_in_keyring(document, name)
        document.map("contexts").pop(name, None)
    return notices


def set_region(config: Config, name: str, region: str) -> None:
    """Sets the default region of a context; an empty one takes it away."""
    if len(region) > LONGEST_REGION or not region.isprintable():
        raise usage(f"region: at most {LONGEST_REGION} printable characters, not {safe(region, 80)!r}")
    with edit(config.path) as document:
        member = document.context(name)
        if region:
            member["region"] = quoted(region)
        else:
            member.pop("region", None)


def set_output_format(config: Config, name: str, output_format: str) -> None:
    """Sets the output format that counts without `-o`; it belongs to the file, whatever the context (checklist F07)."""
    if output_format not in OUTPUT_FORMATS:
        raise usage(
            f"output_format: {safe(output_format, 60)!r} is not one of {', '.join(OUTPUT_FORMATS)}",
            "wide is a matter of a single command: -o wide" if output_format == "wide" else "",
        )
    with edit(config.path) as document:
        if document.flat and "output_format" in document.data:
            document.data["output_format"] = output_format
        else:
            document.map("defaults")["output_format"] = output_format


SETTERS: Mapping[str, Callable[[Config, str, str], list[str] | None]] = {
    "api_endpoint": set_endpoint,
    "region": set_region,
    "output_format": set_output_format,
}
"""Keys of `config set`, without `api_key` -> the function that sets it for a context; it may return notices."""


def create(path: str, endpoint: str) -> str | None:
    """Writes a file with defaults: one context `local`, tables. An existing file is kept beside it.

    Args:
        path: The file.
        endpoint: The endpoint of the context `local`.

    Returns:
        Where the former file is kept now; None when there was none.
    """

    def defaults(document: Document) -> None:
        document.data["current_context"] = LOCAL
        document.context(LOCAL)["api_endpoint"] = quoted(endpoint)
        document.map("defaults")["output_format"] = "table"

    return replaced(path, defaults)


def _endpoint(text: str) -> Endpoint:
    """The endpoint, if a credential may be sent to it; a socket must be this user's (checklist F08)."""
    from client.network import check_socket_owner

    endpoint = Endpoint.parse(text)
    if endpoint.kind == "unix":
        try:
            check_socket_owner(endpoint.path)
        except FileNotFoundError:
            pass  # nothing listens yet
        except OSError as error:
            raise usage(f"api_endpoint: {safe(endpoint.path, 200)} cannot be used: {error.strerror}") from None
    return endpoint
