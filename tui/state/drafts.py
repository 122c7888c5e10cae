"""Unsaved drafts of policies and default tags, in `$HOME/.cli/drafts`: folder mode 0700, files 0600.

One file for each person, endpoint, tenant and policy, and one for a new policy. It is deleted when the draft is stored
or discarded.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from client import times
from client.paths import home, make_private
from tui.state.tag_draft import TagDraft

VERSION = 1
LARGEST = 2 * 1024 * 1024


@dataclass(frozen=True)
class Draft:
    """A draft on disk."""

    text: str
    name: str = ""
    description: str = ""
    base_version: int = 0
    """The version of the policy that the draft is based on; 0 for a new policy."""
    at: str = ""
    """Time of saving, RFC 3339."""
    row: int = 0
    column: int = 0
    request: Mapping[str, str] = field(default_factory=dict)
    creation: str = ""
    """The idempotency key of a new policy, which may have been sent already."""
    who: str = ""
    """The e-mail of the author."""


def path_of(environ: Mapping[str, str], endpoint: str, tenant_id: str, about: str, who: str) -> Path:
    """Return the file of a person's draft.

    Args:
        about: The id of a policy, or a name for another resource; "" for a new policy.
        who: The e-mail of the person; "" for a draft of an earlier release, which all users shared.
    """
    parts = (endpoint, tenant_id, about, who) if who else (endpoint, tenant_id, about)
    name = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
    return Path(home(environ)) / ".cli" / "drafts" / f"{name}.json"


def load(path: Path) -> Draft | None:
    """Read a draft; None if it is missing, invalid, or owned by another user."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.getuid() or status.st_size > LARGEST:
                return None
            document = json.load(file)
        if not isinstance(document, dict) or document.pop("version", None) != VERSION:
            return None
        draft = Draft(**document)
        texts = (
            draft.text,
            draft.name,
            draft.description,
            draft.at,
            draft.creation,
            draft.who,
            *draft.request.values(),
        )
        numbers = (draft.base_version, draft.row, draft.column)
        good = all(isinstance(text, str) for text in texts) and all(
            isinstance(number, int) and number >= 0 for number in numbers
        )
        return draft if good else None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def keep(path: Path, draft: Draft) -> str:
    """Write a draft atomically. Return why that failed; empty if the draft is on disk."""
    try:
        make_private(str(path.parent))
        handle, name = tempfile.mkstemp(prefix=".draft-", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", errors="surrogatepass") as file:
                json.dump({"version": VERSION, **asdict(draft)}, file)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        return f"cannot write to {path.parent}: {error.strerror or error}"
    return ""


def drop(path: Path) -> None:
    """Delete a draft."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


class DraftFiles:
    """Writes and deletes drafts outside the event loop.

    Each file has one latest change; a later one supersedes it, so a late write does not restore a deleted draft. When
    a call returns, its change or a later one was made.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[Path, Callable[[], str | None]] = {}
        self._failures: dict[Path, str] = {}
        self._threads: list[threading.Thread] = []

    async def keep(self, path: Path, draft: Draft) -> str:
        """Write a draft. Return why that failed, or "". If the caller is cancelled, the write continues."""
        self._latest[path] = partial(keep, path, draft)
        return await asyncio.to_thread(self._run, path)

    async def drop(self, path: Path) -> None:
        """Delete a draft."""
        self._latest[path] = partial(drop, path)
        await asyncio.to_thread(self._run, path)

    def begin_keep(self, path: Path, draft: Draft) -> None:
        """Write a draft in a thread, which the end of the program awaits."""
        self._begin(path, partial(keep, path, draft))

    def begin_drop(self, path: Path) -> None:
        """Delete a draft in a thread, which the end of the program awaits."""
        self._begin(path, partial(drop, path))

    def wait(self) -> None:
        """Wait until no thread writes any more."""
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _begin(self, path: Path, work: Callable[[], str | None]) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._latest[path] = work
        thread = threading.Thread(target=self._run, args=(path,), name="draft")
        self._threads.append(thread)
        thread.start()

    def _run(self, path: Path) -> str:
        """Make the latest change of a file, unless another thread has made it. Return why it failed, or ""."""
        with self._lock:
            if (work := self._latest.pop(path, None)) is not None:
                self._failures[path] = work() or ""
            return self._failures.get(path, "")


ABOUT = "default tags"
"""Replaces the id of a policy in the file name."""


class TagDrafts:
    """The drafts of default tags, shared by the screens that show and save them."""

    def __init__(self, environ: Mapping[str, str], where: Callable[[], tuple[str, str]]) -> None:
        """`where` returns the endpoint and the e-mail of the user."""
        self._environ, self._where = environ, where
        self._drafts: dict[str, TagDraft] = {}
        self._files = DraftFiles()

    def of(self, tenant_id: str) -> TagDraft | None:
        """Return the draft of a tenant; None until its stored set is loaded."""
        return self._drafts.get(tenant_id)

    def follow(self, tenant_id: str, tags: Mapping[str, str], version: int | None) -> str:
        """Update a draft with the stored set. Return the time of a draft restored from disk, else ""."""
        draft = self._drafts.get(tenant_id)
        if draft is not None:
            draft.follow(tags, version)
            return ""
        draft = self._drafts[tenant_id] = TagDraft(tags, version)
        return self._taken(tenant_id, draft)

    def wait(self) -> None:
        """Wait until the drafts are on disk."""
        self._files.wait()

    def _taken(self, tenant_id: str, draft: TagDraft) -> str:
        self.wait()
        stored = load(self._path(tenant_id))
        if stored is None:
            return ""
        try:
            document = json.loads(stored.text)
            base, tags = _tags(document["base"]), _tags(document["tags"])
        except (ValueError, KeyError, TypeError):
            return ""
        if tags == draft.tags:
            return ""
        version = stored.base_version or None
        if version != draft.version:
            draft.rebase(base, version)
        draft.tags = tags
        return stored.at

    def keep(self, tenant_id: str) -> None:
        """Start to save unsaved changes to disk, or to delete the file without changes."""
        draft, path = self._drafts.get(tenant_id), self._path(tenant_id)
        if draft is None or not draft.dirty:
            self._files.begin_drop(path)
            return
        text = json.dumps({"base": draft.base, "tags": draft.tags})
        at, who = times.now().isoformat(), self._where()[1]
        self._files.begin_keep(path, Draft(text, base_version=draft.version or 0, at=at, who=who))

    def leave(self) -> None:
        """Forget all drafts after a change of user or context. Their files remain."""
        self._drafts.clear()

    def _path(self, tenant_id: str) -> "Path":
        endpoint, who = self._where()
        return path_of(self._environ, endpoint, tenant_id, ABOUT, who)


def _tags(document: object) -> dict[str, str]:
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
        raise TypeError
    return {str(key): value for key, value in document.items()}
