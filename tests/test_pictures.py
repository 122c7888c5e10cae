"""The captures of the screens, the pictures drawn from them, and which of both the repository holds."""

import shutil
import subprocess
from pathlib import Path

import pytest
from PIL import Image, ImageSequence
from rich.segment import ControlType, Segment
from rich.style import Style

from screenshots import animation
from screenshots.__main__ import update
from screenshots.capture import Capture, compare, parse_capture, read_screen, write_capture
from screenshots.drawing import SYMBOL_FONT, digest_of, draw_png, font_of
from screenshots.pictures import BROWSER_PICTURE, CAPTURES, FOLDER, MAX_FOLDER_BYTES, PictureFolder
from screenshots.scenes import SCENES

PLAIN = Style.parse("#d8dee6 on #12161c")
TITLE = Style.parse("bold #7cc4e2 on #12161c")


def screen(*lines: tuple[tuple[str, Style], ...]) -> Capture:
    return read_screen([Segment(text, style) for text, style in line] for line in lines)


def differences(before: Capture, after: Capture) -> list[str]:
    """The lines of the diff that begin with - or +, without the diff's head."""
    former = write_capture(before)
    lines = compare(former, write_capture(after, former), "tenants-80x24")
    return [line for line in lines[2:] if not line.startswith("@")]


TENANTS = screen((("Tenants", TITLE), ("   ", PLAIN)), (("  Web Shop", PLAIN),))


def test_the_folder_has_the_present_pictures_of_the_documents_and_is_small() -> None:
    assert FOLDER.shown
    assert FOLDER.shown == FOLDER.present
    assert [name for name, _ in FOLDER.stale()] == []
    assert FOLDER.size <= MAX_FOLDER_BYTES


@pytest.mark.skipif(not shutil.which("fc-list"), reason="no fc-list on this machine: apt-get install fontconfig")
def test_a_font_draws_every_letter_of_the_pictures_and_no_letter_looks_like_another() -> None:
    if SYMBOL_FONT not in subprocess.run(["fc-list", ":", "family"], capture_output=True, text=True, check=True).stdout:
        pytest.skip(f"no {SYMBOL_FONT} on this machine: apt-get install fonts-dejavu-core")
    captures = [capture for name in FOLDER.shown if (capture := FOLDER.capture_of(name))]
    letters = {letter for capture in captures for letter in capture.text if letter.isprintable()}
    assert {letter for letter in letters if font_of(letter) == SYMBOL_FONT} >= {"✓", "∅"}
    with pytest.raises(ValueError, match=r"no font draws U\+10FFFF"):
        font_of("\U0010ffff")


def test_the_picture_of_the_browser_has_a_capture_that_makes_it_obsolete(
    folder: PictureFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = FOLDER.capture_of(BROWSER_PICTURE)
    assert capture is not None
    assert digest_of((FOLDER.path / BROWSER_PICTURE).read_bytes()) == capture.digest
    (folder.root / "README.md").write_text(f"![Browser](screenshots/{BROWSER_PICTURE})")
    browser = {CAPTURES[BROWSER_PICTURE]: write_capture(TENANTS)}
    assert not update(folder, browser, check=False, whole=True)
    assert not (folder.path / BROWSER_PICTURE).exists()
    assert "python -m screenshots.browser" in capsys.readouterr().out
    (folder.path / BROWSER_PICTURE).write_bytes(draw_png(TENANTS))
    assert update(folder, browser, check=True, whole=True)


def test_the_moving_picture_is_small_and_about_twenty_seconds_long() -> None:
    assert animation.FILE.stat().st_size <= animation.MAX_BYTES
    with Image.open(animation.FILE) as image:
        milliseconds = sum(frame.info["duration"] for frame in ImageSequence.Iterator(image))
    assert 18_000 <= milliseconds <= 22_000


@pytest.mark.slow
def test_the_moving_picture_shows_the_present_screens() -> None:
    same = animation.digest_of_frames(animation.record()) == animation.digest_of_file()
    assert same, "draw it again with: python -m screenshots.animation"


def test_every_scene_has_a_capture_of_both_sizes_and_reads_back_as_written() -> None:
    names = {f"{scene.name}-{size}" for scene in SCENES for size in ("120x36", "80x24")}
    documents = {path.stem: path.read_text() for path in FOLDER.captures.iterdir()}
    assert documents.keys() == names
    for name, document in documents.items():
        capture = parse_capture(document)
        assert write_capture(capture, document) == document, name
        assert name.endswith(f"-{capture.width}x{len(capture.lines)}")


def tenants(*title: tuple[str, Style], name: str = "  Web Shop") -> Capture:
    return screen(title or (("Tenants", TITLE), ("   ", PLAIN)), ((name, PLAIN),))


def test_a_comparison_shows_changed_lines() -> None:
    yellow = Style.parse("bold #e0bb78 on #12161c")
    for after, expected in (
        (TENANTS, []),
        (tenants(name="  Web Shup"), ["-  Web Shop", "+  Web Shup"]),
        (tenants(name="  Web Sho…"), ["-  Web Shop", "+  Web Sho…"]),
        (
            tenants((" ", PLAIN), ("Tenants", TITLE), ("  ", PLAIN)),
            ["-Tenants", "+ Tenants", "-aaaaaaabbb", "+baaaaaaabb"],
        ),
        (tenants(("Tenants", yellow), ("   ", PLAIN)), ["-a bold #7cc4e2 on #12161c", "+a bold #e0bb78 on #12161c"]),
        # The colour of a blank is not visible.
        (tenants(("Tenants", TITLE), ("   ", TITLE)), []),
    ):
        assert [line.rstrip() for line in differences(TENANTS, after)] == expected
    for attribute in ("not bold", "reverse", "underline", "italic", "dim", "strike", "on #1a2028"):
        after = tenants(("Tenants", TITLE + Style.parse(attribute)), ("   ", PLAIN))
        assert differences(TENANTS, after), attribute


def test_wide_letters_take_their_columns_and_control_characters_are_refused() -> None:
    capture = screen((("🌙 e\u0301", TITLE), ("x", PLAIN)))
    assert capture.width == 5
    document = write_capture(capture)
    assert document.splitlines()[-1] == "aabac"
    assert parse_capture(document) == capture
    command = Segment("\x1b[2J", None, [(ControlType.CLEAR,)])
    assert read_screen([[command, Segment("ok", PLAIN)]]).text == "ok"
    with pytest.raises(ValueError, match="control character"):
        screen((("\x1b[31m", PLAIN),))
    with pytest.raises(ValueError):
        parse_capture(write_capture(TENANTS).replace("Web Shop", "Web\nShop"))


@pytest.fixture
def folder(tmp_path: Path) -> PictureFolder:
    """A repository whose README shows one of two screens."""
    (tmp_path / "screenshots").mkdir()
    (tmp_path / "README.md").write_text("![Tenants](screenshots/tenants-10x2.png)")
    folder = PictureFolder(tmp_path)
    assert not update(folder, documents(), check=False, whole=True)
    return folder


def documents(**changes: str) -> dict[str, str]:
    return {"tenants-10x2": write_capture(TENANTS), "groups-10x2": write_capture(TENANTS)} | changes


def test_a_check_reports_changes_and_an_update_stores_them(
    folder: PictureFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert folder.present == {"tenants-10x2.png"}
    assert {path.stem for path in folder.captures.iterdir()} == {"tenants-10x2", "groups-10x2"}
    assert update(folder, documents(), check=True, whole=True)
    changed = {"tenants-10x2": documents()["tenants-10x2"].replace("Web Shop", "Web Shup")}
    capsys.readouterr()
    assert not update(folder, changed, check=True, whole=False)
    printed = capsys.readouterr().out
    assert "--- captures/tenants-10x2.txt" in printed
    assert "+  Web Shup" in printed
    assert "Web Shup" not in (folder.captures / "tenants-10x2.txt").read_text()
    # A removed scene, a picture of an older capture, and a picture that no document shows.
    remaining = {"tenants-10x2": documents()["tenants-10x2"]}
    assert update(folder, remaining, check=True, whole=False)
    assert not update(folder, remaining, check=True, whole=True)
    update(folder, remaining, check=False, whole=True)
    assert [path.stem for path in folder.captures.iterdir()] == ["tenants-10x2"]
    (folder.captures / "tenants-10x2.txt").write_text(changed["tenants-10x2"])
    assert not update(folder, changed, check=True, whole=True)
    (folder.root / "README.md").write_text("")
    update(folder, changed, check=False, whole=True)
    assert folder.present == set()
