"""Captures of the scenes, taken from the running application."""

import asyncio
from collections.abc import Sequence

from screenshots.application import capture_screen, demo_home, running_application, signed_in
from screenshots.capture import write_capture
from screenshots.pictures import FOLDER
from screenshots.scenes import SCENES, Scene, press_keys, text_of, until
from tests.homes import Home

LOOK_SECONDS = 0.1
EQUAL_LOOKS, STEADY_LOOKS, MAX_LOOKS = 2, 15, 100
"""A screen has settled when it equals its former capture twice in a row, or remains the same 15 times in a row."""


async def capture_scene(scene: Scene, size: tuple[int, int], home: Home, former: str) -> str:
    """Open a scene in the application and return its text form once it has settled."""
    async with running_application(home, size, "Web Shop" if scene.person else "Newsroom") as pilot:
        if scene.theme:
            pilot.app.theme = scene.theme
        await press_keys(pilot, scene.keys, scene.name)
        if scene.then is not None:
            await scene.then(pilot)
        await until(pilot, lambda: scene.wanted in text_of(pilot.app), scene.name)
        looks = 0
        document = ""
        for _ in range(MAX_LOOKS):
            before, document = document, write_capture(await capture_screen(pilot, LOOK_SECONDS), former)
            looks = looks + 1 if document == before else 1
            if looks == (EQUAL_LOOKS if document == former else STEADY_LOOKS):
                break
            if document != former:
                pilot.app.screen.refresh()  # repaint the dialog, in case only the screen below it was painted
        return document


def capture_scenes(size: tuple[int, int], names: Sequence[str]) -> dict[str, str]:
    """Return the text forms of the scenes at one size by file name. Without names, capture all scenes."""
    documents = {}
    with demo_home() as home:
        for scene in SCENES:
            if names and scene.name not in names:
                continue
            path = FOLDER.captures / f"{scene.name}-{size[0]}x{size[1]}.txt"
            former = path.read_text() if path.exists() else ""
            with signed_in(home, scene.person):
                documents[path.stem] = asyncio.run(capture_scene(scene, size, home, former))
    return documents
