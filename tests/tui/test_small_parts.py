"""The pure parts: connection state, view history, launch flags, themes."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from client.errors import FrostError
from client.operations import unless_cancelled
from tui.launch import Launch, parse
from tui.shell.bars import Key, fitting
from tui.shell.routes import History, View
from tui.state import drafts, preferences
from tui.state.context_state import BACKOFF, Link
from tui.state.contexts import homely
from tui.state.notices import Notice, Notices, seconds
from tui.terminal import themes

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


def test_a_lost_connection_backs_off() -> None:
    link = Link()
    pauses = []
    for second in range(8):
        link.failed("no answer", NOW + timedelta(seconds=second))
        pauses.append(link.pause)
    assert link.since == NOW
    assert pauses == [*BACKOFF, BACKOFF[-1], BACKOFF[-1]]
    assert link.answered(3.0)
    assert (link.state, link.since, link.tries) == ("up", None, 0)


def test_jitter_does_not_change_the_shown_latency() -> None:
    link = Link()
    link.answered(12)
    assert link.latency == "25 ms"
    for jitter in (40, 11, 30, 14, 13):
        assert not link.answered(jitter)
    for _ in range(20):
        link.answered(60_000)
    assert link.latency == "> 5 s"


def test_three_messages_at_most_and_the_same_message_once() -> None:
    notices = Notices()
    for words, severity, end, now, shown in (
        ("a", "information", 5, 0, None),
        ("b", "information", 5, 0, None),
        ("c", "information", 6, 1, None),
        ("d", "error", 9, 1, ["b", "c", "d"]),
        ("b", "warning", 9, 2, ["c", "d", "b"]),  # a repeated message is the newest
        ("b", "warning", 12, 7, ["d", "b"]),  # messages that have ended make room
        ("e", "information", 20, 13, None),
    ):
        notice = notices.add(Notice(words, severity, end), now)
        assert (notice and [one.words for one in notice]) == shown
    assert seconds("Stored", "information") < seconds("deployments was attached to contractors " * 2, "warning")
    assert 3 <= seconds("", "information") <= seconds("word " * 200, "information") == seconds("no", "error") <= 8


def test_the_footer_always_keeps_the_keys_for_help_and_quit() -> None:
    keys = [Key("n", "n", "new"), Key("h", "?", "help", always=True), Key("e", "e", "rename")]
    keys += [Key("f", "/", "filter"), Key("q", "q", "quit", always=True)]
    for cells, footer in (
        (60, "n new|e rename|/ filter|? help|q quit"),
        (41, "n new|e rename|/ filter|? help|q quit"),
        (40, "n new|e rename|…|? help|q quit"),
        (20, "…|? help|q quit"),
        (5, "…|? help|q quit"),
    ):
        assert "|".join(f"{key.key} {key.label}" if key else "…" for key in fitting(keys, cells)) == footer


def test_the_history_of_views() -> None:
    history, tenants = History(), View("tenants")
    history.visit(tenants)
    assert history.back(tenants) is history.forth(tenants) is None
    history.visit(View("contexts"))
    assert history.back(View("contexts", "lo")) == tenants
    assert history.forth(View("tenants", "web")) == View("contexts", "lo")
    assert history.back(View("contexts", "lo")) == View("tenants", "web")
    history.visit(View("contexts"))
    assert (history.later, history.earlier) == (None, View("tenants", "web"))


def test_only_a_line_without_a_command_word_opens_the_screens() -> None:
    for line, launch in (
        ("", Launch()),
        ("--read-only", Launch(read_only=True)),
        ("--tenant T --no-color", Launch(tenant="T", no_color=True)),
        ("--config=/a/b -d", Launch(config="/a/b", debug=True)),
    ):
        assert parse(line.split()) == launch
    for line in ("tenant list", "--help", "-h", "--version", "-o json", "--unknown", "--tenant", "--read-only whoami"):
        assert parse(line.split()) is None, line


def test_the_theme_follows_no_color_then_memory_then_the_terminal() -> None:
    for environ, memory, theme in (
        ({"NO_COLOR": "1"}, "frost-light", themes.PLAIN),
        ({"NO_COLOR": ""}, "frost-light", "frost-light"),
        ({}, "unknown", "frost-dark"),
        ({"COLORFGBG": "0;15"}, "", "frost-light"),
    ):
        assert themes.choose(environ, memory) == theme
    assert themes.choose({}, "", no_color=True) == themes.PLAIN
    assert (themes.other("frost-dark"), themes.other(themes.PLAIN)) == ("frost-light", themes.PLAIN)


def test_a_socket_below_the_home_is_shown_as_a_shell_writes_it() -> None:
    home = {"HOME": "/home/ann"}
    assert homely("unix:/home/ann/.cli/platform/api.sock", home) == "unix:~/.cli/platform/api.sock"
    for endpoint, environ in (
        ("unix:/home/anna/api.sock", home),
        ("https://x.example/home/ann/", home),
        ("unix:/x", {}),
    ):
        assert homely(endpoint, environ) == endpoint


async def test_only_results_of_cancelled_futures_are_ignored() -> None:
    loop = asyncio.get_running_loop()
    errors: list[object] = []
    cancelled = loop.create_future()
    cancelled.cancel()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(loop), "default_exception_handler", lambda _, context: errors.append(context["exception"]))
        loop.set_exception_handler(unless_cancelled)
        loop.call_soon(cancelled.set_result, None)
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.01)
    assert [type(error) for error in errors] == [ZeroDivisionError]


@pytest.mark.parametrize("home", ["", "relative"])
def test_state_and_drafts_need_a_home_as_commands_do(home: str) -> None:
    with pytest.raises(FrostError, match="HOME"):
        preferences.path_of({"HOME": home})
    with pytest.raises(FrostError, match="HOME"):
        drafts.path_of({"HOME": home}, "unix:/x", "tenant", "policy", "ada@example.org")
