"""The pure parts: connection, history, flags, themes, preferences, messages, logs and decisions about records."""

import asyncio
import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.message import Message
from textual.theme import Theme

from client.config import file as config_file
from client.connection import resolve
from client.errors import FrostError
from client.models.iam import AccessOperation, Grant, ListedVersion
from client.models.tenants import Tenant
from client.operations import unless_cancelled
from client.tables.quotas import ORGANIZATION_QUOTA as TABLE
from client.transport.exchange import RequestLogEntry
from tests.homes import Home
from tests.terminal import screens
from tui.iam.changes import stale_text
from tui.iam.commands import first_policy
from tui.iam.policies import compared_versions
from tui.launch import Launch, parse
from tui.shell.action import ActionContext
from tui.shell.bars import Key, fitting
from tui.shell.list_screen import ListScreen
from tui.shell.navigator import History, View
from tui.shell.routes import Navigate, RunAction
from tui.state import drafts, preferences
from tui.state.context_state import BACKOFF, Link
from tui.state.contexts import again, homely
from tui.state.debug_log import DebugLog, debug_log_path
from tui.state.notices import Notice, Notices, seconds
from tui.terminal import themes
from tui.widgets.form import check_name
from tui.widgets.heading import Heading
from tui.widgets.record_table import RecordTable

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


def test_a_form_checks_names_by_the_rule_of_the_commands() -> None:
    for name, problem in (
        ("", "a name is required"),
        ("x" * 129, "at most 128 characters"),
        ("e\u0301" * 128, ""),  # 128 characters in NFC
        ("ops\u00ad", "must not contain control or formatting characters"),
    ):
        assert problem in (check_name(name) or "")
        assert bool(problem) is (check_name(name) is not None)


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


def test_a_named_file_must_exist_also_when_the_screens_read_it_again(home: Home) -> None:
    home.write_config("contexts: {local: {}}")
    named = resolve(home.environment(), path=str(home.config))
    usual = resolve(home.environment())
    home.config.unlink()
    with pytest.raises(FrostError) as refused:
        again(named)
    assert refused.value.code == "CONFIG_MISSING"
    assert again(usual).config.exists is False


ROW: dict[str, Any] = {
    **{"id": "t1", "displayName": "Web Shop", "slug": "web-shop", "status": "active", "organizationId": "o1"},
    **{"organizationName": "Aurora Labs", "role": "owner", "defaultTagCount": 0},
    **{"createdAt": "2026-11-21T10:00:00Z", "updatedAt": "2026-11-21T10:00:00Z"},
    "tightestQuota": {"resourceType": "vcpu", "title": "vCPUs", "used": None, "limit": 60, "unit": "count"},
}
REMEMBERED = preferences.RememberedTenant.of_row(ROW)


def test_saved_preferences_are_loaded_for_their_endpoint(tmp_path: Path) -> None:
    state = preferences.State("contexts", theme="frost-light", sort={"tenants": ["slug", True]}, lines=["use Web Shop"])
    memory = state.of("local", "unix:/a")
    memory.tenants = preferences.remembered([Tenant.model_validate({**ROW, "key": "fmk_secret", "runId": "r"})])
    assert [tenant.wire() for tenant in memory.tenants] == [ROW]
    memory.recent = ["t1"]
    preferences.save(tmp_path / "state.json", state, preferences.State())
    stored = {"endpoint": "unix:/a", "tenants": [ROW], "recent": ["t1"], "who": ""}
    assert json.loads((tmp_path / "state.json").read_text())["contexts"] == {"local": stored}
    assert preferences.load(tmp_path / "state.json") == state
    assert state.of("local", "https://other/api").tenants == []


def test_the_file_is_private_and_may_fail_to_be_written(tmp_path: Path) -> None:
    preferences.save(tmp_path / ".cli" / "state.json", preferences.State(), preferences.State())
    assert (tmp_path / ".cli" / "state.json").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in (tmp_path / ".cli").iterdir()} == {"state.json", ".state.json.locks"}
    (tmp_path / "file").write_text("")
    preferences.save(tmp_path / "file" / "state.json", preferences.State(), preferences.State())


def test_two_programs_keep_the_changes_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first = preferences.State("tenants", lines=["one"], sort={"tenants": ["slug", True]})
    first.of("local", "unix:/a").recent = ["t1", "t2", "t3"]
    preferences.save(path, first, preferences.State())
    programs = [preferences.load(path) for _ in range(2)]
    loaded = [program.copy() for program in programs]
    one, other = programs
    one.screen, one.lines, one.sort["keys"] = "policies", ["one", "two"], ["name", False]
    one.screen_of, other.theme = "owner@example.com", "frost-light"
    one.of("local", "unix:/a").recent[:] = ["t4", "t1", "t2", "t3"]
    other.lines = ["three", "one"]
    other.of("local", "unix:/a").recent[:] = ["t3", "t1", "t2"]
    other.of("work", "https://work/api").recent = ["t9"]
    for program, base in zip(programs, loaded, strict=True):
        preferences.save(path, program, base)
        preferences.save(path, program, base)
    state = preferences.load(path)
    assert (state.screen, state.screen_of, state.theme) == ("policies", "owner@example.com", "frost-light")
    assert state.lines == ["two", "three", "one"]
    assert state.sort == {"tenants": ["slug", True], "keys": ["name", False]}
    assert state.of("local", "unix:/a").recent == ["t3", "t4", "t1", "t2"]
    assert state.of("work", "https://work/api").recent == ["t9"]
    base = one.copy()
    one.of("local", "unix:/a").recent.clear()  # another principal signed in
    preferences.save(path, one, base)
    assert preferences.load(path).of("local", "unix:/a").recent == []


def test_a_full_list_of_recent_tenants_keeps_the_latest_of_both_programs(tmp_path: Path) -> None:
    path, stored = tmp_path / "state.json", [f"t{number}" for number in range(preferences.RECENT)]
    memory = (first := preferences.State()).of("local", "unix:/a")
    memory.recent = stored
    preferences.save(path, first, preferences.State())
    for new in ("a", "b"):
        program = first.copy()
        program.of("local", "unix:/a").recent = [new, *stored[:-1]]
        preferences.save(path, program, first)
    assert preferences.load(path).of("local", "unix:/a").recent == ["b", "a", *stored[:-2]]


def test_state_of_one_endpoint_is_not_merged_into_another(tmp_path: Path) -> None:
    path, own = tmp_path / "state.json", preferences.State()
    own.of("work", "https://new/api").recent = ["new"]
    old = preferences.State()
    old.of("work", "https://old/api").recent = ["old"]
    preferences.save(path, old, preferences.State())
    preferences.save(path, own, preferences.State())
    assert preferences.load(path).contexts["work"] == preferences.ContextMemory("https://new/api", recent=["new"])


def test_a_save_is_skipped_while_another_program_saves(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with config_file.locked(str(path)):
        preferences.save(path, preferences.State("policies"), preferences.State(), lock_seconds=0)
    assert not path.exists()


def test_a_damaged_or_foreign_file_is_a_fresh_start(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    contexts = ("[]", '{"local": 7}', '{"local": {"tenants": 7}}')
    damaged = [f'{{"version": 1, "contexts": {value}}}' for value in contexts]
    for content in (*damaged, "", "{", "[]", "null", '{"version": 0, "screen": "contexts"}', "[" * 100_000, "\x00\xff"):
        path.write_text(content)
        assert preferences.load(path) == preferences.State(), content[:80]
    path.write_text(json.dumps({"version": 1, "screen": 7, "lines": ["a", 3], "theme": "frost-dark"}))
    state = preferences.load(path)
    assert (state.screen, state.lines, state.theme) == ("", ["a"], "frost-dark")
    for quota in (7, "x", {"used": "1", "limit": "2"}, {"used": [], "limit": 1}):
        tenants = [{**ROW, "tightestQuota": quota}, ROW]
        memory = {"local": {"endpoint": "unix:/a", "tenants": tenants}}
        path.write_text(json.dumps({"version": 1, "contexts": memory}))
        assert preferences.load(path).of("local", "unix:/a").tenants == [REMEMBERED]
    path.write_text(
        json.dumps({"version": 1, "contexts": {"local": {"endpoint": "unix:/a", "tenants": [{"id": "t1"}]}}})
    )
    assert [tenant.wire() for tenant in preferences.load(path).of("local", "unix:/a").tenants] == [{"id": "t1"}]


def test_a_refresh_replaces_an_older_refresh_and_an_opened_record_nothing() -> None:
    table = RecordTable(TABLE, TABLE.columns)
    highlighted = RecordTable.Highlighted(table, None)
    refreshes: list[Message] = [highlighted, RecordTable.Arranged(table), ListScreen.Moved(), Heading.Filtered("web")]
    for one in refreshes:
        assert [other for other in refreshes if one.can_replace(other)] == [one]
    opened = RecordTable.Opened(table, None)
    for message in (opened, RunAction("list.sort"), Navigate("tenants")):
        assert not message.can_replace(message)
    assert not highlighted.can_replace(opened)


SCOPE = Grant(kind="scope", scope="compute:write")
READERS = Grant(policy_id="readers", policy_name="readers")
GUARD = Grant(policy_id="guard", policy_name="guard")


def access(result: str, by: Grant, *denied_by: Grant) -> AccessOperation:
    return AccessOperation(operation="compute:instances:read", access=result, by=(by,), denied_by=denied_by)


def test_the_deciding_policy_of_an_operation() -> None:
    assert access("allowed", SCOPE, GUARD).policy_id == "guard"
    assert access("denied", READERS, SCOPE).policy_id == "readers"
    assert access("denied", READERS, GUARD).policy_id == "guard"
    assert access("allowed", SCOPE).policy_id == ""
    record = access("denied", READERS, GUARD)
    assert first_policy(ActionContext(record=record)) == "frost iam policy get guard"


def versions(*numbers: int) -> list[ListedVersion]:
    return [
        ListedVersion(policy_id="p", version=number, document={}, changed_at=NOW, newest=number == max(numbers))
        for number in numbers
    ]


def test_versions_are_compared() -> None:
    selected = versions(3, 2, 1)[0]
    older, newer = compared_versions(versions(3, 2, 1), selected)
    assert (older.version, newer.version) == (2, 3)
    older, newer = compared_versions(versions(3, 2, 1), versions(3, 2, 1)[2])
    assert (older.version, newer.version) == (1, 3)
    assert compared_versions(versions(1), versions(1)[0])[0] is None


def outdated(**details: Any) -> FrostError:
    return FrostError("stale", code="STALE_VERSION", details={"expected": 1, "current": 3, **details})


def test_a_concurrent_change_is_described_with_its_members_author_and_time() -> None:
    group = {"id": "g", "name": "on call", "updatedAt": "2026-01-02T03:04:05Z"}
    text = "Version 3 was saved at 2026-01-02 03:04Z and changed description."
    assert stale_text(outdated(changed=["description"], resource=group)) == text
    older, newest = (
        {"version": version, "changedBy": "u", "changedByName": author, "changedAt": f"2026-01-02T03:0{version}:05Z"}
        for version, author in ((2, "Astrid"), (3, "Jonas"))
    )
    changes = {"changed": ["document", "name"], "versions": [older, newest]}
    text = "Version 3 was saved by Jonas at 2026-01-02 03:03Z and changed"
    assert stale_text(outdated(**changes)) == f"{text} document, name."
    assert stale_text(outdated(**changes), {"name": "a"}, {"name": "b", "document": {}}) == f"{text} name."
    assert stale_text(FrostError("stale", code="STALE_VERSION")) == "Version ? was saved and changed it."


def test_an_exchange_is_a_line_of_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    path = tmp_path / ".cli" / "debug.log"
    log = DebugLog(debug_log_path({"HOME": str(tmp_path)}))
    log.write(RequestLogEntry("GET", "/api/v1/me", 200, 0.012, request_id="r-1"))
    assert log.path == str(path)
    assert path.read_text().endswith(" GET /api/v1/me 200 12 ms request r-1\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_link_in_place_of_the_log_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "debug.log").symlink_to(other)
    with pytest.raises(FrostError, match="cannot write"):
        DebugLog(str(tmp_path / "debug.log"))
    assert other.read_text() == "kept"


@pytest.mark.slow
def test_the_screens_log_their_requests_and_name_the_file_at_the_end(demo: Home) -> None:
    with screens(demo, "--debug") as program:
        program.wait_for("Data Lake")
        program.press("q")
        assert program.wait_end() == 0
        path = debug_log_path(demo.environment())
        assert path.encode() in program.raw()
    lines = Path(path).read_text().splitlines()
    assert any(" GET /api/v1/me 200 " in line for line in lines)
    assert not any("Bearer" in line or "authorization" in line.lower() for line in lines)


def _contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.2, 1.4.3."""
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [themes.DARK, themes.LIGHT], ids=lambda theme: theme.name)
def test_texts_stand_out_also_on_the_selected_row(theme: Theme) -> None:
    assert _contrast("#000000", "#ffffff") == 21
    grounds = (theme.background, theme.panel, theme.variables["block-cursor-background"])
    texts = {name: colour for name, colour in theme.variables.items() if name.startswith("text-")}
    least = {name: min(_contrast(colour, str(ground)) for ground in grounds) for name, colour in texts.items()}
    assert [name for name, ratio in least.items() if ratio < (3 if name == "text-disabled" else 4.5)] == []
