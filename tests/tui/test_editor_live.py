"""The policy editor evaluates a draft at each key, on the real platform."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from client.transport.async_client import AsyncClient
from client.transport.call import Call
from tests.homes import Home
from tests.people import DATA_LAKE, WEB_SHOP
from tests.tui.editing import Edit, document, rule
from tests.tui.screens import SMALL
from tui.shell import command_line

READ = "compute:instances:read"
DEV = ', "constraints": {"equals": {"frn:resourceTag/env": "dev"}}'


async def test_the_nearest_rule_is_named_if_none_matches(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ, name="dev only", more=DEV)))
    await it.expect("× DENIED", "? unknown", "frn:resourceTag/env")
    await it.ask(resourceTags="env=prod")
    await it.expect("no rule matches; nearest is rule 1 dev only", "× false")
    await it.ask(resourceTags="env=dev")
    await it.expect("✓ ALLOWED")
    await it.ask(resourceTags="")
    deny = rule(READ, access="deny", name="not in prod", more=DEV.replace("dev", "prod"))
    await it.write(document(rule(READ), deny))
    await it.expect("× DENIED", "denied by rule 2 not in prod, because", "is unknown")
    await it.ask(resourceTags="none")
    await it.expect("✓ ALLOWED", "∅ none")
    await it.ask(resourceTags="env=prod")
    await it.expect("× DENIED", "= env=prod")
    await it.until(lambda: it.marked.get(4) == "deny", "the mark of the deny")


async def test_an_invalid_field_is_named_in_place(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ), rule("storage:buckets:read")))
    await it.press("f3")
    await it.ask(sourceIp="999.1.1.1")
    await it.expect("Address: not an IPv4 or IPv6 address", "for an earlier request")
    await it.answered()
    await it.ask(sourceIp="203.0.113.7")
    await it.expect("✓ ALLOWED")
    await it.gone("for an earlier request")
    await it.ask(target="frn:storage:*:*:buckets/b")
    await it.expect("! Target: the service must be compute")
    await it.ask(operation="storage:buckets:read")
    await it.until(lambda: not it.editor.form.problems, "the field to be good")
    await it.expect("✓ ALLOWED")
    await it.ask(operation="compute:instances:rad", target="*")
    await it.expect("unknown operation")


async def test_an_invalid_text_keeps_the_last_verdict_marked_as_old(edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ, name="reads")))
    await it.write(document(rule("compute:instnces:read", name="reads")))
    await it.expect("✓ ALLOWED  for the last valid text", "! line 4", "did you mean", "Author check: outdated")
    await it.gone("within your permissions", "Author ✓", "gives ")
    await it.press("ctrl+s", toast="Save: the policy has errors: f8 to show the first")
    await it.until(lambda: it.marked == {3: "problem"}, "the marks")
    it.editor.pane.show_line(0)
    await it.press("f8")
    assert it.editor.pane.cursor_location[0] == 3
    await it.ask(operation="compute:instances:delete")
    await it.expect("✓ ALLOWED  for an earlier text and request", "For an earlier text and request:")
    await it.ask(operation=READ)
    await it.expect("✓ ALLOWED  for the last valid text")
    await it.ask(operation="compute:instances:delete")
    await it.write(document(rule(READ)), shows=("× DENIED", "Problems 0"), gone="earlier")
    await it.until(lambda: "problem" not in it.marked.values(), "no mark")
    await it.ask(operation="compute:instances:rad")
    await it.expect("unknown operation")
    await it.write(document(rule("compute:instnces:read")), shows="Problems 1")
    await it.until(lambda: it.marked == {3: "problem"}, "the marks")
    await it.press("f6", "f6", "f6", shows=("Problems 1", "line 4, column"))
    await it.write(document(rule(READ, name="reads again")), shows="Problems 0")
    await it.until(lambda: "problem" not in it.marked.values(), "no mark")
    await it.ask(operation=READ)
    await it.expect("allowed by rule 1 reads again")
    await it.gone("last valid")
    await it.until(lambda: it.marked == {3: "allow"}, "the mark of the deciding rule")
    await it.write(document(rule("compute:instnces:read"), rule("storage:buckts:read")), shows="! line 4")
    it.editor.go("rules")
    it.editor.pane.show_line(0)
    await it.press("f8", shows="! line 4")
    await it.press("f8", shows="! line 5", gone="! line 4")
    await it.press("f9", toast="Remove excess permissions: line 4 has an error")


class SlowClient:
    """Sends calls through the real client, and delays the first response of one analysis until `released` is set."""

    def __init__(self, client: AsyncClient, analysis: str) -> None:
        self._client = client
        self._route = f"/iam/{analysis}"
        self.released = asyncio.Event()
        self.delays = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def ask(self, call: Call[Any]) -> Any:
        result = await self._client.ask(call)
        if call.request.path.endswith(self._route) and not self.delays:
            self.delays = True
            # A response that is already received cannot be cancelled.
            release = asyncio.ensure_future(self.released.wait())
            while not release.done():
                try:
                    await asyncio.shield(release)
                except asyncio.CancelledError:
                    continue
        return result


async def test_a_late_response_does_not_replace_a_newer_one(monkeypatch: pytest.MonkeyPatch, edit: Edit) -> None:
    def results() -> list[int]:
        evaluation = it.editor.evaluation
        return [id(result) for result in (evaluation.verdict, evaluation.coverage, evaluation.check)]

    it = await edit(policy=None, text=document(rule(READ, name="first")))
    workspace = it.ui.app.workspace
    client = await workspace.client()
    for kind in ("simulate", "coverage", "check"):
        slow = SlowClient(client, kind)
        monkeypatch.setattr(workspace, "_client", slow)
        await it.write(document(rule("storage:*", name=f"late {kind}")))
        await it.until(lambda slow=slow: slow.delays, "the delayed response")
        await it.write(document(rule(READ, name=f"after {kind}")), shows=f"allowed by rule 1 after {kind}")
        await it.answered()
        newer = results()
        slow.released.set()
        for _ in range(5):
            await it.ui.pilot.pause(0.05)
        assert results() == newer
        await it.expect(f"allowed by rule 1 after {kind}")
        assert it.editor.evaluation.any_target.effective == 1


@pytest.mark.slow
async def test_saving_starts_a_stopped_platform(demo: Home, edit: Edit) -> None:
    it = await edit(policy=None, text=document(rule(READ)))
    assert (await asyncio.to_thread(demo.frost, "platform", "stop")).code == 0
    await it.write(document(rule(READ, name="typed meanwhile")))
    await it.expect("the platform was stopped; your text is kept", "○ stopped")
    await it.gone("r start")
    await it.press("ctrl+s", shows="Save a new policy")
    await it.ui.enter("started", shows=("version 1", "saved", "allowed by rule 1 typed meanwhile"))


@pytest.mark.slow
async def test_a_draft_follows_another_sign_in_and_names_its_tenant(demo: Home, edit: Edit) -> None:
    it = await edit()
    await it.expect("owner@aurora.example")
    await it.gone("in Web Shop")
    workspace = it.ui.app.workspace
    await workspace.use_tenant(DATA_LAKE)
    await it.write(it.text + " ", shows="version 3  in Web Shop")
    await workspace.use_tenant(WEB_SHOP)
    before = it.editor.evaluation.check
    result = await asyncio.to_thread(demo.frost, "login", "--as", "member@aurora.example")
    assert result.code == 0, result
    await it.expect("member@aurora.example · session")
    await it.until(lambda: it.editor.evaluation.check is not before, "another author check")


@SMALL
async def test_at_80_by_24_f6_reaches_every_view(edit: Edit) -> None:
    it = await edit()
    await it.expect("✓ ALLOWED", '"roll-out"')
    await it.press("f6", shows=("Request tags", "✓ ALLOWED"), gone='"schemaVersion"')
    await it.press("f6", shows=("decides", "true    operation"))
    await it.press("f6", shows="━")
    await it.press("f6", shows="grants nothing beyond your", gone="can be saved")
    await it.press("f6", shows="No problems")
    await it.press("f6", shows='"schemaVersion"')
    it.editor.evaluation = replace(it.editor.evaluation, verdict=None)
    it.editor.form.is_edited = True
    await it.ask(operation="")
    await it.answered()
    await it.expect("Request ○ NOT EVALUATED  Author ✓ within your permissions")
    await it.write("{", shows="! line 1, column 2", gone="within your permissions")
    await it.write('{"schemaVersion"')
    await it.ui.pilot.resize_terminal(50, 12)
    await it.expect("frost needs 60 × 16")
    await it.ui.pilot.resize_terminal(120, 36)
    await it.expect('"schemaVersion"', "Request tags")


async def test_long_and_hostile_texts_are_shown_in_full(edit: Edit) -> None:
    until = ', "constraints": {"before": {"frn:currentTime": "2020-12-31T00:00:00Z"}}'
    text = document(rule(READ, name="only up to the end of the year and no longer than that", more=until))
    it = await edit(policy=None, text=text)
    await it.expect("within your permissions", "allows 0 of 528 operations, 1 under conditions")
    lines = [line.partition("│")[2].strip() for line in it.ui.text.splitlines()]
    assert "2020-12-31T00:00:00Z is not satisfied" in " ".join(lines).replace("  ", " ")
    at = next(at for at, line in enumerate(lines) if "false   before" in line)
    assert "2020-12-31T00:00:00Z" in lines[at] + lines[at + 1]

    await it.evaluate(document(rule(READ, name="[red]x[/] [@click=app.quit]y[/] [/z]")))
    await it.expect("allowed by rule 1 [red]x[/] [@click=app.quit]y[/]", "decides  [red]x[/] [@click")
    await it.evaluate('{"rules": "\x1b]0;owned\x07"}', shows="␛")
    assert "\x1b" not in it.ui.text

    await it.evaluate(document(rule("compute:foo")))
    await it.expect("! line 4, column 52: compute:foo is not a valid")
    problem = "expected service:resource:action, or fewer parts with a final * "
    side = " ".join(line.partition("│")[2].strip() for line in it.ui.text.splitlines())
    assert problem in side.replace("  ", " "), side
    target = "frn:compute:se-sto-1:4793d4e5-9e63-4c0f-8d3b-0f1e2d3c4b5a:instances/*"
    await it.ask(target=target)
    await it.ui.pilot.resize_terminal(200, 50)
    await it.expect(f"Target          {target}")
    assert it.editor.query_one("#side").outer_size.width == 90
    await it.ui.pilot.resize_terminal(120, 36)
    await it.until(lambda: it.editor.query_one("#side").outer_size.width == 54, "the narrow pane")


async def test_unexpected_errors_of_the_editor_and_the_palette_are_shown(
    monkeypatch: pytest.MonkeyPatch, edit: Edit
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("broken part")

    it = await edit(policy=None, text=document(rule(READ)))
    monkeypatch.setattr(it.editor.autosave, "update", broken)
    await it.write(document(rule(READ, name="mine")))
    await it.ui.expect_toast("Unexpected error: RuntimeError: broken part")
    it.editor.close()
    monkeypatch.setattr(command_line, "run", broken)
    await it.ui.until(lambda: it.ui.app.screen is it.ui.app.frame, "the main screen")
    await it.press("ctrl+p", shows="Palette")
    await it.ui.enter("new group", toast="Unexpected error: RuntimeError: broken part")
