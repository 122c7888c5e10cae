"""The action table: named once, with somebody who does it, with an equal command a shell reads back."""

import shlex

import pytest

from tui import actions, places
from tui.screens.contexts import Contexts
from tui.screens.frame import FrameScreen
from tui.screens.place import Place
from tui.screens.tenants import Tenants

DOERS = {"app": FrameScreen, "list": Place, "tenants": Tenants, "contexts": Contexts}
TENANT = {
    "id": "01a0c0de-0000-7000-8000-000000000001",
    "displayName": "Web Shop's $(reboot)",
    "role": "owner",
    "organizationId": "org-1",
    "organizationName": "Aurora Labs",
}
CONTEXT = {"name": "local two", "api_endpoint": "unix:/tmp/api.sock", "credential": "session"}


def test_every_action_has_a_name_of_its_own() -> None:
    assert len(actions.BY_ID) == len(actions.ACTIONS)


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_every_action_has_somebody_who_does_it(action: actions.Action) -> None:
    assert callable(getattr(DOERS[action.scope], action.method))


def test_every_place_has_a_door_and_a_primary_action() -> None:
    for place in (Tenants, Contexts):
        assert place.NAME in places.NAMES
        assert actions.BY_ID[place.PRIMARY].scope == place.NAME


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_an_equal_command_is_read_back_by_a_shell_as_it_was_meant(action: actions.Action) -> None:
    record = CONTEXT if action.scope == "contexts" else TENANT
    situation = actions.Situation(record=record, tenant_before="01a0c0de-0000-7000-8000-000000000002")
    command = action.command(situation)
    if command:
        words = shlex.split(command)
        assert words[0] == "frost"
        assert len(words) > 1
    if action.id == "tenants.rename":
        assert shlex.split(command)[-1] == TENANT["displayName"]


def test_what_changes_platform_or_config_is_refused_in_a_read_only_context_and_says_why() -> None:
    situation = actions.Situation(record=TENANT, read_only="the context prod is read-only", creatable=("org-1",))
    writing = [action for action in actions.ACTIONS if action.writes]
    assert {action.id for action in writing} == {
        *("tenants.create", "tenants.rename"),
        *("contexts.use", "contexts.edit", "contexts.sign_in", "contexts.sign_out"),
    }
    for action in writing:
        assert action.reason(situation) == "the context prod is read-only"


def test_a_plain_member_is_told_who_may_rename_before_anything_is_sent() -> None:
    reason = actions.BY_ID["tenants.rename"].reason(actions.Situation(record={**TENANT, "role": "member"}))
    assert "owner or admin" in reason
    assert "Aurora Labs" in reason


def test_without_a_record_nothing_that_needs_one_can_be_done() -> None:
    empty = actions.Situation()
    for action_id in ("tenants.use", "tenants.rename", "contexts.use", "contexts.edit", "contexts.sign_out"):
        assert actions.BY_ID[action_id].reason(empty)
