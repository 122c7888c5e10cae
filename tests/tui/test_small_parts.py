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


def test_three_messages_at_most_and_the_same_words_once() -> None:
    notices = Notices()
    words = lambda shown: [one.words for one in shown or ()]  # noqa: E731
    assert notices.add(Notice("a", "information", 5), 0) is None
    assert notices.add(Notice("b", "information", 5), 0) is None
    assert notices.add(Notice("c", "information", 6), 1) is None
    assert words(notices.add(Notice("d", "error", 9), 1)) == ["b", "c", "d"]
    # Told again, it stands once, as the newest.
    assert words(notices.add(Notice("b", "warning", 9), 2)) == ["c", "d", "b"]
    # Those that have gone by themselves make room.
    assert words(notices.add(Notice("b", "warning", 12), 7)) == ["d", "b"]
    assert notices.add(Notice("e", "information", 20), 13) is None


def test_the_time_of_a_message_depends_on_its_length() -> None:
    assert seconds("Stored", "information") < seconds("deployments was attached to contractors " * 2, "warning")
    assert 3 <= seconds("", "information") <= seconds("word " * 200, "information") == seconds("no", "error") <= 8


@pytest.mark.parametrize(
    ("room", "shown"),
    [
        (60, "n new|e rename|/ filter|? help|q quit"),
        (41, "n new|e rename|/ filter|? help|q quit"),
        (40, "n new|e rename|…|? help|q quit"),
        (20, "…|? help|q quit"),
        (5, "…|? help|q quit"),
    ],
)
def test_the_footer_always_keeps_the_ways_to_help_and_out(room: int, shown: str) -> None:
    keys = [
        Key("n", "n", "new"),
        Key("h", "?", "help", always=True),
        Key("e", "e", "rename"),
        Key("f", "/", "filter"),
        Key("q", "q", "quit", always=True),
    ]
    assert "|".join(f"{key.key} {key.label}" if key else "…" for key in fitting(keys, room)) == shown


def test_the_history_of_views() -> None:
    history = History()
    history.visit(View("tenants"))
    history.visit(View("contexts"))
    assert history.back(View("contexts", "lo")) == View("tenants")
    assert history.forth(View("tenants", "web")) == View("contexts", "lo")
    assert history.back(View("contexts", "lo")) == View("tenants", "web")
    history.visit(View("contexts"))
    assert history.later is None
    assert history.earlier == View("tenants", "web")
    history = History()
    history.visit(View("tenants"))
    assert history.back(View("tenants")) is None
    assert history.forth(View("tenants")) is None


@pytest.mark.parametrize(
    ("words", "launch"),
    [
        ([], Launch()),
        (["--read-only"], Launch(read_only=True)),
        (["--tenant", "T", "--no-color"], Launch(tenant="T", no_color=True)),
        (["--config=/a/b", "-d"], Launch(config="/a/b", debug=True)),
        (["tenant", "list"], None),
        (["--help"], None),
        (["-h"], None),
        (["--version"], None),
        (["-o", "json"], None),
        (["--unknown"], None),
        (["--tenant"], None),
        (["--read-only", "whoami"], None),
    ],
)
def test_only_a_line_without_a_command_word_opens_the_screens(words: list[str], launch: Launch | None) -> None:
    assert parse(words) == launch


def test_the_theme_follows_no_color_then_memory_then_the_terminal() -> None:
    assert themes.choose({"NO_COLOR": "1"}, "frost-light") == themes.PLAIN
    assert themes.choose({"NO_COLOR": ""}, "frost-light") == "frost-light"
    assert themes.choose({}, "", no_color=True) == themes.PLAIN
    assert themes.choose({}, "somebody-elses") == "frost-dark"
    assert themes.choose({"COLORFGBG": "0;15"}, "") == "frost-light"
    assert themes.other("frost-dark") == "frost-light"
    assert themes.other(themes.PLAIN) == themes.PLAIN


def test_a_socket_below_the_home_is_shown_as_a_shell_writes_it() -> None:
    from tui.state.contexts import homely

    assert homely("unix:/home/ann/.cli/platform/api.sock", {"HOME": "/home/ann"}) == "unix:~/.cli/platform/api.sock"
    assert homely("unix:/home/anna/api.sock", {"HOME": "/home/ann"}) == "unix:/home/anna/api.sock"
    assert homely("https://x.example/home/ann/", {"HOME": "/home/ann"}) == "https://x.example/home/ann/"
    assert homely("unix:/x", {}) == "unix:/x"


async def test_only_results_of_cancelled_futures_are_ignored() -> None:
    loop = asyncio.get_running_loop()
    told: list[object] = []
    left = loop.create_future()
    left.cancel()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(loop), "default_exception_handler", lambda _, context: told.append(context["exception"]))
        loop.set_exception_handler(unless_cancelled)
        loop.call_soon(left.set_result, None)
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0.01)
    assert [type(error) for error in told] == [ZeroDivisionError]


@pytest.mark.parametrize("home", ["", "relative"])
def test_state_and_drafts_need_a_home_as_commands_do(home: str) -> None:
    with pytest.raises(FrostError, match="HOME"):
        preferences.path_of({"HOME": home})
    with pytest.raises(FrostError, match="HOME"):
        drafts.path_of({"HOME": home}, "unix:/x", "tenant", "policy", "ada@example.org")
