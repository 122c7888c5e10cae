"""`python -m screenshots` makes every picture anew from the running program; `--check` tells whether any has drifted.

The application runs on a real platform with the demo world, in a home of its own. The clock stands still and the
latency shown is set, so that the same program gives the same bytes: an SVG that differs is a screen that changed.
PNG files are drawn from the SVG and are not compared.
"""

import argparse
import asyncio
import html
import io
import os
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from tests.homes import Home

FOLDER = Path(__file__).parent
CLOCK = "2026-11-21T10:05:00Z"
DEVICE = "astrid-desk"
VIEWER = "viewer@aurora.example"
SIZES = ((120, 36), (80, 24))

Pilot = Any


@dataclass(frozen=True)
class Scene:
    """One picture: keys pressed from the opened program on, and the text that must then be on the screen.

    A key that begins with `…` is no key: the words behind it are waited for.
    """

    name: str
    keys: tuple[str, ...]
    wanted: str
    theme: str = ""
    then: Callable[[Pilot], Awaitable[None]] | None = None
    person: str = ""
    """Who sits before it; empty for the owner."""


async def device_code(pilot: Pilot) -> None:
    """The sign-in dialog of a platform that is not this machine's: its code is never shown for the local one."""
    from tui.widgets.device_code import DeviceCode

    address = "https://id.frost.example/device"
    pilot.app.push_screen(DeviceCode("work", "BCDF-GHJK", address, f"{address}?user_code=BCDF-GHJK"))


async def editor_opened(pilot: Pilot) -> None:
    """The editor on the policy under the cursor."""
    await until(pilot, lambda: "deployments" in text_of(pilot.app), "the policies")
    await pilot.press("enter")
    await until(pilot, lambda: hasattr(pilot.app.screen, "pane"), "the editor")


async def text_written(pilot: Pilot, change: Callable[[str], str]) -> None:
    """The editor with another text, once everything was said about it."""
    await editor_opened(pilot)
    editor = pilot.app.screen
    await until(pilot, lambda: editor.found.fresh.get("check") and editor.offering.catalogue.names, "the editor")
    editor.pane.put(change(editor.pane.text))
    await pilot.pause(0.1)
    await until(pilot, lambda: editor.found.problems or editor.found.fresh.get("check"), "the answer")


async def denied(pilot: Pilot) -> None:
    """A constraint that does not hold: the trace says which."""
    narrower = '"constraints": { "equals": { "frn:resourceTag/env": "dev" } },\n      "targets": ["*"]'
    await text_written(pilot, lambda text: text.replace('"targets": ["*"]', narrower, 1))
    pilot.app.screen.form.put({"resourceTags": "env=prod", "sourceIp": "203.0.113.7", "requestTags": "none"})


async def unreadable(pilot: Pilot) -> None:
    """A misspelt operation: the last verdict stays, visibly old."""
    await text_written(pilot, lambda text: text.replace("compute:launch-templates:*", "compute:lunch-templates:*"))
    await pilot.press("f8")
    if not pilot.app.screen.narrow:
        pilot.app.screen.show_view("problems")


async def beyond(pilot: Pilot) -> None:
    """What the viewer would give without holding it."""
    await text_written(pilot, lambda text: text)
    pilot.app.screen.go("author")


async def completing(pilot: Pilot) -> None:
    """A part of an operation, and what can follow."""
    await text_written(pilot, lambda text: text)
    pilot.app.screen.pane.show_line(7, 99)
    await pilot.press("enter", "quotation_mark", *"compute:sca")


async def coverage(pilot: Pilot) -> None:
    """What changes against the stored version, service by service."""
    await text_written(pilot, lambda text: text.replace('"storage:objects:*"', '"quotas:*"'))
    pilot.app.screen.go("coverage")


async def review(pilot: Pilot) -> None:
    """The difference before saving."""
    await text_written(pilot, lambda text: text.replace('"storage:objects:*"', '"storage:objects:read"'))
    await pilot.press("ctrl+s")


async def new_secret(pilot: Pilot) -> None:
    """The dialog of a key that was just made; in a picture its secret is covered, so a made-up one does."""
    from tui.widgets.new_secret import NewSecret

    facts = [
        ("Id", "5c0d2c1e-8a55-4f0b-9a37-6d3c1f0e7a42"),
        ("Tenant", "Web Shop"),
        ("Scopes", "compute:read, storage:read"),
        ("Expires", "2027-11-21 10:05Z"),
    ]
    pilot.app.push_screen(NewSecret("New API key night watch", facts, "x" * 40, lambda secret, say: None))


async def running(pilot: Pilot) -> None:
    """An apply half way: a real one would be somewhere else in every picture. Its counts are those of its preview."""
    from tui.applies import Run

    workspace = pilot.app.workspace
    tenant_id = workspace.tenant_id
    result = (await workspace.ask(lambda client: client.default_tags.preview(tenant_id))).wire()
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
    workspace.applies._runs[tenant_id] = Run("0193", operation)
    pilot.app.frame.perform("default-tags.follow")


EDITOR = ("2",)
TAGS = ("colon", *"default-tags", "enter", "…Version 1")
DRAFT = (
    *(*TAGS, "n", "…0/64", *"stage", "equals_sign", *"blue", "enter", "…+ stage"),
    *("k", "delete", "…− owner", "k", "enter", "…Edit env", *["backspace"] * 4, *"dev", "enter", "…~ env"),
)
NEW_KEY = ("6", "…bars span", "n", "…compute:read", *"night watch")

SCENES = (
    Scene("tenants", (), "Newsroom"),
    Scene("tenants-light", (), "Newsroom", theme="frost-light"),
    Scene("tenants-filter", ("slash", *"aurora !staging", "enter"), "3 of 6"),
    Scene("provisioning", ("slash", *"sandbox", "enter", "d"), "isolation"),
    Scene("switcher", ("ctrl+t",), "Switch tenant"),
    Scene("create", ("n", *"Night Shift"), "Night Shift"),
    Scene("policies", ("2",), "contractor access"),
    Scene("policy-attachments", ("2", "…contractor", "t"), "deployers"),
    Scene("policy-versions", ("2", "…contractor", "v", "…create", "j"), "► 3"),
    Scene("policy-difference", ("2", "…contractor", "v", "…create", "G", "enter"), "32 gained, 64 lost"),
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
    Scene("catalogue", ("4", "…audit:", "slash", *"key-pairs", "enter"), "5 of 528"),
    Scene("who", ("4", "…audit:", "slash", *"key-pairs:import", "enter", "w", "…Target", "enter"), "Astrid"),
    Scene("contexts", ("5",), "Endpoint"),
    Scene("confirm", ("5", "o"), "Sign out?"),
    Scene("api-keys", ("6", "…old-deploy", "j", "j"), "old-deploy"),
    Scene("api-keys-unused", ("6", "…old-deploy", "slash", *"used:never", "enter"), "3 of 16"),
    Scene("api-key-create", (*NEW_KEY, *["tab"] * 5, "space", "space"), "2 chosen"),
    Scene("api-key-secret", ("6", "…old-deploy"), "shown only now", then=new_secret),
    Scene("api-key-rotate", ("6", "…old-deploy", *["j"] * 14, "o"), "Rotate deploy-pipeline"),
    Scene("api-key-revoke", ("6", "…old-deploy", *["j"] * 14, "v"), "Revoke API key?"),
    Scene("sessions", ("7", "…thinkpad", "j"), "thinkpad"),
    Scene("sessions-end", ("7", "…thinkpad", "j", "delete"), "End every session?"),
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
    Scene("apply-failures", (*TAGS, "p", "…would change", "f", "…legacy-erp"), "not in this state"),
    Scene("help", ("question_mark",), "Create tenant"),
    Scene("palette", ("ctrl+p", *"tenant"), "tenant"),
    Scene("editor", EDITOR, "within what you hold", then=editor_opened),
    Scene("editor-light", EDITOR, "within what you hold", theme="frost-light", then=editor_opened),
    Scene("editor-denied", EDITOR, "nearest", then=denied),
    Scene("editor-problem", EDITOR, "! line 9", then=unreadable),
    Scene("editor-completion", EDITOR, "compute:scale-groups: ", then=completing),
    Scene("editor-coverage", EDITOR, "−", then=coverage),
    Scene("editor-author", EDITOR, "you do not hold this", then=beyond, person=VIEWER),
    Scene("editor-save", EDITOR, "lost", then=review),
    Scene("api-key-lacks", (*NEW_KEY, *["tab"] * 5, "space", "j", "j", "j"), "1 chosen", person=VIEWER),
    Scene("sign-in", (), "BCDF-GHJK", then=device_code),
)


def text_of(app: Any) -> str:
    """What stands on the screen."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def picture(scene: Scene, size: tuple[int, int], home: Home) -> str:
    """Run the application to the scene and give its SVG."""
    from client.connection import resolve
    from tui.app import FrostApp
    from tui.launch import Launch

    (home.path / ".cli" / "state.json").unlink(missing_ok=True)
    shutil.rmtree(home.path / ".cli" / "drafts", ignore_errors=True)
    app = FrostApp(resolve(None, os.environ), Launch(), home.path / ".cli" / "state.json")
    async with app.run_test(size=size) as pilot:
        seen = "Newsroom" if not scene.person else "Web Shop"
        await until(pilot, lambda: seen in text_of(app) and app.workspace.link.state == "up", scene.name)
        if scene.theme:
            app.theme = scene.theme
        for key in scene.keys:
            if key.startswith("…"):
                await until(pilot, lambda words=key[1:]: words in text_of(app), scene.name)  # type: ignore[misc]
            else:
                await pilot.press(key)
        if scene.then is not None:
            await scene.then(pilot)
        await until(pilot, lambda: scene.wanted in text_of(app), scene.name)
        await pilot.pause(0.3)
        app.workspace.link.latency_ms = 4.0
        app.frame.changed("link")
        for screen in app.screen_stack:  # below a dialog as well
            if hasattr(screen, "show_facts"):
                screen.show_facts()
        await pilot.pause(0.1)
        return app.export_screenshot(title="frost")


async def until(pilot: Pilot, holds: Callable[[], bool], name: str) -> None:
    """Let the application work until something is so."""
    end = time.monotonic() + 30
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{name}: the screen stayed\n{text_of(pilot.app)}")
        await pilot.pause(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m screenshots")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("scenes", nargs="*", help="only these")
    options = parser.parse_args()
    # Sandbox must stay as it is in every picture.
    home = Home(FROST_CLOCK=CLOCK, FROST_PLATFORM_PROVISIONING_PACE="100000")
    os.environ.update({**home.environment(), "COLORTERM": "truecolor"})
    drifted = []
    try:
        home.start()
        settle(home)
        for scene in SCENES:
            if options.scenes and scene.name not in options.scenes:
                continue
            if scene.person:
                assert home.frost("login", "--as", scene.person).code == 0
            for columns, rows in SIZES:
                svg = asyncio.run(picture(scene, (columns, rows), home))
                path = FOLDER / f"{scene.name}-{columns}x{rows}.svg"
                if path.exists() and path.read_text() == svg:
                    continue
                drifted.append(path.name)
                if not options.check:
                    path.write_text(svg)
                    draw(svg, path.with_suffix(".png"))
            if scene.person:
                assert home.frost("login", "--as", "owner@aurora.example").code == 0
    finally:
        home.remove()
    for name in drifted:
        sys.stdout.write(f"{name} {'differs from the program' if options.check else 'made'}\n")
    if options.check and drifted:
        sys.stdout.write("make the pictures again with: python -m screenshots\n")
        return 1
    sys.stdout.write(f"{len(SCENES) * len(SIZES) - len(drifted)} pictures as they were\n")
    return 0


def settle(home: Home) -> None:
    """What is another in every world and on every machine is the same in pictures: the device, and keys' beginnings."""
    with sqlite3.connect(home.platform_dir / "platform.db", timeout=20) as database:
        database.execute("UPDATE sessions SET device = ? WHERE place = 'this machine'", (DEVICE,))
        database.execute("UPDATE api_keys SET key_prefix = 'fmk_' || substr(id, 1, 8)")
    database.close()


_TEXT = re.compile(r'(<text class="[^"]*" )x="([0-9.]+)"( y="[0-9.]+" )textLength="[0-9.]+"([^>]*>)([^<]*)</text>')
CELL = 12.2
FEW = 6


def _pieces(text: re.Match[str]) -> str:
    """A piece of a line as a few letters at a time, each where its first cell is."""
    head, x, y, tail, content = text.groups()
    letters = html.unescape(content)
    pieces, at = [], float(x)
    for begin in range(0, len(letters), FEW):
        piece = letters[begin : begin + FEW]
        cells = cell_len(piece)
        if piece.strip("\u00a0"):
            place = f'x="{at:.1f}"{y}textLength="{cells * CELL:.1f}"'
            pieces.append(f"{head}{place}{tail}{html.escape(piece)}</text>")
        at += cells * CELL
    return "".join(pieces)


def draw(svg: str, path: Path) -> None:
    """The PNG of an SVG, in the font of this machine."""
    import cairosvg
    from PIL import Image

    # A cell is 12.2 wide and a letter of Fira Code 0.6 of its size. Letters are placed on whole pixels, rounded up, so
    # that only at five times the size, and a few letters at a time, does a line end where it should.
    fitted = _TEXT.sub(_pieces, svg).replace("font-size: 20px", f"font-size: {12.18 / 0.6:.4f}px")
    large = cairosvg.svg2png(bytestring=fitted.encode(), scale=5)
    with Image.open(io.BytesIO(large)) as picture:
        picture.resize((picture.width // 5, picture.height // 5), Image.Resampling.LANCZOS).save(path, optimize=True)


if __name__ == "__main__":
    sys.exit(main())
