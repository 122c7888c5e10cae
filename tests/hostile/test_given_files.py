"""`--document @…` as an attack: devices, pipes, folders and files of others."""

import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest

from client.commands.iam import inputs
from client.commands.invocation import Invocation
from client.errors import Exit, FrostError

NOBODY_ASKS = cast(Invocation, None)
GOOD = '{"schemaVersion":"1","rules":[{"access":"allow","operations":["*"],"targets":["*"]}]}'


def refused(path: str | Path, silent_seconds: float = inputs.SILENT_SECONDS) -> FrostError:
    with pytest.raises(FrostError) as caught:
        inputs.read_document(NOBODY_ASKS, f"@{path}", silent_seconds=silent_seconds)
    assert caught.value.exit_code == Exit.USAGE
    return caught.value


def text_of(error: FrostError) -> str:
    return f"{error.message}\n{error.hint}\n{error.details}\n{error.document()}".replace("\\x00", "")


def test_devices_folders_and_files_without_end_are_refused(tmp_path: Path) -> None:
    for path in ("/dev/zero", "/dev/urandom", "/dev/null", "/dev/tty", "/proc", "/tmp"):
        reasons = ("a device, not a file", "a directory, not a file", "cannot be read")
        assert any(reason in refused(path).message for reason in reasons), path
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(8 * 1024 * 1024 * 1024)  # sparse: read whole it would fill the memory
    assert "larger than 1 MiB" in refused(large).message


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_silent_pipe_is_refused_after_a_while(pipe: Path) -> None:
    writer = os.open(pipe, os.O_RDWR)
    release = threading.Timer(20, os.close, [writer])  # lets go of a reader that waits for ever
    release.start()
    assert "is a pipe without data" in refused(pipe, 0.2).message
    release.cancel()
    os.close(writer)


def test_a_pipe_without_end_is_read_to_the_limit_and_refused(pipe: Path) -> None:
    def flood() -> None:
        with suppress(BrokenPipeError), pipe.open("wb", buffering=0) as file:
            while True:
                file.write(b"[" * 65536)

    writer = threading.Thread(target=flood, daemon=True)
    writer.start()
    assert "larger than 1 MiB" in refused(pipe).message
    writer.join(10)


def test_a_document_in_pieces_through_a_pipe_is_read_whole(pipe: Path) -> None:
    """As `<(command)` gives it."""
    opened = os.open(pipe, os.O_RDWR)

    def write() -> None:
        for place in range(0, len(GOOD), 20):
            os.write(opened, GOOD[place : place + 20].encode())
            time.sleep(0.01)
        os.close(opened)

    threading.Thread(target=write, daemon=True).start()
    assert inputs.read_document(NOBODY_ASKS, f"@{pipe}").text == GOOD


def test_other_files_are_refused_without_a_word_of_them(tmp_path: Path) -> None:
    for path in ("../../../../../../../../etc/passwd", "/etc/passwd", "/proc/self/environ"):
        content = Path("/etc/passwd").read_text() if path.endswith("passwd") else "\0".join(os.environ.values())
        shown = text_of(refused(path))
        words = {word for word in re.split("[\0\n:]", content) if len(word) > 5 and word not in path}
        assert [word for word in words if word in shown] == []
    private = tmp_path / "private"
    for content in (
        *(b"hush-hush", b'{"hush-hush": 1', b'{"a": hush-hush}', b"hush-hush \xff", b"hush-hush\n" * 200_000),
        b"\xff\xfeh\0u\0s\0h\0-\0h\0",
    ):
        private.write_bytes(content)
        assert "hush-" not in text_of(refused(private)), content[:20]
