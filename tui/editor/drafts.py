"""Unsaved drafts: what was typed outlives a crash, a kill and a lost terminal. `$HOME/.cli/drafts`, 0700, files 0600.

One file for each person, endpoint, tenant and policy, and one for a new policy. It is deleted when the draft is stored
or discarded.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from client.folders import make_private

VERSION = 1
LARGEST = 2 * 1024 * 1024


@dataclass(frozen=True)
class Kept:
    """A draft on disk."""

    text: str
    name: str = ""
    description: str = ""
    base_version: int = 0
    """The version of the policy the draft began with; 0 for a new one."""
    at: str = ""
    """When it was kept, RFC 3339."""
    row: int = 0
    column: int = 0
    request: Mapping[str, str] = field(default_factory=dict)
    creation: str = ""
    """The idempotency key of a new policy, which may have been sent already."""
    who: str = ""
    """The e-mail of the person who typed it."""


def path_of(environ: Mapping[str, str], endpoint: str, tenant_id: str, about: str, who: str) -> Path:
    """The file of a person's draft.

    Args:
        about: The id of a policy, or a name for another thing that is edited; "" for a new policy.
        who: The e-mail of the person; "" for a draft of an earlier release, which all users shared.
    """
    parts = (endpoint, tenant_id, about, who) if who else (endpoint, tenant_id, about)
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return Path(environ.get("HOME") or Path("~").expanduser()) / ".cli" / "drafts" / f"{name}.json"


def load(path: Path) -> Kept | None:
    """The draft that was kept; None when there is none, or none of ours that can be read."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_size > LARGEST:
                return None
            document = json.load(file)
        if not isinstance(document, dict) or document.pop("version", None) != VERSION:
            return None
        kept = Kept(**document)
        texts = (kept.text, kept.name, kept.description, kept.at, kept.creation, kept.who, *kept.request.values())
        numbers = (kept.base_version, kept.row, kept.column)
        good = all(isinstance(one, str) for one in texts) and all(isinstance(one, int) and one >= 0 for one in numbers)
        return kept if good else None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def keep(path: Path, kept: Kept) -> bool:
    """Write a draft whole or not at all; False when that cannot be done."""
    try:
        make_private(str(path.parent))
        handle, name = tempfile.mkstemp(prefix=".draft-", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
                json.dump({"version": VERSION, **asdict(kept)}, file)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError:
        return False
    return True


def drop(path: Path) -> None:
    """Forget a draft."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
