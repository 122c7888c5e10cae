"""Processes of frost that start with their modules loaded, forked from a process that only imports.

A command or a platform started here is a process with its own arguments, environment, folder, files and signals. It
runs the same code as `python -m tui` or `python -m service` without half a second of imports. Tests about the start of
a process, the interpreter and the order of imports use `subprocess` or `tests.terminal`.
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
"""The environment variable with the socket where a command's platform is forked; without it, it is executed."""
_LENGTH = 4  # bytes before a message


class Forked:
    """A forked process with the methods of `subprocess.Popen` for waiting and signals."""

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
        order = [program, list(arguments), dict(environment), folder, session]
        content = json.dumps(order).encode("utf-8", "surrogateescape")
        socket.send_fds(self._line, [len(content).to_bytes(_LENGTH, "big")], list(files))
        self._line.sendall(content)
        self.pid = int.from_bytes(_exactly(self._line, _LENGTH), "big")

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while it runs."""
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
    program: str, arguments: Sequence[str], *, stdin: bytes, environment: Mapping[str, str], folder: str, timeout: float
) -> tuple[int, bytes, bytes]:
    """Run a program without a terminal; return its exit status and its output. Empty input is the null device.

    Raises:
        subprocess.TimeoutExpired: it was still running, and was killed.
    """
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile() as content,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        content.write(stdin)
        content.seek(0)
        source = content if stdin else nothing
        files = (source.fileno(), out.fileno(), err.fileno())
        process = Forked(nursery(), program, arguments, environment, folder, files)
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return status, _content(out), _content(err)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Return whether the environment changes no variable that the interpreter reads at its start."""
    return all(
        value in (os.environ.get(name), "C.UTF-8")
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LC_", "LANG"))
    )


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _exactly(line: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = line.recv(count - len(content))
        if not part:
            raise EOFError("the nursery has ended")
        content += part
    return content


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
"""Modules that are imported inside functions."""
_running: list[Path] = []


def nursery() -> Path:
    """Return the socket of this process's nursery, which ends with this process."""
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
    # A fork has no other threads.
    assert len(list(Path("/proc/self/task").iterdir())) == 1


def _serve(path: Path) -> None:
    """Fork processes until standard input ends; never returns in a child."""
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
                _report_ended(lines)
            if listener in sources:
                line = listener.accept()[0]
                pid = _fork(line, path)
                lines[pid] = line
                line.sendall(pid.to_bytes(_LENGTH, "big"))
                # Its end may have been signalled before its line was stored.
                _report_ended(lines)


def _report_ended(lines: dict[int, socket.socket]) -> None:
    while lines:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        # The other end may be closed.
        with lines.pop(pid) as line, suppress(OSError):
            line.sendall(os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, "big", signed=True))


def _fork(line: socket.socket, path: Path) -> int:
    first, files, _, _ = socket.recv_fds(line, _LENGTH, 3)
    content = _exactly(line, int.from_bytes(first, "big"))
    order = json.loads(content)
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        return pid
    status = 1
    try:
        status = _become(files, *order)
    finally:
        os._exit(status)


def _become(
    files: Sequence[int], program: str, arguments: list[str], environment: dict[str, str], folder: str, session: bool
) -> int:
    """Run a program in this process; return its exit status."""
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

    threading._shutdown()  # type: ignore[attr-defined]  # as the interpreter does at its end
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return int(status or 0)


class _Popen(subprocess.Popen[bytes]):
    """Fork the platform of a command with a nursery; execute other programs."""

    def __new__(cls, words: Any, *_: Any, **options: Any) -> Any:
        environment = options.get("env") or {}
        if NURSERY not in environment or "service" not in words:
            return super().__new__(cls)
        with Path(os.devnull).open() as nothing:
            files = (nothing.fileno(), options["stdout"], options["stderr"])
            arguments, folder = words[words.index("service") + 1 :], options["cwd"]
            return Forked(Path(environment[NURSERY]), "service", arguments, environment, folder, files, session=True)


subprocess.Popen = _Popen  # type: ignore[misc,assignment]


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
