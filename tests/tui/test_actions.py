"""The table of actions: handlers, guards and equal commands."""

import inspect
import shlex
from pkgutil import resolve_name

import pytest

from tui.iam.editor import actions as editor
from tui.shell import actions, command_line, routes
from tui.shell.list_screen import ListScreen
from tui.shell.main_screen import MainScreen

SCREENS = {name: resolve_name(route.path) for name, route in routes.BY_NAME.items()}
TARGETS = {"app": MainScreen, "list": ListScreen, **SCREENS}
TENANT = {
    "id": "01a0c0de-0000-7000-8000-000000000001",
    "displayName": "Web Shop's $(reboot)",
    "role": "owner",
    "organizationId": "org-1",
    "organizationName": "Aurora Labs",
}
KEY = {"id": "k-1", "name": "ci; reboot", "status": "active", "tenantId": "t-1", "tenantName": "Web Shop"}
QUOTA = {"resourceType": "vcpu", "title": "vCPUs", "used": 4, "limit": 20, "unit": "count", "requestable": 40}
TYPE = {"resourceType": "instance", "updated": 3, "state": "done"}
ENTRY = {"id": "7", "operation": "policy.attach", "targetKind": "policy", "targetId": "p-1", "target": "policy:p-1"}
RECORDS = {
    "activity": ENTRY,
    "activity-of": ENTRY,
    "organization-activity": ENTRY,
    "tenants": TENANT,
    "policies": {"id": "p-1", "name": "roll out; rm -rf /", "description": "it's\nnew", "version": 3},
    "attachments": {"policyId": "p-1", "attacheeType": "group", "attacheeId": "g-1"},
    "versions": {"policyId": "p-1", "version": 2},
    "groups": {"id": "g-1", "name": "on call", "description": "", "policyCount": 1},
    "members": {"groupId": "g-1", "memberType": "api_key", "memberId": "k-1"},
    "access": {
        "operation": "compute:instances:read",
        "access": "allowed",
        "by": [{"kind": "policy", "policyId": "p-1"}],
    },
    "catalogue": {"name": "compute:instances:read"},
    "who": {"type": "user", "id": "u-1", "name": "Astrid"},
    "contexts": {"name": "local two", "api_endpoint": "unix:/tmp/api.sock", "credential": "session"},
    "api-keys": KEY,
    "sessions": {"id": "s-1", "device": "vm", "current": True},
    "account": {"id": "o-1", "name": "Aurora Labs", "role": "owner"},
    "quotas": QUOTA,
    "organization-quotas": QUOTA,
    "requests": {
        "id": "r-1",
        "resourceType": "ram",
        "limit": 2048,
        "reason": "it's $(reboot)",
        "scope": "organization",
    },
    "default-tags": {"key": "env", "value": "it's; reboot", "mark": "", "was": None, "problem": ""},
    "tag-versions": {"version": 2, "tags": {"env": "dev"}, "current": False},
    "apply-preview": TYPE,
    "apply": TYPE,
    "apply-runs": {"runId": "0192-run", "kind": "apply", "status": "completed", "undoable": True},
    "untouched": {
        "key": "failed 0",
        "what": "failed",
        "resourceType": "instance",
        "resourceId": "i-1",
        "reason": "odd",
    },
}


def test_every_action_has_a_name_of_its_own() -> None:
    assert len(actions.BY_ID) == len(actions.ACTIONS)


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_the_handler_of_an_action_is_the_method_of_its_screen(action: actions.Action) -> None:
    handler = resolve_name(action.handler)
    assert handler is getattr(TARGETS[action.scope], handler.__name__)
    accepts_argument = len(inspect.signature(handler).parameters) > 1
    assert accepts_argument or not (action.accepts_record_argument or action.id in command_line.TAKES)


@pytest.mark.parametrize("action", editor.ACTIONS, ids=lambda action: action.id)
def test_the_handler_of_an_editor_action_takes_the_editor(action: actions.Action) -> None:
    assert list(inspect.signature(resolve_name(action.handler)).parameters) == ["editor"]


def test_every_screen_has_a_route_and_a_primary_action() -> None:
    assert SCREENS.keys() == RECORDS.keys()
    for name, screen in SCREENS.items():
        assert screen.NAME == actions.BY_ID[screen.PRIMARY].scope == name


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_an_equal_command_is_quoted_for_a_shell(action: actions.Action) -> None:
    record = RECORDS.get(action.scope, TENANT)
    context = actions.ActionContext(record=record, subject="s-1", tenant_before="01a0c0de-0000-7000-8000-000000000002")
    command = action.command(context)
    if command:
        words = shlex.split(command)
        assert words[0] == "frost"
        assert len(words) > 1
    if action.id == "tenants.rename":
        assert shlex.split(command)[-1] == TENANT["displayName"]


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
        context = actions.ActionContext(record=record, read_only="the context prod is read-only", creatable=("org-1",))
        assert action.disabled_reason(context) == "the context prod is read-only"


def test_groups_and_policies_need_a_user_not_an_api_key() -> None:
    for action in actions.of_scope("policies", "attachments", "versions", "groups", "members", "access", "who"):
        context = actions.ActionContext(record=RECORDS[action.scope], tenant="t-1", keyed=True)
        assert "a signed-in user" in action.disabled_reason(context), action.id


def test_keys_and_sessions_need_a_user_not_an_api_key() -> None:
    for action in actions.of_scope("api-keys", "sessions", "account"):
        context = actions.ActionContext(record=RECORDS[action.scope], tenant="t-1", keyed=True, identity_known=True)
        wanted = "" if action.id == "account.tenants" else "a signed-in user"
        assert wanted in action.disabled_reason(context), action.id


def test_actions_on_foreign_and_expired_keys_are_refused() -> None:
    elsewhere = actions.ActionContext(record=KEY, tenant="t-2")
    reason = actions.BY_ID["api-keys.access"].disabled_reason(elsewhere)
    assert reason == "this key belongs to Web Shop: use that tenant first"
    assert actions.BY_ID["api-keys.revoke"].disabled_reason(elsewhere) == ""
    over = actions.ActionContext(record={**KEY, "status": "expired"}, tenant="t-1")
    assert "this one is expired" in actions.BY_ID["api-keys.rotate"].disabled_reason(over)


def test_a_member_may_not_rename_a_tenant() -> None:
    reason = actions.BY_ID["tenants.rename"].disabled_reason(actions.ActionContext(record={**TENANT, "role": "member"}))
    assert "owner or admin" in reason
    assert "Aurora Labs" in reason


NAMED = [action for action in actions.ACTIONS if action.accepts_record_argument]


@pytest.mark.parametrize("action", NAMED, ids=lambda action: action.id)
def test_an_action_by_name_is_enabled_for_a_user_with_a_tenant(action: actions.Action) -> None:
    context = actions.ActionContext(tenant="t-1", role="owner", identity_known=True, record_by_name=True)
    assert action.disabled_reason(context) == ""


def test_an_action_by_name_runs_the_guards_without_a_record() -> None:
    with_key = actions.ActionContext(tenant="t-1", keyed=True, record_by_name=True)
    for action_id in ("policies.edit", "groups.open", "catalogue.who", "api-keys.create", "activity.show"):
        assert "a signed-in user" in actions.BY_ID[action_id].disabled_reason(with_key), action_id
    without_tenant = actions.ActionContext(identity_known=True, record_by_name=True)
    for action_id in ("policies.edit", "quotas.request", "api-keys.create"):
        assert "tenant" in actions.BY_ID[action_id].disabled_reason(without_tenant), action_id
    read_only = actions.ActionContext(tenant="t-1", read_only="the context prod is read-only", record_by_name=True)
    for action in NAMED:
        assert bool(action.disabled_reason(read_only)) == action.writes, action.id


def test_actions_on_a_record_need_one() -> None:
    empty = actions.ActionContext()
    for action_id in (
        *("tenants.use", "tenants.rename", "contexts.use", "contexts.edit", "contexts.sign_out"),
        *("policies.edit", "policies.delete", "groups.open", "groups.delete", "members.remove", "catalogue.who"),
    ):
        assert actions.BY_ID[action_id].disabled_reason(empty)


def test_requests_for_limits_need_role_scope_and_type() -> None:
    def reason(action: str, record: dict[str, object] = QUOTA, **members: object) -> str:
        return actions.BY_ID[action].disabled_reason(actions.ActionContext(record=record, tenant="t-1", **members))

    image = {"resourceType": "image", "limit": 5}
    for action in ("quotas.request", "quotas.request_organization", "organization-quotas.request", "requests.again"):
        assert reason(action, role="owner") == reason(action, role="admin") == ""
        assert reason(action) == ""  # the role is not known yet: the platform has the last word
        assert "only an owner or admin" in reason(action, role="member")
        assert reason(action, image, role="owner") == "its limit cannot be requested; contact support"
    assert reason("quotas.request", keyed=True, scopes=("quotas:write",)) == ""
    assert reason("quotas.request", keyed=True, scopes=("quotas:*", "compute:read")) == ""
    assert "lacks the scope quotas:write" in reason("quotas.request", keyed=True, scopes=("compute:write", "compute:*"))
    for action in ("quotas.request_organization", "organization-quotas.request", "quotas.organization"):
        assert "a signed-in user" in reason(action, keyed=True, scopes=("quotas:write",))
