"""The table of actions: handlers, guards, equal commands, and default and configured keys."""

import inspect
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

import pytest
from textual.binding import Binding

from client.models.quotas import Quota
from tests.tui.action_records import ENTRY, KEY, QUOTA, RECORDS, TENANT
from tui.iam.editor import actions as editor
from tui.shell import actions, command_line, keymap, routes
from tui.shell.action import Action, ActionContext
from tui.shell.list_screen import ListScreen
from tui.shell.main_screen import MainScreen
from tui.widgets.record_table import RecordTable

SCREENS = {name: resolve_name(route.path) for name, route in routes.BY_NAME.items()}
TARGETS = {"app": MainScreen, "list": ListScreen, **SCREENS}
READ_ONLY = "the context prod is read-only"


def reason(action_id: str, **context: Any) -> str:
    """The reason why an action is disabled in a context; empty if it is not."""
    return actions.BY_ID[action_id].disabled_reason(ActionContext(**context))


def test_a_guard_does_not_check_the_record_of_another_screen() -> None:
    assert reason("activity.target", screen="tenants", record=TENANT, tenant="t-1", role="owner") == ""
    assert reason("activity.target", screen="activity", record=ENTRY, tenant="t-1", role="owner") == ""
    other = ENTRY.model_copy(update={"target_kind": "moon"})
    assert "no screen for moon" in reason(
        "activity.target", screen="activity", record=other, tenant="t-1", role="owner"
    )


def each_action(of: Iterable[Action] = actions.ACTIONS) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("action", of, ids=lambda action: action.id)


def test_every_screen_has_a_route_and_a_primary_action_and_every_action_a_name() -> None:
    assert len(actions.BY_ID) == len(actions.ACTIONS)
    assert SCREENS.keys() == RECORDS.keys()
    for name, screen in SCREENS.items():
        assert screen.NAME == actions.BY_ID[screen.PRIMARY].scope == name


@each_action()
def test_the_handler_of_an_action_is_the_method_of_its_screen_and_its_command_is_quoted(action: Action) -> None:
    handler = resolve_name(action.handler)
    assert handler is getattr(TARGETS[action.scope], handler.__name__)
    accepts_argument = len(inspect.signature(handler).parameters) > 1
    assert accepts_argument or not (action.accepts_record_argument or action.id in command_line.TAKES)
    record, before = RECORDS.get(action.scope, TENANT), "01a0c0de-0000-7000-8000-000000000002"
    words = shlex.split(action.command(ActionContext(record=record, subject="s-1", tenant_before=before)))
    if words:
        assert words[0] == "frost"
        assert len(words) > 1
    if action.id == "tenants.rename":
        assert words[-1] == TENANT.display_name
    if action.id == "account.tenants":
        assert words[1:] == ["tenant", "list", "--organization", "o-1"]


def test_the_command_that_creates_a_tenant_names_an_organization_that_accepts_it() -> None:
    elsewhere = replace(TENANT, organization_id="o-2")
    create = actions.BY_ID["tenants.create"]
    for record, organization in ((elsewhere, "o-2"), (TENANT, TENANT.organization_id), (None, "o-2")):
        creatable = ("o-2", TENANT.organization_id) if record is not None else ("o-2",)
        words = shlex.split(create.command(ActionContext(record=record, creatable=creatable)))
        assert words[1:] == ["tenant", "create", "--name", "NAME", "--organization", organization]
    not_creatable = replace(TENANT, organization_id="o-9")
    assert create.command(ActionContext(record=not_creatable, creatable=("o-2",))).endswith(" --organization o-2")


def test_commands_have_the_file_and_the_tenant_of_the_screens() -> None:
    flags = {"config_flag": "my file", "tenant_flag": "t-1"}
    for action_id, line in (
        ("tenants.create", "frost tenant create --config 'my file' --name NAME --organization o-1"),
        ("sessions.end_all", "frost account session revoke-all --config 'my file'"),
        ("groups.create", "frost iam group create --config 'my file' --tenant t-1 --name NAME"),
    ):
        action = actions.BY_ID[action_id]
        record = RECORDS.get(action.scope)
        context = ActionContext(record=record, creatable=("o-1",), **flags)
        assert action.commands(context, [record]) == line
        plain = context._replace(config_flag=None, tenant_flag=None)
        assert action.command_line(plain) == action.command(plain)


@each_action(editor.ACTIONS)
def test_the_handler_of_an_editor_action_takes_the_editor(action: Action) -> None:
    assert list(inspect.signature(resolve_name(action.handler)).parameters) == ["editor"]


def test_writing_actions_are_refused_in_a_read_only_context() -> None:
    writing = [action for action in actions.ACTIONS if action.writes]
    assert {action.id for action in writing} == {
        *("tenants.create", "tenants.rename"),
        *("policies.create", "policies.attach", "policies.rename", "policies.delete"),
        *("attachments.attach", "attachments.detach", "versions.roll_back"),
        *("groups.create", "groups.edit", "groups.add", "groups.attach", "groups.detach", "groups.delete"),
        *("members.add", "members.remove"),
        *("contexts.use", "contexts.create", "contexts.edit", "contexts.delete"),
        *("contexts.sign_in", "contexts.sign_out"),
        *("api-keys.create", "api-keys.edit", "api-keys.rotate", "api-keys.revoke", "api-keys.delete"),
        *("sessions.end_all", "account.delete"),
        *("quotas.request", "quotas.request_organization", "organization-quotas.request", "requests.again"),
        *("default-tags.save", "default-tags.apply", "tag-versions.put_back"),
        *("apply-preview.apply", "apply.again", "apply.afterwards", "apply-runs.undo"),
    }
    for action in writing:
        record = RECORDS[action.scope]
        assert reason(action.id, record=record, read_only=READ_ONLY, creatable=("org-1",)) == READ_ONLY


def test_groups_policies_keys_and_sessions_need_a_user_not_an_api_key() -> None:
    iam = ("policies", "attachments", "versions", "groups", "members", "access", "who")
    for scopes, identity_known in ((iam, False), (("api-keys", "sessions", "account"), True)):
        for action in actions.of_scope(*scopes):
            needed = "" if action.id == "account.tenants" else "a signed-in user"
            context = {"record": RECORDS[action.scope], "tenant": "t-1", "identity_known": identity_known}
            assert needed in reason(action.id, keyed=True, **context), action.id


def test_actions_need_a_record_that_allows_them() -> None:
    elsewhere = {"record": KEY, "tenant": "t-2"}
    assert reason("api-keys.access", **elsewhere) == "this key belongs to Web Shop: use that tenant first"
    assert reason("api-keys.revoke", **elsewhere) == ""
    expired = KEY.model_copy(update={"status": "expired"})
    assert "this one is expired" in reason("api-keys.rotate", record=expired, tenant="t-1")
    refusal = reason("tenants.rename", record=replace(TENANT, role="member"))
    assert ("owner or admin" in refusal, "Aurora Labs" in refusal) == (True, True)
    for action_id in (
        *("tenants.use", "tenants.rename", "contexts.use", "contexts.edit", "contexts.sign_out"),
        *("policies.edit", "policies.delete", "groups.open", "groups.delete", "members.remove", "catalogue.who"),
    ):
        assert reason(action_id)


NAMED = [action for action in actions.ACTIONS if action.accepts_record_argument]


def test_an_action_by_name_runs_the_guards_without_a_record() -> None:
    for action in NAMED:
        assert reason(action.id, tenant="t-1", role="owner", identity_known=True, record_by_name=True) == "", action.id
        read_only = reason(action.id, tenant="t-1", read_only=READ_ONLY, record_by_name=True)
        assert bool(read_only) == action.writes, action.id
    for action_id in ("policies.edit", "groups.open", "catalogue.who", "api-keys.create", "activity.show"):
        assert "a signed-in user" in reason(action_id, tenant="t-1", keyed=True, record_by_name=True), action_id
    for action_id in ("policies.edit", "quotas.request", "api-keys.create"):
        assert "tenant" in reason(action_id, identity_known=True, record_by_name=True), action_id


def test_requests_for_limits_need_role_scope_and_type() -> None:
    def quota_reason(action: str, record: Quota = QUOTA, **members: object) -> str:
        return reason(action, record=record, tenant="t-1", **members)

    image = Quota(resource_type="image", limit=5)
    for action in ("quotas.request", "quotas.request_organization", "organization-quotas.request", "requests.again"):
        for allowed in ({"role": "owner"}, {"role": "admin"}, {}):  # the platform decides while the role is unknown
            assert quota_reason(action, **allowed) == ""
        assert "only an owner or admin" in quota_reason(action, role="member")
        assert quota_reason(action, image, role="owner") == "its limit cannot be requested; contact support"
    for scopes in (("quotas:write",), ("quotas:*", "compute:read")):
        assert quota_reason("quotas.request", keyed=True, scopes=scopes) == ""
    lacking = quota_reason("quotas.request", keyed=True, scopes=("compute:write", "compute:*"))
    assert "lacks the scope quotas:write" in lacking
    for action in ("quotas.request_organization", "organization-quotas.request", "quotas.organization"):
        assert "a signed-in user" in quota_reason(action, keyed=True, scopes=("quotas:write",))


MOVEMENT = [binding for binding in RecordTable.BINDINGS if isinstance(binding, Binding)]


def test_default_keys_do_not_conflict() -> None:
    keys = keymap.resolve({}, MOVEMENT)
    assert keys.problems == ()
    assert keys.changed == {}
    heard: dict[tuple[str, str], str] = {}
    for screen in ("tenants", "contexts"):
        for name, pressed in keys.by_action.items():
            if name.partition(".")[0] in (screen, "list", "app", "table"):
                for key in pressed:
                    assert heard.setdefault((screen, key), name) == name, (key, name)


def test_no_writing_action_has_a_ctrl_key() -> None:
    for action in actions.ACTIONS:
        if action.writes or action.id == "contexts.sign_out":
            assert not any(key.startswith("ctrl+") for key in action.keys)


def test_a_configured_key_wins_over_a_default_and_conflicts_are_reported() -> None:
    keys = keymap.resolve({"tenants.create": "s"}, MOVEMENT)
    assert (keys.of("tenants.create"), keys.of("list.sort")) == (("s",), ())
    assert keys.changed["list.sort"] == keymap.UNBOUND
    assert keys.problems == ("keys: s now runs tenants.create instead of list.sort",)
    keys = keymap.resolve({"table.down": "ctrl+n,j"}, MOVEMENT)
    assert (keys.of("table.down"), keys.problems) == (("ctrl+n", "j"), ())
    assert keymap.resolve({"tenants.create": "question_mark"}, MOVEMENT).of("app.help") == ()
    for key, text in (("question_mark", "?"), ("ctrl+t", "^t"), ("ctrl+@", "^Space"), ("@", "@")):
        assert keymap.key_text(key) == text
    keys = keymap.resolve({"app.copy": "w", "app.refresh": "w"})
    assert (keys.of("app.copy"), keys.of("app.refresh")) == (("w",), ())
    assert any("w is assigned to app.copy and app.refresh" in problem for problem in keys.problems)
    assert keymap.resolve({"tenants.use": "w", "contexts.use": "w"}).problems == ()
    assert "did you mean tenants.rename?" in keymap.resolve({"tenants.renam": "w"}).problems[0]
    assert keymap.resolve({"app.copy": 7}).problems == ("keys: app.copy requires a key or a list of keys",)
