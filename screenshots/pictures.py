"""The files of the folder: a text capture of every screen, and the pictures that README.md and docs/*.md show."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from screenshots.capture import Capture, parse_capture
from screenshots.drawing import digest_of, draw_png

FORMATS = ("png", "gif", "svg")
MAX_FOLDER_BYTES = 6_000_000
BROWSER_PICTURE = "browser.png"
CAPTURES = {BROWSER_PICTURE: "editor-delete-120x36"}
"""Captures that have another name than their picture."""

_REFERENCE = re.compile(rf"screenshots/([\w-]+\.(?:{'|'.join(FORMATS)}))")


@dataclass(frozen=True)
class PictureFolder:
    """The folder `screenshots` of a repository."""

    root: Path

    @property
    def path(self) -> Path:
        return self.root / "screenshots"

    @property
    def captures(self) -> Path:
        return self.path / "captures"

    @property
    def shown(self) -> set[str]:
        """File names of the pictures that README.md and docs/*.md refer to."""
        documents = [self.root / "README.md", *(self.root / "docs").glob("*.md")]
        return {name for document in documents for name in _REFERENCE.findall(document.read_text())}

    @property
    def present(self) -> set[str]:
        return {path.name for path in self.path.iterdir() if path.suffix.removeprefix(".") in FORMATS}

    @property
    def size(self) -> int:
        """Size in bytes of all files except compiled Python."""
        files = (path for path in self.path.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return sum(path.stat().st_size for path in files)

    def capture_of(self, name: str) -> Capture | None:
        """Return the capture that a picture shows; None for an animation."""
        document = self.captures / f"{CAPTURES.get(name, Path(name).stem)}.txt"
        return parse_capture(document.read_text()) if document.exists() else None

    def stale(self) -> Iterator[tuple[str, Capture]]:
        """Yield name and capture of each shown picture that is missing or was drawn from another capture."""
        for name in sorted(self.shown):
            capture, picture = self.capture_of(name), self.path / name
            if capture and (not picture.exists() or digest_of(picture.read_bytes()) != capture.digest):
                yield name, capture

    def draw(self) -> None:
        """Draw the stale pictures, except that of the browser, and delete the pictures that no document shows."""
        for name, capture in self.stale():
            if name != BROWSER_PICTURE:
                (self.path / name).write_bytes(draw_png(capture))
        for name in self.present - self.shown:
            (self.path / name).unlink()


FOLDER = PictureFolder(Path(__file__).parent.parent)
