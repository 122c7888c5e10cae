"""The drafts of default tags, one for each tenant and person; what was edited outlives the program, as policies do."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from client import clock
from tui.editor import drafts
from tui.tag_draft import TagDraft

if TYPE_CHECKING:
    from pathlib import Path

ABOUT = "default tags"
"""What stands in place of a policy's id in the name of the file."""


class TagDrafts:
    """Kept by the workspace: the place that shows a draft may be another one than the place that needs it saved."""

    def __init__(self, environ: Mapping[str, str], where: Callable[[], tuple[str, str]]) -> None:
        """`where` gives the endpoint and who works there."""
        self._environ, self._where = environ, where
        self._drafts: dict[str, TagDraft] = {}

    def of(self, tenant_id: str) -> TagDraft | None:
        """The draft of a tenant; None before its stored set was read."""
        return self._drafts.get(tenant_id)

    def follow(self, tenant_id: str, tags: Mapping[str, str], version: int | None) -> str:
        """Take what is stored now; when a draft was kept of an earlier time it is there again, and its time is told."""
        draft = self._drafts.get(tenant_id)
        if draft is not None:
            draft.follow(tags, version)
            return ""
        draft = self._drafts[tenant_id] = TagDraft(tags, version)
        return self._taken(tenant_id, draft)

    def _taken(self, tenant_id: str, draft: TagDraft) -> str:
        kept = drafts.load(self._path(tenant_id))
        if kept is None:
            return ""
        try:
            document = json.loads(kept.text)
            base, tags = _tags(document["base"]), _tags(document["tags"])
        except (ValueError, KeyError, TypeError):
            return ""
        if tags == draft.tags:
            return ""
        version = kept.base_version or None
        if version != draft.version:
            draft.stand_on(base, version)
        draft.tags = tags
        return kept.at

    def keep(self, tenant_id: str) -> None:
        """Write down what is not stored; forget what is."""
        draft, path = self._drafts.get(tenant_id), self._path(tenant_id)
        if draft is None or not draft.dirty:
            drafts.drop(path)
            return
        text = json.dumps({"base": draft.base, "tags": draft.tags})
        at, who = clock.now().isoformat(), self._where()[1]
        drafts.keep(path, drafts.Kept(text, base_version=draft.version or 0, at=at, who=who))

    def leave(self) -> None:
        """Somebody else works here now, or it is another context: what was kept stays on disk."""
        self._drafts.clear()

    def _path(self, tenant_id: str) -> "Path":
        endpoint, who = self._where()
        return drafts.path_of(self._environ, endpoint, tenant_id, ABOUT, who)


def _tags(document: object) -> dict[str, str]:
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
        raise TypeError
    return {str(key): value for key, value in document.items()}
