"""The mark of the audit log: how far this data directory knows the chain, in a file outside the database.

A person who can write to the database only cannot set the chain back, or replace it, without a difference from the
mark. `audit.mark` has the number and the hash of an entry, and the beginning of its chain, under a MAC of the
platform's secret. Each replica has its own, in its own data directory. The file may be behind the chain, by a second or
by the time that the replica was stopped, but never ahead of it.
"""

import json
import os
import stat
from dataclasses import asdict, dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any

from service import files
from service.audit.seals import key_of, keyed
from service.digests import are_equal

MARK_FILE = "audit.mark"
FORMAT = 1
MAX_BYTES = 4_096


class Origin(StrEnum):
    """Why the mark follows its chain. Stored values must not change."""

    NEW = "new"
    """The platform began the chain."""
    UPGRADED = "upgraded"
    """The release that introduced marks migrated the database."""
    ADOPTED = "adopted"
    """The data directory had no mark of this platform."""
    ACCEPTED = "accepted"
    """An operator accepted a chain that did not continue the mark."""
    RESTORED = "restored"
    """A backup was restored."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An entry that the chain must have.

    `chain`: microseconds since 1970 at which the chain began; None to take the chain that the next start finds.
    `entries`, `hash`: number and hash of the entry. `at`: the time of `origin` (RFC 3339). `accepted`: the digest of
    the last reason of an operator, which is valid once.
    """

    chain: int | None
    entries: int
    hash: str
    origin: Origin
    at: str
    accepted: str = ""


class MarkRefusedError(ValueError):
    """The file is damaged, or not a file of this user. The message has the repair."""


class MarkDamagedError(MarkRefusedError):
    """The file is not what the platform wrote; an operator may replace it with `--accept-new-chain`."""


class MarkFile:
    """The file of a data directory. Callers hold the lock of the directory, so that there is one writer.

    Args:
        secret: the platform's secret.
    """

    def __init__(self, folder: Path, secret: bytes) -> None:
        self.path = folder / MARK_FILE
        self._key = key_of(secret)
        self._platform = keyed(self._key, {"platform": "audit mark"})

    def read(self) -> Mark | None:
        """Return the mark; None without a file, and if the file is that of a platform with another secret.

        Raises:
            MarkRefusedError: the file cannot be used.
        """
        content = self._read_bytes()
        if content is None:
            return None
        try:
            document = json.loads(content)
            if document["format"] != FORMAT:
                raise MarkRefusedError(f"a newer frost wrote {self.path}")
            if document["platform"] != self._platform:
                return None
            members, mac = document["mark"], document["mac"]
            is_intact = are_equal(self._mac(members), mac)
            mark = Mark(**{**members, "origin": Origin(members["origin"])})
        except MarkRefusedError:
            raise
        except (ValueError, KeyError, TypeError, RecursionError):
            is_intact = False
        if not is_intact:
            raise MarkDamagedError(
                f"{self.path} was altered or is damaged; verify the audit log, and start once with"
                " --accept-new-chain REASON to write another one"
            )
        return mark

    def write(self, mark: Mark) -> None:
        """Replace the file, synced to disk.

        Raises:
            OSError: the file cannot be written.
        """
        members = asdict(mark)
        document = {"format": FORMAT, "platform": self._platform, "mark": members, "mac": self._mac(members)}
        files.write_atomically(self.path, json.dumps(document).encode() + b"\n")

    def advance(self, mark: Mark) -> bool:
        """Write a mark unless the file has a later one of the same chain; return whether it was written.

        Raises:
            MarkRefusedError: the file cannot be used.
            OSError: it cannot be written.
        """
        stored = self.read()
        if stored is not None and stored.chain == mark.chain and stored.entries > mark.entries:
            return False
        self.write(mark)
        return True

    def _mac(self, members: dict[str, Any]) -> str:
        return keyed(self._key, {"mark": members, "platform": self._platform})

    def _read_bytes(self) -> bytes | None:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            problem = "is a link" if self.path.is_symlink() else f"cannot be read ({error.strerror})"
            raise self._refused(problem) from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise self._refused("is not a plain file")
            if status.st_uid != os.getuid():
                raise self._refused("belongs to another user")
            return os.read(descriptor, MAX_BYTES)
        finally:
            os.close(descriptor)

    def _refused(self, problem: str) -> MarkRefusedError:
        remove = f"rm -r {quote(str(self.path))}"
        return MarkRefusedError(f"{self.path} {problem}; verify the audit log, and remove the file: {remove}")


def reason_digest(reason: str) -> str:
    """Return the digest of an operator's reason, which `Mark.accepted` stores."""
    return sha256(reason.encode("utf-8", "surrogatepass")).hexdigest()
