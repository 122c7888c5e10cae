"""A real Secret Service: its own message bus and gnome-keyring, separate from the user's."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.waiting import until

NEEDED = ("dbus-daemon", "gnome-keyring-daemon")
BUS_CONFIGURATION = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path={socket}</listen>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
"""A session bus without service folders: it never starts a keyring by itself."""
PASSWORD = "unlocked by the test"


def missing() -> str:
    """Which of the programs is not installed; empty when all are."""
    return ", ".join(name for name in NEEDED if shutil.which(name) is None)


class SecretService:
    """The running service; `address` is its bus, for `DBUS_SESSION_BUS_ADDRESS`."""

    def __init__(self, folder: Path) -> None:
        self._environ = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
        }
        configuration = folder / "bus.conf"
        configuration.write_text(BUS_CONFIGURATION.format(socket=folder / "bus"))
        self._bus = subprocess.Popen(
            ["dbus-daemon", "--nofork", "--print-address=1", f"--config-file={configuration}"],
            stdout=subprocess.PIPE,
            text=True,
            env=self._environ,
        )
        assert self._bus.stdout is not None
        self.address = self._bus.stdout.readline().strip()
        self._environ["DBUS_SESSION_BUS_ADDRESS"] = self.address
        self._keyring: subprocess.Popen[bytes] | None = None

    def start(self, *, unlocked: bool = True) -> None:
        """Starts gnome-keyring; when locked it waits for a password."""
        self._keyring = subprocess.Popen(
            ["gnome-keyring-daemon", "--foreground", "--components=secrets", *(["--unlock"] if unlocked else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environ,
        )
        assert self._keyring.stdin is not None
        if unlocked:
            self._keyring.stdin.write(f"{PASSWORD}\n".encode())
        self._keyring.stdin.close()
        self._wait_until_answering()

    def stop(self) -> None:
        """Ends gnome-keyring; the bus stays."""
        if self._keyring is not None:
            self._keyring.send_signal(signal.SIGCONT)
            self._keyring.terminate()
            self._keyring.wait(60)
            self._keyring = None

    def hang(self) -> None:
        """Suspends the process: it accepts requests and never answers."""
        assert self._keyring is not None
        self._keyring.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        self.stop()
        self._bus.terminate()
        self._bus.wait(60)
        assert self._bus.stdout is not None
        self._bus.stdout.close()

    def _wait_until_answering(self) -> None:
        from jeepney import DBusAddress, new_method_call
        from jeepney.io.blocking import open_dbus_connection

        bus = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
        with open_dbus_connection(self.address) as connection:
            query = new_method_call(bus, "NameHasOwner", "s", ("org.freedesktop.secrets",))
            until(lambda: connection.send_and_get_reply(query).body[0])
