"""Searches the debug output of commands over all areas, and of screens that crash, for the secrets they used."""

import io
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from httpcore._backends.anyio import AnyIOStream
from rich.console import Console
from textual.worker import WorkerFailed

from client.api import account
from client.connection import resolve
from client.transport.async_client import AsyncClient
from service.authn import secret_format
from tests.acceptance.people import AURORA, MEMBER, NOBODYS, STAGING
from tests.conftest import opened
from tests.homes import Home
from tests.leaks import secrets_in
from tests.tui.screens import opened as screens
from tests.tui.screens import use_key

pytestmark = pytest.mark.slow

DOCUMENT = '{"schemaVersion":"1","rules":[{"access":"allow","operations":["compute:*"],"targets":["*"]}]}'
# With an exit code before it: what is refused on purpose. `{name}` is what an earlier command made.
SESSION = f"""
whoami
config show
config get-contexts
config set region se-sto-1
account profile
account session list
account api-key scopes
account api-key list
account api-key get {{key}}
account api-key update {{key}} --description changed
tenant list --all
tenant create --name Renamed --organization {AURORA}
tenant rename {STAGING} --name Renamed
tenant use {STAGING}
tenant current
tenant default-tags set --tag a=1
tenant default-tags apply --yes
tenant default-tags history
tenant quota
tenant quota request secret 41 --reason more --yes
tenant quota requests
tenant activity
iam catalog --filter dns
iam group list
iam policy list
4 --tenant {NOBODYS} tenant quota
2 iam policy create --name bad --document nonsense
platform status
platform operations
5 platform operations cancel no-such-operation
platform audit verify
"""


def stored_secrets(home: Home) -> set[str]:
    """The secrets that a home's commands use now."""
    contexts = yaml.safe_load(home.config.read_text()).get("contexts") or {}
    held = [context.get("credentials") or {} for context in contexts.values()]
    return {str(one[name]) for one in held for name in ("access_token", "refresh_token", "api_key") if one.get(name)}


class Run:
    """Commands with everything they say, and the secrets that they used."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.shown: list[tuple[str, str]] = []
        self.secrets: set[str] = set()

    def frost(self, *words: str, code: int = 0, stdin: str = "", shows: int = 0) -> str:
        """Run a command that may show so many new secrets on standard output, and no other ones anywhere."""
        result = self.home.frost("--debug", *words, stdin=stdin)
        assert result.code == code, (words, result)
        out, new = result.out, set(secrets_in(result.out.encode()))
        assert len(new) == shows, words
        for secret in new:
            assert out.count(secret) == 1
            out = out.replace(secret, "")
        self.shown += [(" ".join(words[:3]), out), (" ".join(words[:3]), result.err)]
        self.secrets |= new | stored_secrets(self.home)
        return result.out

    def add_secrets_of_platform(self) -> None:
        """The keys of the seed, and what the platform keeps for itself, in the ways it might be written."""
        self.secrets |= {self.home.world_key(name) for name in ("compute-all", "tenant-reader")}
        own = (self.home.platform_dir / "secret.key").read_bytes()
        encoded = (b64encode(own).decode(), urlsafe_b64encode(own).decode().rstrip("="))
        self.secrets |= {own.hex(), *encoded, repr(own)[2:-1]}

    def leaks(self) -> list[tuple[str, str]]:
        """Where a secret is shown, and its beginning."""
        log = (self.home.platform_dir / "platform.log").read_text()
        assert log.count('"route"') > len(self.shown) // 4
        return [
            (place, f"{secret[: secret_format.PREFIX_LENGTH]}…")
            for place, text in [*self.shown, ("the platform's log", log)]
            for secret in self.secrets
            if secret in text
        ]


@pytest.fixture
def run(demo_platform: Path) -> Iterator[Run]:
    home = opened(demo_platform, FROST_PLATFORM_LOG_LEVEL="debug", FROST_PLATFORM_PROVISIONING_PACE="0.02")
    yield Run(home)
    home.remove()


def made(run: Run, *words: str, **how: Any) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(run.frost(*words, "-o", "json", **how))
    return found


def test_debug_output_of_all_areas_contains_no_secret(run: Run) -> None:
    run.frost("login")
    run.add_secrets_of_platform()
    key = made(run, "account", "api-key", "create", "--name", "made", "--scopes", "compute:read", shows=1)
    names = {"key": str((key.get("apiKey") or key)["id"])}
    for line in SESSION.strip().splitlines():
        words = line.format(**names).split()
        code = int(words.pop(0)) if words[0].isdigit() else 0
        run.frost(*words, code=code)
    group = str(made(run, "iam", "group", "create", "--name", "made")["id"])
    policy = str(made(run, "iam", "policy", "create", "--name", "made", "--document", DOCUMENT)["id"])
    run.frost("iam", "policy", "attach", policy, "--type", "group", "--id", group)
    run.frost("iam", "policy", "detach", policy, "--type", "group", "--id", group)
    run.frost("iam", "simulate", "--document", DOCUMENT, "--operation", "compute:instances:read", "--target", "*")
    run.frost("account", "api-key", "rotate", names["key"], shows=1)
    run.frost("account", "api-key", "revoke", names["key"])
    run.frost("login")  # another session
    run.frost("login", "--context", "member", "--endpoint", f"unix:{run.home.socket}", "--as", MEMBER)
    run.frost("config", "use-context", "member")
    run.frost("iam", "policy", "create", "--name", "wide", "--document", DOCUMENT.replace("compute:", ""), code=4)
    secret = run.home.world_key("tenant-reader")
    run.frost("config", "set", "api_key", "-", stdin=f"{secret}\n")
    run.frost("whoami")
    run.frost("tenant", "list")
    run.frost("config", "set", "api_key", "-", stdin=f"{secret_format.mint()}\n")  # an unknown key
    run.frost("tenant", "list", code=3)
    run.frost("config", "use-context", "local")
    run.frost("account", "session", "revoke-all")
    run.frost("whoami", code=3)
    assert len(run.secrets) >= 15
    assert run.leaks() == []


class Breaks:
    """A connection that fails as none should: a fake of a broken network."""

    async def write(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("no network fails like this")


@pytest.mark.parametrize("kind", ["session", "api_key"])
async def test_screens_that_break_while_they_send_show_no_secret(
    demo: Home, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    demo.start()
    demo.sign_in()
    if kind == "api_key":
        await use_key(demo, "tenant-reader")
    secrets = stored_secrets(demo)
    shown = ""
    with pytest.raises(WorkerFailed, match="no network fails like this"):  # noqa: PT012 - raised as they are left
        async with screens(demo, monkeypatch) as ui:
            monkeypatch.setattr(AnyIOStream, "write", Breaks.write)
            ui.app.run_worker(AsyncClient(resolve()).ask(account.me()))
            await ui.until(lambda: bool(ui.app._exit_renderables), "the end")
            paper = Console(file=io.StringIO(), width=200)
            paper.print(*ui.app._exit_renderables)
            shown = paper.file.getvalue()  # type: ignore[attr-defined]
    assert "no network fails like this" in shown
    assert "client/transport/async_client.py" in shown
    # Long texts are cut short there.
    assert [line for line in shown.splitlines() if any(one[:24] in line for one in secrets)] == []
