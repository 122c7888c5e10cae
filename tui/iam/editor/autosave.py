"""The draft on disk: written after a pause in typing, offered on the next opening, deleted after a save."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from client import times
from client.api import policies
from client.errors import FrostError
from client.models.iam import Policy
from client.tables.columns import time_text
from client.transport.call import Ask
from tui.iam.editor.document import Document
from tui.state import drafts
from tui.state.drafts import Draft, DraftFiles
from tui.state.workspace import Workspace
from tui.widgets.picker import Entry, Menu

AUTOSAVE_SECONDS = 1.0
"""Delay from the last key to the write of the draft."""


class View(NamedTuple):
    """The members of a stored draft besides the document."""

    row: int
    column: int
    request: Mapping[str, str]
    """Field values of the trial request."""


@dataclass(frozen=True)
class Store:
    """Where drafts are stored. A read-only session neither reads nor writes drafts."""

    path_of: Callable[[str, str], Path]
    """Returns the file for the id of a policy and the name of a user, which is "" for an earlier release."""
    user: str
    is_enabled: Callable[[], bool]

    @classmethod
    def of(cls, workspace: Workspace, tenant_id: str) -> "Store":
        """Return the store of the user in use."""
        environ, endpoint = workspace.environ, workspace.endpoint
        return cls(
            lambda policy_id, user: drafts.path_of(environ, endpoint, tenant_id, policy_id, user),
            workspace.who,
            lambda: not workspace.read_only,
        )


class DraftAutosave:
    """Stores the draft of a document for its user.

    Args:
        view: Returns the cursor and the trial request.
    """

    def __init__(self, document: Document, store: Store, view: Callable[[], View]) -> None:
        self._document, self._store, self._view = document, store, view
        self._files = DraftFiles()
        self.is_undecided = True
        """Whether the user may still resume or discard the draft on disk, which is then not written or deleted."""
        self.is_closed = False
        """Whether the editor is closing; drafts are then no longer written."""

    @property
    def is_enabled(self) -> bool:
        """Whether drafts are stored and offered."""
        return self._store.is_enabled()

    @property
    def path(self) -> Path:
        return self._store.path_of(self._document.id, self._store.user)

    async def save(self) -> str:
        """Write the draft if the document has unsaved changes. Return why that failed, or ""."""
        if not self.is_enabled or self.is_closed or not self._document.is_changed:
            return ""
        if self.is_undecided:
            return "the earlier draft is neither resumed nor discarded"
        return await self._files.keep(self.path, self._draft())

    async def update(self) -> str:
        """Write the draft, or delete it if the document has no unsaved changes. Return why that failed, or ""."""
        if self._document.is_changed:
            return await self.save()
        await self.drop()
        return ""

    async def drop(self) -> None:
        """Delete the draft."""
        if self.is_enabled and not self.is_undecided:
            await self._files.drop(self.path)

    def _draft(self) -> Draft:
        document, view = self._document, self._view()
        return Draft(
            document.text,
            document.name,
            document.description,
            document.version,
            times.now().isoformat(),
            view.row,
            view.column,
            dict(view.request),
            document.idempotency_key,
            self._store.user,
        )

    async def load(self) -> Draft | None:
        """Load the draft of the document; None without one, and if it equals the text."""
        draft = await asyncio.to_thread(self._load) if self.is_enabled else None
        return None if draft is None or draft.text == self._document.text else draft

    def _load(self) -> Draft | None:
        """Load the draft. A draft of an earlier release, which all users shared, is loaded for its author only."""
        earlier = self._store.path_of(self._document.id, "")
        draft = drafts.load(self.path)
        if draft is None and (draft := drafts.load(earlier)) is not None:
            if draft.who != self._store.user:
                return None
            if not drafts.keep(self.path, draft):
                drafts.drop(earlier)
        return draft


async def ask_to_resume(
    draft: Draft, document: Document, show_dialog: Callable[[Menu], Awaitable[str | None]]
) -> str | None:
    """Ask what to do with a draft. Return `resume`, `drop`, or None to close the editor."""
    base = f"Based on {f'version {draft.base_version}' if draft.base_version else 'a new policy'}"
    other = f"Discard the draft, {'open the stored version' if document.id else 'start over'}"
    entries = [Entry("resume", "Resume the draft", "r", base), Entry("drop", other, "d")]
    foot = "Enter or its key: choose · Esc close editor"
    return await show_dialog(Menu(f"Unsaved draft of {time_text(draft.at)}", entries, foot=foot))


async def resume(draft: Draft, document: Document, ask: Ask, tenant_id: str) -> str:
    """Restore a draft in the document. Return a warning if the stored policy has changed since, else ""."""
    warning = ""
    if draft.base_version not in (0, document.version):
        warning = await _rebase(document, ask, tenant_id, draft.base_version)
    document.name, document.description = draft.name or document.name, draft.description or document.description
    document.idempotency_key = draft.creation or document.idempotency_key
    document.text = draft.text
    return warning


async def _rebase(document: Document, ask: Ask, tenant_id: str, number: int) -> str:
    """Base the document on the version the draft began with, so that a save reports the newer versions."""
    newest = document.version
    try:
        stored = await ask(policies.version(tenant_id, document.id, number))
    except FrostError as error:
        return f"Version {number}, the base of the draft, cannot be read: {error.message}"
    if document.policy is not None:
        members = {"name": stored.name, "description": stored.description, "version": stored.version}
        document.rebase(Policy.model_validate({**document.policy.wire(), **members, "document": stored.document}))
    return f"The draft is based on version {number}; the latest is {newest}"
