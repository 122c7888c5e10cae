"""`frost config`: init, set, show, get-contexts, use-context."""

import os
import sys
from typing import TYPE_CHECKING

import click

from client.commands import output
from client.commands.command import Group
from client.commands.completers import context_names
from client.commands.invocation import Invocation
from client.commands.output import Fact
from client.commands.parameters import Argument
from client.errors import usage
from client.tables import columns

if TYPE_CHECKING:
    from client.auth.credential_store import Credential

KEYS = ("api_endpoint", "region", "api_key", "output_format")
_LONGEST_INPUT = 64 * 1024

config = Group("config", help="Manage the config file: credentials, endpoint, contexts.")


@config.leaf("init", examples=("frost config init", "frost config init --config ./other.yaml"))
def init(run: Invocation) -> None:
    """Create the config file with defaults and ask for an API key.

    The key is typed without echo and may be omitted: `frost login` starts an interactive login. An existing file is
    replaced after a confirmation; a copy is kept.
    """
    from client import contexts
    from client.auth import credential_store
    from client.paths import default_endpoint

    path = run.config_path
    talk = run.talk
    if os.path.lexists(path):
        output.confirm(
            talk,
            f"{path} exists. Replace it with defaults? A copy is kept",
            refused=f"{path} already exists",
            hint="change it with: frost config set KEY VALUE",
        )
    former = contexts.create(path, default_endpoint(os.environ))
    if former is not None:
        talk.note(f"backup of the former file: {former}")
    key = ""
    if sys.stdin.isatty():
        key = output.secret("API key (empty to sign in with `frost login` instead): ")
    if key:
        for notice in credential_store.save_api_key(run.config, run.context.name, _key(key)):
            talk.warn(notice)
    content = "defaults and an API key" if key else "defaults and no credentials"
    run.output.done(f"{path} created with {content}", {"file": path, "api_key": masked(key) if key else None})
    if not key:
        talk.note("sign in with: frost login")


@config.leaf(
    "set",
    Argument(["key"], metavar="KEY", type=click.Choice(KEYS), help=f"One of {', '.join(KEYS)}."),
    Argument(
        ["value"],
        metavar="VALUE",
        help='The value; "" clears region and api_key, - reads standard input.',
        repeat=lambda _: "-",
    ),
    examples=(
        "frost config set output_format json",
        "frost config set api_key - < key.txt",
        'frost config set api_key ""',
    ),
)
def set_(run: Invocation, key: str, value: str) -> None:
    """Set a value of the config file.

    api_endpoint, region and api_key belong to the current context, output_format to all contexts. An API key is
    stored in the keyring of the operating system if available; an empty value removes it, and the session is used
    again. Another api_endpoint removes the API key and the session of the context, which belong to the old
    endpoint.
    """
    from client import contexts
    from client.auth import credential_store

    run.config_may_be_missing = True
    if value == "-":
        value = _from_standard_input(key)
        if key == "api_key":
            _key(value)  # empty input is an error
    context = run.context.name
    notices: list[str] | None
    if key == "api_key" and not value:
        notices = credential_store.forget_api_key(run.config, context)
    elif key == "api_key":
        notices = credential_store.save_api_key(run.config, context, _key(value))
        value = masked(value)
    else:
        notices = contexts.SETTERS[key](run.config, context, value)
    for notice in notices or ():
        run.output.warn(notice)
    where = "" if key == "output_format" else f" of context {context}"
    run.output.done(f"{key}{where} is {value or 'not set'}", {"key": key, "value": value, "context": context})


@config.leaf("show", examples=("frost config show", "frost config show -o yaml"))
def show(run: Invocation) -> None:
    """Show the configuration and the source of each value.

    Secrets are shown as their prefix and last four characters.
    """
    from client.auth import credential_store

    selected = run.selected
    context = selected.context
    credential = credential_store.load(run.config, context)
    key = masked(credential.secret) if credential.kind == "api_key" else ""
    session = credential.kind == "session"
    values: dict[str, tuple[str | bool, str]] = {
        "context": (context.name, selected.source),
        "api_endpoint": (context.api_endpoint, context.sources["api_endpoint"]),
        "region": (context.region, context.sources["region"]),
        "api_key": (key, credential.source if key else ""),
        "session": (_session(credential), credential.source if session else ""),
        "output_format": (run.config.output_format, run.config.output_format_source),
        "tenant": (context.tenant, context.sources["tenant"]),
        "read_only": (context.read_only, context.sources["read_only"]),
    }
    document = {
        "file": run.config.path,
        **{name: None if value == "" else value for name, (value, _) in values.items()},
        "sources": {name: source for name, (value, source) in values.items() if value != ""},
    }
    facts: list[Fact] = [("file", run.config.path, "" if run.config.exists else "not found; these are the defaults")]
    for name, (value, source) in values.items():
        text = ("no", "yes")[value] if isinstance(value, bool) else value
        facts.append((name, text, source if text else ""))
    run.output.facts(document, facts, heads=("KEY", "VALUE", "SOURCE"))


@config.leaf("get-contexts", examples=("frost config get-contexts -o wide",))
def get_contexts(run: Invocation) -> None:
    """List the contexts of the config file. A star marks the current one."""
    current = run.config.current_context
    if os.environ.get("FROST_CONTEXT") in run.config.contexts:
        current = os.environ["FROST_CONTEXT"]
    records = [
        {
            "name": one.name,
            "current": one.name == current,
            "api_endpoint": one.api_endpoint,
            "region": one.region,
            "tenant": one.tenant,
            "read_only": one.read_only,
            "credential": one.credentials.kinds[0] if one.credentials.kinds else "none",
        }
        for one in run.config.contexts.values()
    ]
    run.output.records(columns.CONTEXT, records, marked=current)


@config.leaf(
    "use-context",
    Argument(["name"], metavar="NAME", help="Name of the context.", shell_complete=context_names),
    examples=("frost config use-context prod",),
)
def use_context(run: Invocation, name: str) -> None:
    """Select the current context."""
    from client import contexts

    contexts.choose(run.config, name)
    run.output.done(f"{name} is now the current context", {"context": name})
    if os.environ.get("FROST_CONTEXT"):
        run.output.warn("FROST_CONTEXT is set and overrides it")


def masked(secret: str) -> str:
    """Return the first 8 and last 4 characters of a secret; only `…` for one of less than 24."""
    return f"{secret[:8]}…{secret[-4:]}" if len(secret) >= 24 else "…"


def _session(credential: "Credential") -> str:
    if credential.kind != "session":
        return ""
    from datetime import UTC, datetime

    until = datetime.fromtimestamp(credential.expires_at, UTC).isoformat() if credential.expires_at else ""
    return f"signed in; access token until {columns.time_text(until)}"


def _key(text: str) -> str:
    """Return text with the form of an API key. Raises FrostError (exit 2) otherwise. The platform checks the key."""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise usage("api_key: not a valid API key", "use only the key, or - to read the key from standard input")
    return text


def _from_standard_input(key: str) -> str:
    """Read a value from standard input, without line breaks at its end; on a terminal, without echo.

    Raises:
        FrostError: The input is longer than 64 KiB or not UTF-8 (exit 2).
    """
    if sys.stdin.isatty():
        return output.secret(f"{key}: ")
    data = sys.stdin.buffer.read(_LONGEST_INPUT + 1)
    if len(data) > _LONGEST_INPUT:
        raise usage(f"{key}: standard input has more than {_LONGEST_INPUT // 1024} KiB")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise usage(f"{key}: standard input is not UTF-8 text") from None
