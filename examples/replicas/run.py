"""Several replicas of the platform on this machine, behind a balancer, on one PostgreSQL database.

    python examples/replicas/run.py                                   # with a PostgreSQL of its own, in its folder
    python examples/replicas/run.py --database postgresql://db/frost  # with yours

A replica that ends is started again, as systemd does with the units beside this file. All of them share the database
and one secret file (with the local issuer's signing key beside it), nothing else: each has a data folder of its own for
its unix socket, lock and log. The folder holds secrets, so git is told to leave it alone. Ctrl-C ends them all.
"""

import argparse
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAUSE_SECONDS = 0.5


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on; held all at once, so that they differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


class Replica:
    """One process of the platform, always on the same port."""

    def __init__(self, number: int, port: int, folder: Path, database: str, flags: list[str]) -> None:
        self.number, self.port, self.folder = number, port, folder / f"replica-{number}"
        self.command = [sys.executable, "-m", "service", "--data-dir", str(self.folder)]
        self.command += ["--database", database, "--secret-file", str(folder / "secret.key")]
        self.command += ["--listen", f"127.0.0.1:{port}", *flags]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(mode=0o700, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                # The balancer is the one whose X-Forwarded-For is believed.
                env={"FROST_PLATFORM_PROXIES": "127.0.0.1", **os.environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        say(f"replica {self.number}: process {self.process.pid}, port {self.port}, {self.folder / 'api.sock'}")

    def keep(self) -> None:
        """Start it again if it has ended."""
        if self.process is not None and self.process.poll() is not None:
            say(f"replica {self.number}: ended with status {self.process.returncode}, starting it again")
            self.start()


@contextlib.contextmanager
def own_postgresql(folder: Path) -> Iterator[str]:
    """The URL of a PostgreSQL of this folder's own, running meanwhile; of the system's newest binaries."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    found = shutil.which("initdb")
    if not programs and not found:
        sys.exit("no PostgreSQL on this machine: install it (apt install postgresql), or name one with --database")
    binaries = programs[-1] if programs else Path(str(found)).parent
    home = folder / "postgresql"
    # It refuses to run as root.
    user = "postgres" if os.getuid() == 0 and any(one.pw_name == "postgres" for one in pwd.getpwall()) else None
    new = not (home / "data").exists()
    if new:
        home.mkdir(mode=0o700)
        if user:
            shutil.chown(home, user, user)
            folder.chmod(0o711)
        initialise = [binaries / "initdb", "-D", "data", "-U", "frost", "--auth=trust", "--encoding=UTF8"]
        done = subprocess.run(initialise, cwd=home, user=user, check=False, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"PostgreSQL cannot keep its data in {home}: {done.stderr.strip().splitlines()[-1]}")
    with (home / "log").open("ab") as log:
        settings = ["-c", "listen_addresses=", "-k", str(home)]
        server = subprocess.Popen(
            [binaries / "postgres", "-D", "data", *settings], cwd=home, user=user, stdout=log, stderr=log
        )
    try:
        while subprocess.run([binaries / "pg_isready", "-q", "-h", str(home)], user=user, check=False).returncode:
            if server.poll() is not None:
                sys.exit(f"PostgreSQL did not start; its log: {home / 'log'}")
            time.sleep(0.1)
        if new:
            subprocess.run([binaries / "createdb", "-h", str(home), "-U", "frost", "frost"], user=user, check=True)
        yield f"postgresql://frost@/frost?host={home}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Replicas of the platform behind a balancer, on this machine.")
    parser.add_argument("--replicas", type=int, default=2, metavar="N")
    parser.add_argument("--listen", default="127.0.0.1:8080", metavar="HOST:PORT", help="where the balancer answers")
    parser.add_argument("--database", metavar="URL", help="postgresql://…; default: one of its own")
    parser.add_argument("--folder", default="frost-replicas", metavar="DIR", help="secret, logs and sockets")
    parser.add_argument("--world", default="demo", help="what a new database starts with")
    parser.add_argument("--issuer", help="your identity provider; default: the local one, on each replica's socket")
    given = parser.parse_args()
    folder = Path(given.folder).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # It is made where this is called, often in a clone, and holds secrets.
    (folder / ".gitignore").write_text("*\n")
    say(f"secret, keys, logs and sockets: {folder} (git leaves it alone); Ctrl-C ends all")
    flags = ["--world", given.world, *(["--issuer", given.issuer] if given.issuer else [])]
    # Ends like Ctrl-C, so that whatever was started ends too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.ExitStack() as running, contextlib.suppress(KeyboardInterrupt):
        database = given.database or running.enter_context(own_postgresql(folder))
        ports = free_ports(given.replicas)
        replicas = [Replica(number, port, folder, database, flags) for number, port in enumerate(ports, 1)]
        running.callback(end, replicas)
        for replica in replicas:
            replica.start()
        backends = [f"127.0.0.1:{port}" for port in ports]
        balancer = subprocess.Popen([sys.executable, HERE / "balancer.py", given.listen, *backends])
        running.callback(balancer.wait)
        running.callback(balancer.terminate)
        while balancer.poll() is None:
            time.sleep(PAUSE_SECONDS)
            for replica in replicas:
                replica.keep()
    say(f"ended; the next run with {folder} goes on with the same data")


def end(replicas: list[Replica]) -> None:
    """Ask all of them to end, and wait until they have."""
    processes = [replica.process for replica in replicas if replica.process is not None]
    say("ending: each replica answers what it was asked, and pauses its operations at a step")
    for process in processes:
        process.terminate()
    for process in processes:
        process.wait()


if __name__ == "__main__":
    main()
