"""The captured screens: the keys that open each screen and the text to expect on it."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from client.api import default_tags

VIEWER = "viewer@aurora.example"

Pilot = Any


@dataclass(frozen=True)
class Scene:
    """A screen: the keys to press after the start, and the text to expect.

    A key that begins with `…` waits for the text after it.
    """

    name: str
    keys: tuple[str, ...]
    wanted: str
    theme: str = ""
    then: Callable[[Pilot], Awaitable[None]] | None = None
    person: str = ""
    """E-mail of the signed-in person; empty for the owner."""


async def device_code(pilot: Pilot) -> None:
    """Show the sign-in dialog of a remote platform. The local platform never shows a code."""
    from tui.contexts.sign_in import DeviceCode

    address = "https://id.frost.example/device"
    pilot.app.push_screen(DeviceCode("work", "BCDF-GHJK", address, f"{address}?user_code=BCDF-GHJK"))


async def editor_opened(pilot: Pilot) -> None:
    """Open the editor on the policy under the cursor."""
    await until(pilot, lambda: "deployments" in text_of(pilot.app), "the policies")
    await pilot.press("enter")
    await until(pilot, lambda: hasattr(pilot.app.screen, "pane"), "the editor")


async def text_written(pilot: Pilot, change: Callable[[str], str]) -> None:
    """Change the text in the editor and wait for the check."""
    await editor_opened(pilot)
    editor = pilot.app.screen
    await until(pilot, lambda: {"check", "verdict"} <= editor.evaluation.current and editor.catalogue, "the editor")
    editor.pane.set_text(change(editor.pane.text))
    await pilot.pause(0.1)
    await until(pilot, lambda: editor.evaluation.problems or "check" in editor.evaluation.current, "the answer")


async def denied(pilot: Pilot) -> None:
    """Add a constraint that does not hold. The trace names it."""
    narrower = '"constraints": { "equals": { "frn:resourceTag/env": "dev" } },\n      "targets": ["*"]'
    await text_written(pilot, lambda text: text.replace('"targets": ["*"]', narrower, 1))
    pilot.app.screen.form.set_values({"resourceTags": "env=prod", "sourceIp": "203.0.113.7", "requestTags": "none"})


async def deleted(pilot: Pilot) -> None:
    """Change the request to one that a rule denies."""
    await text_written(pilot, lambda text: text)
    await pilot.press(*DELETE_REQUEST)
    await until(pilot, lambda: "× DENIED" in text_of(pilot.app), "the decision")
    await pilot.press("escape")


async def unreadable(pilot: Pilot) -> None:
    """Misspell an operation. The last decision remains visible and is marked as old."""
    await text_written(pilot, lambda text: text.replace("compute:launch-templates:*", "compute:lunch-templates:*"))
    await pilot.press("f8")
    if not pilot.app.screen.narrow:
        pilot.app.screen.show_view("problems")


async def beyond(pilot: Pilot) -> None:
    """Show the operations that the policy would grant beyond those of the viewer."""
    await text_written(pilot, lambda text: text)
    pilot.app.screen.go("author")


async def completing(pilot: Pilot) -> None:
    """Type a part of an operation and show its completions."""
    await text_written(pilot, lambda text: text)
    pilot.app.screen.pane.show_line(7, 99)
    await pilot.press("enter", "quotation_mark", *"compute:sca")


async def coverage(pilot: Pilot) -> None:
    """Show the changes against the stored version by service."""
    await text_written(pilot, lambda text: text.replace('"storage:objects:*"', '"quotas:*"'))
    pilot.app.screen.go("coverage")


async def review(pilot: Pilot) -> None:
    """Show the difference before saving."""
    await text_written(pilot, lambda text: text.replace('"storage:objects:*"', '"storage:objects:read"'))
    await pilot.press("ctrl+s")


async def new_secret(pilot: Pilot) -> None:
    """Show the dialog of a new key with a placeholder for the secret."""
    from tui.account.key_create import NewSecret

    facts = [
        ("ID", "5c0d2c1e-8a55-4f0b-9a37-6d3c1f0e7a42"),
        ("Tenant", "Web Shop"),
        ("Scopes", "compute:read, storage:read"),
        ("Expires", "2027-11-21 10:05Z"),
    ]
    pilot.app.push_screen(NewSecret("New API key night watch", facts, "x" * 40, lambda secret, say: None))


async def running(pilot: Pilot) -> None:
    """Show an unfinished apply with the numbers of its preview. The progress of a real one would differ every time."""
    from client.models.default_tags import ApplyOperation
    from tui.state.jobs import Run

    workspace = pilot.app.workspace
    tenant_id = workspace.tenant_id
    result = (await workspace.ask(default_tags.preview(tenant_id))).wire()
    kinds = list(result["byType"])
    here = kinds.index("snapshot")
    by_type = {
        kind: counts if kinds.index(kind) < here else dict.fromkeys(counts, 0)
        for kind, counts in result["byType"].items()
    }
    by_type["snapshot"] = {name: number // 2 for name, number in result["byType"]["snapshot"].items()}
    summary = {name: sum(counts[name] for counts in by_type.values()) for name in result["summary"]}
    counts = {
        "summary": summary,
        "byType": by_type,
        "totals": {kind: counts["examined"] for kind, counts in result["byType"].items()},
        "appliedTags": result["appliedTags"],
    }
    operation = {
        "runId": "0193",
        "operationId": f"apply-default-tags-{tenant_id}",
        "status": "running",
        "startedAt": "2026-11-21T10:04:18Z",
        "createdAt": "2026-11-21T10:04:18Z",
        "progress": summary["examined"] * 100 // result["summary"]["examined"],
        "currentStep": f"snapshot ({here + 1}/{len(kinds)})",
        "counts": counts,
    }
    workspace.applies._runs[tenant_id] = Run(ApplyOperation.model_validate(operation))
    pilot.app.frame.perform("default-tags.follow")


async def press_keys(pilot: Pilot, keys: Sequence[str], name: str) -> None:
    """Press the keys of a scene. For a key that begins with `…`, wait for the text after it."""
    for waits, group in groupby(keys, key=lambda key: key.startswith("…")):
        if not waits:
            await pilot.press(*group)
            continue
        for key in group:
            await until(pilot, lambda words=key[1:]: words in text_of(pilot.app), name)  # type: ignore[misc]


def text_of(app: Any) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def until(pilot: Pilot, holds: Callable[[], bool], name: str) -> None:
    """Wait up to 60 seconds for a condition. Raise AssertionError with the text on the screen."""
    end = time.monotonic() + 60
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{name}: the screen stayed\n{text_of(pilot.app)}")
        await pilot.pause(0.05)


EDITOR = ("2",)
DELETE_REQUEST = ("f3", *["backspace"] * len("compute:instances:read"), *"compute:instances:delete")
TAGS = ("colon", *"default-tags", "enter", "…Version 1")
DRAFT = (
    *(*TAGS, "n", "…0/64", *"stage", "equals_sign", *"blue", "enter", "…+ stage"),
    *("k", "delete", "…− owner", "k", "enter", "…Edit env", *["backspace"] * 4, *"dev", "enter", "…~ env"),
)
# The key `[/x] nightly` of Staging is for tests: its name has markup and an emoji.
KEYS = ("6", "…old-deploy", "slash", *"!staging", "enter", "…15 of 16")
NEW_KEY = ("6", "…bars span", "n", "…compute:read", *"night watch")

SCENES = (
    Scene("tenants", (), "Newsroom"),
    Scene("tenants-light", (), "Newsroom", theme="frost-light"),
    Scene("tenants-filter", ("slash", *"aurora !staging", "enter"), "3 of 6"),
    Scene("provisioning", ("slash", *"sandbox", "enter", "d"), "50%"),
    Scene("switcher", ("ctrl+t",), "Switch tenant"),
    Scene("create", ("n", *"Night Shift"), "Night Shift"),
    Scene("policies", ("2",), "contractor access"),
    Scene("policy-attachments", ("2", "…contractor", "t"), "deployers"),
    Scene("policy-versions", ("2", "…contractor", "v", "…create", "j"), "► 3"),
    Scene("policy-difference", ("2", "…contractor", "v", "…create", "G", "enter"), "+32 gained, −64 lost"),
    Scene("policy-rollback", ("2", "…contractor", "v", "…create", "G", "b"), "network:vpcs:read"),
    Scene("policy-delete", ("2", "…contractor", "j", "delete"), "~ secrets:"),
    Scene("groups", ("3",), "contractors"),
    Scene("group-members", ("3", "…contractors", "enter"), "expired"),
    Scene("group-picker", ("3", "…contractors", "m", "…cluster-proxy", *"tenant-", "tab", "tab"), "2 marked"),
    Scene(
        "group-effect", ("3", "…contractors", "m", "…compute-all", *"compute-all", "enter"), "− compute:images:create"
    ),
    Scene("group-delete", ("3", "…contractors", "delete"), "− compute:instances:create"),
    Scene("access", ("3", "…contractors", "enter", "…expired", "w"), "compute:images:list"),
    Scene("catalogue", ("4", "…audit:", "slash", *"buckets", "enter"), "10 of 528"),
    Scene("who", ("4", "…audit:", "slash", *"key-pairs:import", "enter", "w", "…Target", "enter"), "Astrid"),
    Scene("contexts", ("5",), "3 contexts"),
    Scene("confirm", ("5", "o"), "Sign out?"),
    Scene("api-keys", (*KEYS, "j"), "Newsroom"),
    Scene("api-keys-unused", ("6", "…old-deploy", "slash", *"used:never", "enter"), "3 of 16"),
    Scene("api-key-create", (*NEW_KEY, *["tab"] * 5, "space", "space"), "2 selected"),
    Scene("api-key-secret", ("6", "…old-deploy"), "shown only once", then=new_secret),
    Scene("api-key-rotate", (*KEYS, *["j"] * 13, "o"), "Rotate deploy-pipeline"),
    Scene("api-key-revoke", ("6", "…old-deploy", *["j"] * 14, "v"), "Revoke API key?"),
    Scene("sessions", ("7", "…thinkpad", "j"), "thinkpad"),
    Scene("sessions-end", ("7", "…thinkpad", "j", "delete"), "End all sessions?"),
    Scene("account", ("8",), "Borealis Media"),
    Scene("account-delete", ("8", "…Borealis", "delete"), "Delete your account?"),
    Scene("quotas", ("9", "…95%", "j", "j"), "85%"),
    Scene("quotas-organization", ("9", "…95%", "j", "j", "o"), "150 ►"),
    Scene("quota-request", ("9", "…95%", "j", "j", "n", "…New limit", *"150", "tab", *"second region"), "above 110"),
    Scene("default-tags", DRAFT, "+ 1 added  ~ 1 changed  − 1 removed"),
    Scene("default-tags-form", (*TAGS, "n", "…0/64", *"Team", "slash", *"owner"), "character 5"),
    Scene("default-tags-save", (*DRAFT, "w"), "~ env = dev  was prod"),
    Scene("default-tags-preview", (*TAGS, "p"), "would change"),
    Scene("apply", TAGS, "snapshot (7/44)", then=running),
    Scene("apply-failures", (*TAGS, "p", "…would change", "f", "…legacy-erp"), "invalid state"),
    Scene("activity", ("colon", *"activity", "enter", "…rename tenant"), "41 entries"),
    Scene("activity-of", ("2", "…contractor", "A"), "2 entries"),
    Scene("activity-refused", ("colon", *"activity", "enter"), "Only an owner or admin", person=VIEWER),
    Scene("help", ("question_mark",), "Create tenant"),
    Scene("palette", ("ctrl+p", *"tenant"), "tenant"),
    Scene("editor", EDITOR, "within your permissions", then=editor_opened),
    Scene("editor-light", EDITOR, "within your permissions", theme="frost-light", then=editor_opened),
    Scene("editor-denied", EDITOR, "nearest", then=denied),
    Scene("editor-delete", EDITOR, "denied by rule 3", then=deleted),
    Scene("editor-problem", EDITOR, "! line 9", then=unreadable),
    Scene("editor-completion", EDITOR, "compute:scale-groups: ", then=completing),
    Scene("editor-coverage", EDITOR, "−", then=coverage),
    Scene("editor-author", EDITOR, "you do not have this permission", then=beyond, person=VIEWER),
    Scene("editor-save", EDITOR, "lost", then=review),
    Scene("api-key-lacks", (*NEW_KEY, *["tab"] * 5, "space", "j", "j", "j"), "1 selected", person=VIEWER),
    Scene("sign-in", (), "BCDF-GHJK", then=device_code),
)
