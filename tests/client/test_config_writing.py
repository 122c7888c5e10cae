"""Changes to the configuration file, its locks and crashes."""

import errno
import fcntl
import json
import os
import re
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from client.config import file as config_file
from client.config import writer as config_writer
from client.config.reader import load
from client.config.writer import edit, quoted
from client.errors import Exit, FrostError

HOME = {"HOME": "/home/ada"}
COMMENTED = """\
# what this machine talks to
future: 0123   # a member of a later version
when: 12:30:45
hex: 0x1F
yes: no
nothing: ~
loud: TRUE
day: 2026-1-1
current_context: prod
contexts:
  # the real one
  prod:   # do not touch
    region: "r1"
    later: [1, 2, 3]
    text: |
      two
      lines
  local:
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "home" / ".cli" / "config.yaml"


def written(file: Path, text: str) -> str:
    file.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    file.parent.chmod(0o700)
    file.write_text(text)
    file.chmod(0o600)
    return str(file)


def set_region(path: str | Path, region: str, context: str = "prod") -> None:
    with edit(str(path)) as document:
        document.context(context)["region"] = quoted(region)


def test_comments_and_unknown_members_survive_as_they_were_typed(file: Path) -> None:
    path = written(file, COMMENTED)
    set_region(path, "r2")
    after = file.read_text()
    assert after.startswith(COMMENTED.replace('"r1"', '"r2"'))
    assert re.fullmatch(r'file_id: "?[0-9a-f]{16}"?\n', after[len(COMMENTED) :])
    assert load(path, environ=HOME).contexts["prod"].region == "r2"


def test_a_change_that_changes_nothing_writes_nothing(file: Path) -> None:
    path = written(file, "contexts:   {prod:  {region: r1}}  # odd spacing\n")
    before = (file.read_text(), file.stat().st_mtime_ns)
    set_region(path, "r1")
    assert (file.read_text(), file.stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    "region", ["no", "0123", "12:30:45", "1e3", "~", "", "null", "- a", "x: y", "#x", "2026-01-01", "<<", "日本"]
)
def test_values_mean_the_same_to_every_yaml_reader(file: Path, region: str) -> None:
    import yaml

    set_region(file, region)
    assert yaml.safe_load(file.read_text())["contexts"]["prod"]["region"] == region
    assert load(str(file), environ=HOME).contexts["prod"].region == region


def test_a_write_makes_folder_and_file_private(file: Path) -> None:
    previous = os.umask(0)
    try:
        set_region(file, "r1")
    finally:
        os.umask(previous)
    assert (file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)
    config = load(str(file), environ=HOME)
    assert (list(config.contexts), config.current_context) == (["local", "prod"], "local")
    assert re.fullmatch("[0-9a-f]{16}", config.file_id)
    file.chmod(0o644)
    set_region(file, "r2")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_flat_file_stays_flat_until_it_gets_a_second_context(file: Path) -> None:
    path = written(file, "api_endpoint: https://h.example/api\napi_key: K\noutput_format: json # mine\n")
    set_region(path, "r1", "default")
    assert load(path, environ=HOME).flat
    set_region(path, "r2", "other")
    config = load(path, environ=HOME)
    assert (config.flat, config.output_format) == (False, "json")
    assert (config.current_context, list(config.contexts)) == ("default", ["default", "other"])
    default = config.contexts["default"]
    assert (default.api_endpoint, default.region) == ("https://h.example/api", "r1")
    assert default.credentials.api_key == "K"


def test_a_change_that_fails_leaves_the_file_and_the_lock(file: Path) -> None:
    for text in ("a: [\n", "a: 1\na: 2\n", "a: !!python/none x\n", "- list\n"):
        path = written(file, text)
        with pytest.raises(FrostError) as caught:
            set_region(path, "r2")
        assert caught.value.exit_code == Exit.USAGE
        assert (file.read_text(), temporaries(file)) == (text, [])
    path = written(file, COMMENTED)
    with pytest.raises(FrostError, match="tags"), edit(path) as document:
        document.context("prod")["number"] = 5  # every value is text here; this would be written with a tag
    with pytest.raises(ZeroDivisionError), edit(path) as document:
        document.data["a"] = 1 / 0
    file.parent.chmod(0o770)
    with pytest.raises(FrostError, match="writable by other users"):
        set_region(path, "r2")
    assert file.read_text() == COMMENTED
    file.parent.chmod(0o700)
    set_region(path, "r2")


def test_a_link_of_this_user_is_read_and_written_through(file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "frost.yaml"
    written(real, COMMENTED)
    file.parent.mkdir(parents=True, mode=0o700)
    file.symlink_to("../../home/../dotfiles/frost.yaml")
    set_region(file, "r2")
    assert file.is_symlink()
    assert load(str(file), environ=HOME).contexts["prod"].region == "r2"
    assert 'region: "r2"' in real.read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can plant another user's link")
@pytest.mark.parametrize("name", ["config.yaml", "config.yaml.lock"])
def test_a_planted_link_is_never_written_through(file: Path, tmp_path: Path, name: str) -> None:
    written(file, COMMENTED)
    target = tmp_path / "precious"
    target.write_text("precious")
    link = file.with_name(name)
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    with pytest.raises(FrostError):
        set_region(file, "r2")
    assert target.read_text() == "precious"


WRITER = """
import sys
from client.config.writer import edit
for turn in range(15):
    with edit(sys.argv[1]) as document:
        document.map("keys")[f"{sys.argv[2]}{turn}"] = "x"
"""


HOLDER = """
import sys, time
from client.config import file
held = file.locked(sys.argv[1]) if sys.argv[2] == "locked" else file.refreshing(sys.argv[1], seconds=5)
with held:
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def held_by_a_process(path: str, lock: str) -> Iterator[None]:
    """A lock that another process holds; at the end the process is killed."""
    words = [sys.executable, "-c", HOLDER, path, lock]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"held\n"
            yield
        finally:
            holder.kill()


@pytest.mark.process
def test_no_change_of_two_writing_processes_is_lost(file: Path) -> None:
    path = written(file, COMMENTED)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, path, name]) for name in "ab"]
    while any(writer.poll() is None for writer in writers):
        load(path, environ=HOME)  # a reader never meets a half-written file
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert set(load(path, environ=HOME).keys) == {f"{name}{turn}" for name in "ab" for turn in range(15)}


def test_no_change_of_two_writing_threads_is_lost(file: Path) -> None:
    path = written(file, COMMENTED)

    def change(name: str) -> None:
        for turn in range(5):
            with edit(path) as document:
                document.map("keys")[f"{name}{turn}"] = "x"

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(change, "ab"))
    assert len(load(path, environ=HOME).keys) == 10


KILLED = textwrap.dedent("""
    import json, os, signal, sys
    from pathlib import Path
    from client.config import file as config_file
    from client.config.writer import edit

    file, old = Path(sys.argv[1]), Path(sys.argv[1]).read_text()
    new = old.replace('"r1"', '"r2"')

    def change():
        with edit(str(file)) as document:
            document.context("prod")["region"] = "r2"

    def killed_at(left):
        def step(frame, event, argument):
            nonlocal left
            if frame.f_code.co_filename != config_file.__file__:
                return None
            if event == "line":
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return step
        sys.settrace(step)
        change()
        os._exit(7)

    change()  # everything is imported before the first child
    steps = leftovers = status = 0
    outcomes, modes = set(), set()
    while not os.WIFEXITED(status) or steps == 0:
        file.write_text(old)
        child = os.fork()
        if child == 0:
            killed_at(steps)
        status = os.waitpid(child, 0)[1]
        outcomes.add({old: "old", new: "new"}.get(file.read_text(), "half"))
        stale = list(file.parent.glob(".config.yaml-*.tmp"))
        leftovers += len(stale)
        modes |= {oct(one.stat().st_mode & 0o777) for one in stale}
        for one in stale:
            one.unlink()
        steps += 1
    print(json.dumps([steps, leftovers, sorted(outcomes), sorted(modes), os.WEXITSTATUS(status)]))
""")


@pytest.mark.slow
def test_killed_before_any_line_of_a_write_the_file_is_old_or_new(file: Path) -> None:
    """kill -9 before the first line of client/config/file.py that a write runs, before the second, … to the last."""
    path = written(file, COMMENTED + "file_id: abcdef0123456789\n")
    steps, leftovers, outcomes, modes, ended = json.loads(output_of(KILLED, path))
    assert outcomes == ["new", "old"]
    assert modes == ["0o600"]
    assert leftovers > 0  # some kills did hit between the temporary file and its new name
    assert (steps > 60, ended) == (True, 7)


def test_leftovers_of_a_killed_write_are_removed_by_the_next(file: Path) -> None:
    """Two files of one folder have two locks: the temporary file of the other one stays."""
    path = written(file, COMMENTED)
    leftover = file.parent / ".config.yaml-0011223344556677.tmp"
    others = [file.parent / name for name in (".other.yaml-0011223344556677.tmp", ".config.yaml-notes.tmp")]
    for one in (leftover, *others):
        one.write_text("half")
    set_region(path, "r2")
    assert [one.exists() for one in (leftover, *others)] == [False, True, True]


@pytest.mark.process
def test_a_full_disk_leaves_the_file_and_is_reported(file: Path) -> None:
    path = written(file, COMMENTED)
    code = textwrap.dedent("""
        import resource, signal, sys
        from client.config.writer import edit
        from client.errors import FrostError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with edit(sys.argv[1]) as document:
            document.map("keys")["warm"] = "up"
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        try:
            with edit(sys.argv[1]) as document:
                document.context("prod")["region"] = "r2"
        except FrostError as error:
            print(error.code, error.message)
    """)
    assert "CONFIG_NOT_WRITTEN" in output_of(code, path)
    assert load(path, environ=HOME).contexts["prod"].region == "r1"
    assert temporaries(file) == []


def test_a_failed_sync_of_the_folder_reports_that_the_file_was_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(file, COMMENTED)
    sync = os.fsync

    def fail_for_folders(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail_for_folders)
    with pytest.raises(FrostError) as refused:
        set_region(path, "r2")
    assert load(path, environ=HOME).contexts["prod"].region == "r2"
    assert refused.value.hint == "the file was written, but may be lost if the machine fails now"


def test_a_replaced_file_is_kept_beside_the_new_one(file: Path) -> None:
    path = written(file, "damaged: [\n")
    kept = config_writer.replaced(path, lambda document: document.map("defaults").update(output_format="json"))
    assert kept is not None
    assert Path(kept).read_text() == "damaged: [\n"
    assert load(path, environ=HOME).output_format == "json"


def temporaries(file: Path) -> list[Path]:
    return list(file.parent.glob(".config.yaml-*.tmp"))


def output_of(program: str, path: str) -> str:
    words = [sys.executable, "-c", program, path]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def locks(file: Path) -> list[str]:
    return sorted(lock.name for lock in file.parent.glob("*.lock"))


def lock_of_the_provider(file: Path, age: float = 0) -> Path:
    """What its client makes exclusively, and removes in the end: an empty file whose existence is the lock."""
    lock = file.with_name("config.yaml.lock")
    os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.utime(lock, (time.time() - age,) * 2)
    return lock


def test_a_write_and_a_refresh_leave_no_lock_and_block_others(file: Path) -> None:
    path, lock = written(file, COMMENTED), file.with_name("config.yaml.lock")
    set_region(path, "r2")
    assert locks(file) == []
    with config_file.refreshing(path, seconds=5):
        set_region(path, "r3")
        # It is there for the whole refresh: two refreshes with one token would end the session.
        assert locks(file) == ["config.yaml.lock"]
    assert locks(file) == []
    with edit(path):
        with pytest.raises(FileExistsError):
            lock_of_the_provider(file)
        # The provider treats a lock older than 120 s as abandoned.
        assert abs(time.time() - lock.stat().st_mtime) < 60
        # An earlier release takes a `flock` on the file.
        with lock.open("r+") as former, pytest.raises(BlockingIOError):
            fcntl.flock(former, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock_of_the_provider(file)


def test_a_young_lock_of_the_provider_is_respected(file: Path) -> None:
    path, lock = written(file, COMMENTED), lock_of_the_provider(file, age=60)
    started = time.monotonic()
    with pytest.raises(FrostError, match="another process") as caught, config_file.locked(path, seconds=0.2):
        pass
    assert 0.2 <= time.monotonic() - started < config_file.LOCK_SECONDS
    assert caught.value.exit_code == Exit.CONFLICT
    assert "Terraform" in caught.value.hint
    with pytest.raises(FrostError, match="another process"), config_file.refreshing(path, seconds=0.2):
        pass
    assert lock.exists()
    assert file.read_text() == COMMENTED
    # Its holder may end while the writer waits.
    threading.Timer(0.5, lock.unlink).start()
    with config_file.locked(path, seconds=30):
        pass
    assert locks(file) == []


def test_an_old_lock_is_removed_unless_a_process_of_an_earlier_release_holds_it(file: Path) -> None:
    """Of a dead process, or of an earlier release, which never removed its own."""
    path = written(file, COMMENTED)
    for age in (121, 86_400, -86_400):
        lock_of_the_provider(file, age)
        file.with_name("config.yaml.refresh.lock").touch()
        set_region(path, f"r{age}")
        assert f'region: "r{age}"' in file.read_text()
        assert locks(file) == []
    for name in ("config.yaml.lock", "config.yaml.refresh.lock"):
        lock = file.with_name(name)
        with lock.open("w") as held:
            os.utime(lock, (time.time() - 3600,) * 2)
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(FrostError, match="another process"), config_file.refreshing(path, seconds=0.2):
                pass
            assert lock.exists()
        with config_file.refreshing(path, seconds=5):
            pass
        assert locks(file) == []


@pytest.mark.process
def test_the_lock_of_another_process_is_left_while_it_lives(file: Path) -> None:
    path = written(file, COMMENTED)
    with held_by_a_process(path, "refreshing"):
        set_region(path, "r2")
        assert locks(file) == ["config.yaml.lock"]
    for lock in ("locked", "refreshing"):
        with held_by_a_process(path, lock):
            assert locks(file) == ["config.yaml.lock"]
        assert locks(file) == ["config.yaml.lock"]
        set_region(path, "r2")
        assert locks(file) == []


def test_a_file_system_without_hard_links_is_written_to(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*paths: object, **more: object) -> None:
        raise PermissionError(errno.EPERM, "no links here")

    path = written(file, COMMENTED)
    monkeypatch.setattr(os, "link", refused)
    set_region(path, "r2")
    lock_of_the_provider(file)
    with pytest.raises(FrostError, match="another process"), config_file.locked(path, seconds=0.2):
        pass
