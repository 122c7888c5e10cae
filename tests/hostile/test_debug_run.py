"""Searches the debug output of commands over all areas, and of screens that crash, for the secrets they used."""

import io
from base64 import b64encode, urlsafe_b64encode
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
from tests.homes import Home
from tests.leaks import secrets_in
from tests.people import AURORA, MEMBER, STAGING, UNKNOWN_ID
from tests.tui.screens import opened as screens
from tests.tui.screens import use_key

pytestmark = pytest.mark.slow

DOCUMENT = '{"schemaVersion":"1","rules":[{"access":"allow","operations":["compute:*"],"targets":["*"]}]}'
# With an exit code before it: what is refused on purpose.
SESSION = f"""
whoami
config show
account session list
account api-key list
account api-key get made
account api-key rotate made --overlap 0
tenant create --name Renamed --organization {AURORA}
tenant use {STAGING}
tenant default-tags set --tag a=1
tenant default-tags apply --yes
tenant quota request secret 41 --reason more --yes
tenant activity
iam group create --name made
iam policy create --name made --document {DOCUMENT}
iam policy attach made --type group --id made
4 --tenant {UNKNOWN_ID} tenant quota
2 iam policy create --name bad --document nonsense
platform status
platform audit verify
login
login --context member --endpoint unix:SOCKET --as {MEMBER}
config use-context member
whoami
config set api_key KEY
tenant list
config set api_key {secret_format.mint()}
3 tenant list
config use-context local
account session revoke-all
3 whoami
"""


def stored_secrets(home: Home) -> set[str]:
    contexts = yaml.safe_load(home.config.read_text()).get("contexts") or {}
    held = [context.get("credentials") or {} for context in contexts.values()]
    return {str(one[name]) for one in held for name in ("access_token", "refresh_token", "api_key") if one.get(name)}


def test_debug_output_of_all_areas_contains_no_secret(demo: Home) -> None:
    """Every home searches standard error and its files, such as the log; this one its output too."""
    demo.variables["FROST_PLATFORM_LOG_LEVEL"] = "debug"
    demo.sign_in()
    own = (demo.platform_dir / "secret.key").read_bytes()
    encoded = (b64encode(own).decode(), urlsafe_b64encode(own).decode().rstrip("="), own.hex(), repr(own)[2:-1])
    demo.seen |= {*encoded}
    demo.frost("-q", "account", "api-key", "create", "--name", "made", "--scopes", "compute:read")
    for line in SESSION.strip().splitlines():
        words = line.replace("SOCKET", str(demo.socket)).replace("KEY", demo.world_key("tenant-reader")).split()
        code = int(words.pop(0)) if words[0].isdigit() else 0
        result = demo.frost("--debug", *words)
        assert result.code == code, (words, result)
        assert len([*secrets_in(result.out.encode())]) == ("rotate" in words), words
        assert [secret for secret in demo.seen | stored_secrets(demo) if secret in result.out] == [], words
    assert (demo.platform_dir / "platform.log").read_text().count('"route"') > 20
    assert len(demo.seen) >= 7


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
