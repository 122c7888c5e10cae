"""Processes of frost that begin with their modules loaded: each is forked from one that has done nothing else.

A command or a platform begun here is a process of its own, with its own arguments, environment, folder, files and
signals, and runs what `python -m tui` or `python -m service` runs; what it does without is the half second of imports.
So it serves every test but those about the start of a process, the interpreter, and what is loaded when: they have
theirs from `subprocess` or `tests.terminal`.
"""

import atexit
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

NURSERY = "NURSERY"
"""In the environment of a command: the socket where the platform that it starts is forked; without it, it is
executed."""
_LENGTH = 4  # bytes before a message
_INTERPRETERS_OWN = ("PYTHON", "LC_", "LANG")


class Forked:
    """A process that was forked for us; what `subprocess.Popen` has of waiting and signals, with the same meaning."""

    def __init__(
        self,
        nursery: Path,
        program: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: str,
        files: tuple[int, int, int],
        *,
        session: bool = False,
    ) -> None:
        self.returncode: int | None = None
        self._line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._line.connect(str(nursery))
        wish = [program, list(arguments), dict(environment), folder, session]
        content = json.dumps(wish).encode("utf-8", "surrogateescape")
        socket.send_fds(self._line, [len(content).to_bytes(_LENGTH, "big")], list(files))
        self._line.sendall(content)
        self.pid = int.from_bytes(_exactly(self._line, _LENGTH), "big")

    def poll(self) -> int | None:
        """How it ended; None while it runs. Negative: the signal that ended it."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._status(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return status

    def _status(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._line, selectors.EVENT_READ)
                if selector.select(timeout):
                    self.returncode = int.from_bytes(_exactly(self._line, _LENGTH), "big", signed=True)
                    self._line.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run(
    program: str,
    arguments: Sequence[str],
    *,
    stdin: bytes,
    environment: Mapping[str, str],
    folder: str,
    timeout: float,
) -> tuple[int, bytes, bytes]:
    """Run a program as a script would, no stream being a terminal; its exit status and what it printed.

    Raises:
        subprocess.TimeoutExpired: it was still running, and was killed.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin)
        given.seek(0)
        files = (given.fileno(), out.fileno(), err.fileno())
        process = Forked(nursery(), program, arguments, environment, folder, files)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return status, _content(out), _content(err)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether the environment says nothing of its own that the interpreter reads at its start."""
    return all(
        value in (os.environ.get(name), "C.UTF-8")
        for name, value in environment.items()
        if name.startswith(_INTERPRETERS_OWN)
    )


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _exactly(line: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = line.recv(count - len(content))
        if not part:
            raise EOFError("the nursery is gone")
        content += part
    return content


# The nursery

_LOADED_LATER = (
    "dbos",
    "psycopg",
    "ruamel.yaml",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "uvicorn.lifespan.off",
    "uvicorn.loops.uvloop",
    "yaml",
)
"""What neither imports at its top."""
_running: list[Path] = []


def nursery() -> Path:
    """The socket of this process's nursery; it ends with this process."""
    if not _running:
        folder = Path(tempfile.mkdtemp(prefix="nursery-"))
        path = folder / "sock"
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(path)],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parent.parent,
            start_new_session=True,
        )
        while not path.exists():
            assert process.poll() is None, "the nursery has not started"
            time.sleep(0.01)

        def end() -> None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
            path.unlink(missing_ok=True)
            folder.rmdir()

        atexit.register(end)
        _running.append(path)
    return _running[0]


def _load() -> None:
    """Everything that a command or a platform may come to import."""
    import importlib
    import pkgutil

    import client
    import service

    for package in (client, service):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "versions" not in module.name:
                importlib.import_module(module.name)
    for name in ("tui.__main__", *_LOADED_LATER):
        importlib.import_module(name)
    # A thread would not come along.
    assert len(list(Path("/proc/self/task").iterdir())) == 1


def _serve(path: Path) -> None:
    """Fork what is asked for until standard input ends; returns nothing, and in no child."""
    import gc

    _load()
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    ready = path.with_suffix(".new")
    listener.bind(str(ready))
    listener.listen(64)
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    signal.set_wakeup_fd(woken.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    lines: dict[int, socket.socket] = {}
    ready.rename(path)
    with selectors.DefaultSelector() as selector:
        for source in (0, listener, wake):
            selector.register(source, selectors.EVENT_READ)
        while True:
            sources = [key.fileobj for key, _ in selector.select()]
            if 0 in sources:
                return
            if wake in sources:
                wake.recv(4096)
                _tell_ended(lines)
            if listener in sources:
                line = listener.accept()[0]
                pid = _fork(line, path)
                lines[pid] = line
                line.sendall(pid.to_bytes(_LENGTH, "big"))
                # One that has ended already rang before it was known here.
                _tell_ended(lines)


def _tell_ended(lines: dict[int, socket.socket]) -> None:
    while lines:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        # Whoever asked for it may be gone.
        with lines.pop(pid) as line, suppress(OSError):
            line.sendall(os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, "big", signed=True))


def _fork(line: socket.socket, path: Path) -> int:
    first, files, _, _ = socket.recv_fds(line, _LENGTH, 3)
    content = _exactly(line, int.from_bytes(first, "big"))
    wish = json.loads(content)
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        return pid
    status = 1
    try:
        status = _become(files, *wish)
    finally:
        os._exit(status)


def _become(
    files: Sequence[int], program: str, arguments: list[str], environment: dict[str, str], folder: str, session: bool
) -> int:
    """Be the program that was asked for; the exit status of its process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 1024)
    if session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdin = os.fdopen(0, encoding=encoding, errors=errors, closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding=encoding, errors=errors, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding=encoding, errors="backslashreplace", buffering=1, closefd=False)
    main = sys.modules[f"{program}.__main__"].main
    sys.argv = [str(sys.modules[f"{program}.__main__"].__file__), *arguments]
    try:
        status = main()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    import threading

    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return int(status or 0)


# The platform that a command or a screen starts


class _Popen(subprocess.Popen[bytes]):
    """Forks the platform of who has a nursery; anything else is executed."""

    def __new__(cls, words: Any, *_: Any, **options: Any) -> Any:
        environment = options.get("env") or {}
        if NURSERY not in environment or "service" not in words:
            return super().__new__(cls)
        with Path(os.devnull).open() as nothing:
            files = (nothing.fileno(), options["stdout"], options["stderr"])
            arguments, folder = words[words.index("service") + 1 :], options["cwd"]
            return Forked(Path(environment[NURSERY]), "service", arguments, environment, folder, files, session=True)


subprocess.Popen = _Popen  # type: ignore[misc]


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
