"""The folders and files of frost are private to the user, with any umask, and never behind a link."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.paths import make_private
from service.logs import GENERATIONS
from tests import forking
from tests.homes import Home
from tests.terminal import screens

pytestmark = pytest.mark.process


@pytest.fixture
def shared_umask() -> Iterator[None]:
    """The default umask of most Linux desktops: new folders can be written by the user's group."""
    former = os.umask(0o002)
    yield
    os.umask(former)


def content(path: Path) -> bytes:
    """Return the content of a file; nothing of a missing one, as a rotated log is for a moment."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.slow
@pytest.mark.usefixtures("shared_umask")
def test_the_first_start_makes_private_folders(home: Home) -> None:
    with screens(home) as program:
        program.wait_for("Web Shop")
        assert "writable by other users" not in program.text
    done = home.frost("whoami")
    assert (done.code, done.err) == (0, "")
    assert home.frost("config", "set", "region", "fi-hel-1").code == 0
    assert {mode(folder) for folder in home.path.rglob("*") if folder.is_dir()} == {0o700}


@pytest.mark.usefixtures("shared_umask")
def test_a_platform_that_is_served_by_hand_makes_private_folders(home: Home) -> None:
    folder = home.path / "new" / "data"
    home.forked = False
    with subprocess.Popen(
        [sys.executable, "-m", "service", "--data-dir", str(folder), "--world", "empty"],
        env=home.environment(),
        stderr=subprocess.PIPE,
    ) as served:
        assert served.stderr is not None
        try:
            assert served.stderr.readline()
            assert mode(folder) == mode(folder.parent) == 0o700
        finally:
            served.terminate()


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o077, 0o277])
def test_missing_parents_are_private_and_existing_ones_are_kept(tmp_path: Path, umask: int) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    (tmp_path / "there").chmod(0o755)
    former = os.umask(umask)
    try:
        for path in (tmp_path / "there" / "a" / "b", f"{tmp_path / 'there' / 'a' / 'b'}/"):
            make_private(str(path))
    finally:
        os.umask(former)
    assert mode(tmp_path / "there") == 0o755
    assert mode(tmp_path / "there" / "a") == mode(tmp_path / "there" / "a" / "b") == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="exists"):
        make_private(str(tmp_path / "file"))


def test_a_folder_of_ours_that_others_can_write_is_repaired_with_one_line(demo: Home) -> None:
    assert demo.frost("config", "set", "region", "fi-hel-1").code == 0
    for name in (".cli", ".cli/platform"):
        folder = demo.path / name
        folder.chmod(0o775)
        done = demo.frost("whoami")
        warning = f"frost: warning: the folder {folder} was writable by other users; its mode is now 0700\n"
        assert (done.code, done.err, mode(folder)) == (0, warning, 0o700)
        assert demo.frost("whoami").err == ""
    (demo.path / ".cli").chmod(0o775)
    with screens(demo) as program:
        program.wait_for("Web Shop")
        assert program.raw().count(b"was writable by other users") == 1
    assert mode(demo.path / ".cli") == 0o700
    # Behind a link as well.
    (demo.path / "dotfiles").mkdir()
    (demo.path / ".cli").rename(demo.path / "dotfiles" / "cli")
    (demo.path / ".cli").symlink_to("dotfiles/cli")
    (demo.path / "dotfiles" / "cli").chmod(0o777)
    done = demo.frost("whoami")
    assert (done.code, len(done.err.splitlines())) == (0, 1)
    assert mode(demo.path / "dotfiles" / "cli") == 0o700


def test_a_shared_folder_of_the_users_choice_is_refused_unchanged(demo: Home) -> None:
    chosen = demo.path / "project"
    chosen.mkdir()
    chosen.chmod(0o775)
    (chosen / "config.yaml").write_text("region: fi-hel-1\n")
    done = demo.frost("--config", str(chosen / "config.yaml"), "whoami")
    assert done.code == 2
    assert "is writable by other users" in done.err
    assert f"chmod go-w {chosen}" in done.err
    assert mode(chosen) == 0o775


@pytest.mark.parametrize("name", ["platform.log", "platform.lock"])
@pytest.mark.parametrize("starter", ["command", "service"])
def test_a_link_in_place_of_a_file_of_the_platform_is_refused(home: Home, name: str, starter: str) -> None:
    target, path = home.path / "target", home.platform_dir / name
    target.write_text("precious\n")
    make_private(str(home.platform_dir))
    path.symlink_to(target)
    program, *words = ["tui", "whoami"] if starter == "command" else ["service", "--data-dir", str(home.platform_dir)]
    code, _, err = forking.run(
        program, words, stdin=b"", environment=home.environment(), folder=str(home.path), timeout=120
    )
    assert (code, err.decode()) == {
        "command": (2, f"frost: {path} is a link, which frost does not follow. Remove it: rm {path}\n"),
        "service": (1, f"frost platform: {path} is a link, which the platform does not follow; remove it: rm {path}\n"),
    }[starter]
    assert target.read_text() == "precious\n"
    assert home.platform_pid() is None


def test_a_pipe_in_place_of_the_lock_or_the_log_is_refused(home: Home) -> None:
    make_private(str(home.platform_dir))
    for name in ("platform.log", "platform.lock"):
        os.mkfifo(home.platform_dir / name)
        done = home.frost("whoami")
        (home.platform_dir / name).unlink()  # the helpers of the tests would read it
        assert done.code == 2
        assert str(home.platform_dir / name) in done.err


def test_a_log_with_a_bound_rotates_at_the_start_and_later_and_keeps_some_generations(demo: Home) -> None:
    log = demo.platform_dir / "platform.log"
    generations = [log.with_name(f"platform.log.{number}") for number in range(1, GENERATIONS + 1)]

    def rotate() -> bytes:
        """Send requests until the log is rotated once more; return the newest generation."""
        earlier = content(generations[0])
        while content(generations[0]) in (earlier, b"") or not log.exists():
            demo.request("GET", "/api/v1/tenants")
        return content(generations[0])

    log.write_text("old\n" * 5_000)
    assert demo.frost("whoami", env={"FROST_PLATFORM_LOG_MEGABYTES": "0"}).code == 0
    assert log.read_text().startswith("old")
    assert demo.frost("platform", "stop").code == 0
    assert demo.frost("whoami", env={"FROST_PLATFORM_LOG_MEGABYTES": "0.01"}).code == 0
    assert generations[0].read_text().startswith("old")
    assert "old" not in log.read_text()
    for _ in generations:
        newest = rotate()
    rotate()
    assert [path.exists() for path in generations] == [True] * GENERATIONS
    assert not log.with_name(f"platform.log.{GENERATIONS + 1}").exists()
    assert generations[1].read_bytes() == newest
    for path in [log, *generations]:
        assert mode(path) == 0o600
        assert path.stat().st_size < 0.01 * 1024 * 1024 + 4_096
        assert all(line.endswith(b"}\n") for line in path.read_bytes().splitlines(keepends=True))
