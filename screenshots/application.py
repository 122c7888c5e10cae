"""The real application on a real platform with the demo seed, in its own home directory.

Clock, device, prefixes of API keys and latency are fixed, so that captures do not depend on machine or time.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager

import yaml

from client.connection import resolve
from screenshots.capture import Capture, read_screen
from screenshots.scenes import Pilot, text_of, until
from tests.homes import Home
from tui.launch import Launch
from tui.shell.app import FrostApp

CLOCK = "2026-11-21T10:05:00Z"
DEVICE = "astrid-desk"
LATENCY_MS = 4.0
OWNER = "owner@aurora.example"
CONTEXTS = {
    "production": {"api_endpoint": "https://frost.aurora.example", "region": "se-sto-1", "read_only": True},
    "work": {"api_endpoint": "https://api.frost.example"},
}
"""Contexts beside the local one."""
REFUSED_NAME = {"displayName": "Web Shop Europe"}
REFUSED_KEY = "former-admin"
REQUEST_ID = "0d9c2c55-2c0d-4a58-9a0f-1b7a3a2f6b11"
COMPLETED_STEPS = 2
"""Completed steps of the provisioning job, half of them."""


@contextmanager
def demo_home() -> Iterator[Home]:
    """Yield a home with a running platform and set its variables in the environment of this process."""
    # The tenant "Sandbox" must stay half provisioned.
    home = Home(FROST_CLOCK=CLOCK, FROST_PLATFORM_PROVISIONING_PACE="100000")
    os.environ.update({**home.environment(), "COLORTERM": "truecolor"})
    try:
        home.start()
        with closing(sqlite3.connect(home.platform_dir / "platform.db", timeout=20)) as database:
            send_refused_request(home, database)
            with database:
                database.execute("UPDATE sessions SET device = ? WHERE place = 'this machine'", (DEVICE,))
                database.execute("UPDATE api_keys SET key_prefix = 'fmk_' || substr(id, 1, 8)")
            with database:
                provision_half(database)
        add_contexts(home)
        yield home
    finally:
        home.remove()


def send_refused_request(home: Home, database: sqlite3.Connection) -> None:
    """Rename a tenant without permission, which the audit log records. The seed has no refused request."""
    (tenant_id,) = database.execute("SELECT tenant_id FROM api_keys WHERE name = ?", (REFUSED_KEY,)).fetchone()
    key, headers = home.world_key(REFUSED_KEY), {"X-Request-Id": REQUEST_ID}
    answer = home.request("PATCH", f"/api/v1/tenants/{tenant_id}", key=key, body=REFUSED_NAME, headers=headers)
    assert answer.status == 403, answer


def provision_half(database: sqlite3.Connection) -> None:
    """Complete the first steps of the provisioning job. Its process waits for the pace of the first one."""
    database.execute("BEGIN IMMEDIATE")
    run_id, started, stored = database.execute(
        "SELECT run_id, created_at, steps FROM operations WHERE status <> 'completed'"
    ).fetchone()
    steps = json.loads(stored)
    for position, step in enumerate(steps[: COMPLETED_STEPS + 1]):
        status = "completed" if position < COMPLETED_STEPS else "running"
        times = {"startedAt": CLOCK, "completedAt": CLOCK if status == "completed" else None}
        step.update(times, status=status, attempts=1)
    database.execute(
        "UPDATE operations SET status = 'running', started_at = ?, progress = ?, current_step = ?, steps = ?,"
        " seq = seq + 1 WHERE run_id = ?",
        (
            started,
            100 * COMPLETED_STEPS // len(steps),
            f"{steps[COMPLETED_STEPS]['name']} ({COMPLETED_STEPS + 1}/{len(steps)})",
            json.dumps(steps),
            run_id,
        ),
    )


def add_contexts(home: Home) -> None:
    """Add contexts to the config file."""
    config = yaml.safe_load(home.config.read_text())
    config["contexts"] |= CONTEXTS
    home.config.write_text(yaml.safe_dump(config, sort_keys=False))


@contextmanager
def signed_in(home: Home, person: str) -> Iterator[None]:
    """Sign in as another person and, afterwards, as the owner again. An empty name is the owner."""
    if person:
        assert home.frost("login", "--as", person).code == 0
    yield
    if person:
        assert home.frost("login", "--as", OWNER).code == 0


@asynccontextmanager
async def running_application(home: Home, size: tuple[int, int], first_words: str) -> AsyncIterator[Pilot]:
    """Yield a pilot of the application on its first screen, without the state or drafts of an earlier run."""
    state = home.path / ".cli" / "state.json"
    state.unlink(missing_ok=True)
    shutil.rmtree(home.path / ".cli" / "drafts", ignore_errors=True)
    app = FrostApp(resolve(os.environ), Launch(), state)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: first_words in text_of(app) and app.workspace.link.state == "up", "the first screen")
        yield pilot


async def capture_screen(pilot: Pilot, pause_seconds: float) -> Capture:
    """Return the contents of the terminal after a pause, with dialogs and the screens below them."""
    app = pilot.app
    app.workspace.link.latency_ms = LATENCY_MS  # varies with each request
    app.frame.changed("link")
    for screen in app.screen_stack:
        if hasattr(screen, "show_header"):
            screen.show_header()
    await pilot.pause(pause_seconds)
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    return read_screen([segment for strip in line for segment in strip] for line in update.strips)
