"""`python -m screenshots.animation` draws the animation: a policy is typed, refused with an example, and saved.

The application runs on a real platform and receives every key. A frame is the screen after it has settled. Its
duration is defined here, so that it does not depend on the machine. The file has a digest of its frames as a comment:
a test plays the steps again and compares it.
"""

import asyncio
import hashlib
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image

from screenshots.application import capture_screen, demo_home, running_application, signed_in
from screenshots.capture import Capture
from screenshots.drawing import draw_image, reduce_colours
from screenshots.scenes import Pilot, text_of, until
from tests.homes import Home

FILE = Path(__file__).parent / "policy.gif"
SIZE = (110, 30)
PERSON = "regional@aurora.example"
COLOURS = 128
PALETTE_SECONDS = 1.0
"""The palette is computed from frames with at least this duration."""
MAX_BYTES = 1_500_000
SETTLE_SECONDS = 0.6
"""Interval between two captures that must be equal. An evaluation takes less, also on a busy machine."""
LETTER, DELETE = 0.06, 0.03
"""Duration of a frame after a typed character and after a deleted one, in seconds."""


@dataclass(frozen=True)
class Step:
    """Keys to press, the text to expect on the screen, and its duration in seconds."""

    keys: tuple[str, ...]
    expected: str
    seconds: float
    key_seconds: float = LETTER


def delete(text: str) -> Step:
    """Return the step that deletes the text before the cursor."""
    return Step(("backspace",) * len(text), "", LETTER, DELETE)


STEPS = (
    Step(("2",), "nordic dev", 0.8),
    Step(("n",), "allows 16 of 528", 1.0),
    Step((*["down"] * 4, "end", "left", "left"), "read-compute", 0.3, DELETE),
    delete("read-compute"),
    Step(tuple("dev"), '"dev"', 0.2),
    Step(("down", "down", "end", "left", "left"), '"dev"', 0.3, DELETE),
    delete('*:read", "compute:*:list"'),
    Step(tuple('instances:*"'), "× DENIED", 1.4),
    Step(("f3",), "service:resource:action", 0.4),
    delete("mages:read"),
    Step(tuple("nstances:start"), "✓ ALLOWED", 1.2),
    Step(("escape", "f6", "f6"), "with region se-sto-1", 2.2, 0.2),
    Step(("f9",), "only where you have the permission", 1.3),
    Step(("enter",), "✓ within your permissions", 1.7),
    Step(("f3", "down", "down", "down", *"fi-hel-1"), "fi-hel-1", 0.2),
    Step(("down", "down", *"env=dev"), "✓ ALLOWED", 1.1),
    Step(("escape", "ctrl+s"), "name of the policy", 1.0),
    Step(tuple("Dev instances"), "Dev instances", 0.4),
    Step(("enter",), "version 1", 2.0),
)


async def settled(pilot: Pilot) -> Capture:
    """Return the screen once two captures in a row are equal."""
    before = await capture_screen(pilot, SETTLE_SECONDS)
    while (capture := await capture_screen(pilot, SETTLE_SECONDS)) != before:
        before = capture
    return capture


def _has_text(pilot: Pilot, text: str) -> bool:
    return text in text_of(pilot.app)


async def play(home: Home, steps: Sequence[Step]) -> list[tuple[Capture, float]]:
    """Return the screen after each key, with its duration in seconds."""
    frames = []
    async with running_application(home, SIZE, "Staging") as pilot:
        for step in steps:
            for at, key in enumerate(step.keys, 1):
                await pilot.press(key)
                if at == len(step.keys) and step.expected:
                    await until(pilot, partial(_has_text, pilot, step.expected), step.expected)
                seconds = step.seconds if at == len(step.keys) else step.key_seconds
                frames.append((await settled(pilot), seconds))
    return frames


def digest_of_frames(frames: Sequence[tuple[Capture, float]]) -> str:
    """Return a digest of the screens and their durations."""
    return hashlib.sha256(repr([(capture.digest, seconds) for capture, seconds in frames]).encode()).hexdigest()


def digest_of_file() -> str:
    """Return the digest of the frames of the drawn animation; empty if it has none."""
    with Image.open(FILE) as image:
        comment: bytes = image.info.get("comment", b"")
    return comment.decode("ascii", "replace")


def draw_gif(frames: Sequence[tuple[Capture, float]]) -> bytes:
    """Return an animated GIF with one palette for all frames, in an infinite loop."""
    images = [draw_image(capture) for capture, _ in frames]
    longest = [image for image, (_, seconds) in zip(images, frames, strict=True) if seconds >= PALETTE_SECONDS]
    sample = Image.new("RGB", (images[0].width, images[0].height * len(longest)))
    for at, image in enumerate(longest):
        sample.paste(image, (0, at * image.height))
    palette = reduce_colours(sample, COLOURS)
    first, *others = (image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images)
    content = io.BytesIO()
    durations = [round(seconds * 100) * 10 for _, seconds in frames]
    options = {"save_all": True, "loop": 0, "optimize": True, "comment": digest_of_frames(frames).encode()}
    first.save(content, "GIF", append_images=others, duration=durations, **options)
    return content.getvalue()


def record() -> list[tuple[Capture, float]]:
    """Play the steps on a platform of their own. Return the frames."""
    with demo_home() as home, signed_in(home, PERSON):
        return asyncio.run(play(home, STEPS))


def main() -> int:
    frames = record()
    gif = draw_gif(frames)
    seconds = sum(seconds for _, seconds in frames)
    sys.stdout.write(f"{len(frames)} frames, {seconds:.1f} s, {len(gif):,} bytes\n")
    if len(gif) > MAX_BYTES:
        sys.stderr.write(f"more than {MAX_BYTES:,} bytes: nothing is written\n")
        return 1
    FILE.write_bytes(gif)
    return 0


if __name__ == "__main__":
    sys.exit(main())
