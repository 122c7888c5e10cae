"""Save a policy: review, request, and handling of errors without loss of the user's text."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from textual.screen import Screen

from client.api import policies
from client.errors import FrostError
from client.models.analysis import (
    AuthorCheck,
    Counterexample,
    ErrorDetails,
    PrincipalEffect,
    TargetCoverage,
    VersionChange,
)
from client.models.iam import Policy
from client.tables.columns import time_text
from client.text import safe
from client.transport.call import new_idempotency_key
from tui.iam.editor import document as formatter
from tui.iam.editor.document import Document
from tui.iam.editor.evaluation import example_count, example_rule
from tui.iam.editor.review import Comparison, Review, compared_texts
from tui.shell.keymap import Keys
from tui.state import contexts
from tui.state.context_state import Limits, Requests
from tui.state.notices import Severity
from tui.widgets.picker import Entry, Menu
from tui.widgets.policy_text import type_text

MAX_NAMES = 5
"""Maximum names in a list; the others are a number."""
SAVING = "saving …"


def beyond_document(error: FrostError, key: str) -> str:
    """Explain the permissions that the author lacks. `key` is the key that removes them from the draft."""
    examples = [f"{example.operation} by {example_rule(example)}" for example in _counterexamples(error)]
    remedy = f"Press Esc, then {key} to remove these permissions, or ask" if key else "Remove these permissions, or ask"
    reason = f": {_join(examples)}" if examples else ""
    return safe(f"Not saved: {error.message}{reason}. {remedy} a user with these permissions to save the policy", 600)


def beyond_principals(error: FrostError, affected: Iterable[PrincipalEffect]) -> str:
    """Explain which principals would get more than the author's permissions. `affected` provides their names."""
    names = {(one.type, one.id): one.name for one in affected}
    principals = [
        f"{type_text(one.type)} {names.get((one.type, one.id)) or one.id}"
        for one in ErrorDetails.read(error.details).principals
    ]
    operations = list(dict.fromkeys(example.operation for example in _counterexamples(error)))
    helper = f"a user who has {_join(operations)}" if operations else "a user who has these permissions"
    listed = f": {_join(principals)}" if principals else ""
    return safe(
        f"Not saved: the change gives keys and identities of other users more permissions than you have{listed}. "
        f"Ask the author of the policy, or {helper}",
        600,
    )


def _counterexamples(error: FrostError) -> Sequence[Counterexample]:
    return ErrorDetails.read(error.details).counterexamples


def _join(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


@dataclass(frozen=True)
class Callbacks:
    """How a save shows its progress and its results."""

    show_dialog: Callable[[Screen[Any]], Awaitable[Any]]
    show_status: Callable[[str], None]
    notify: Callable[[str, Severity], None]
    show_problems: Callable[[FrostError], None]
    """Shows why the document is invalid."""
    show_counterexamples: Callable[[ErrorDetails], None]
    """Shows the details of a refusal that protects the author's permissions."""
    current_check: Callable[[], AuthorCheck | None]
    """Returns the author check of the text; None if there is no current one."""
    rebased: Callable[[], Awaitable[None]]
    """Called after the document was based on another stored version."""
    keep_draft: Callable[[], Awaitable[str]]
    drop_draft: Callable[[], Awaitable[None]]


class SaveFlow(Comparison):
    """Reviews and saves a document until it is saved or the user cancels.

    Args:
        start_platform: Lets the next request start a platform that was stopped on purpose.
        limits: How long to wait for a response.
    """

    def __init__(
        self,
        document: Document,
        requests: Requests,
        tenant_id: str,
        keys: Keys,
        callbacks: Callbacks,
        *,
        start_platform: Callable[[], Awaitable[None]],
        limits: Limits,
    ) -> None:
        super().__init__(requests, tenant_id, limits)
        self._document = document
        self._keys = keys
        self._on = callbacks
        self._start_platform = start_platform

    async def save(self) -> bool:
        """Return whether the document was saved."""
        document = self._document
        names = {"name": document.name, "description": document.description}
        problem = ""
        await self._start_platform()
        while True:
            answer = await self._review(names, problem)
            if answer is None:
                return False
            names, text = dict(answer), document.text
            document.name, document.description = names["name"], names["description"]
            self._on.show_status(SAVING)
            try:
                stored = await self._store(text, names)
            except FrostError as error:
                self._on.show_status("")
                if error.code == "STALE_VERSION":
                    edited = _edited_names(document.policy, names)
                    if not await self._resolve_stale(error):
                        return False
                    # Names that the user did not edit take their values from the newer version.
                    names = {"name": document.name, "description": document.description, **edited}
                    problem = ""
                else:
                    next_problem = await self._handle(error, text)
                    if next_problem is None:
                        return False
                    problem = next_problem
                document.name, document.description = names["name"], names["description"]
                continue
            unchanged = document.policy is not None and stored.version == document.version
            self._on.show_status("")
            await self._finish(stored, text)
            message = "No changes to save" if unchanged else f"Saved as version {stored.version}"
            self._on.notify(message, "information")
            return True

    async def _review(self, names: Mapping[str, str], problem: str) -> Mapping[str, str] | None:
        """Show the review. Return the name and description to save, or None to continue editing."""
        document, text = self._document, self._document.text
        principals = asyncio.create_task(self.principal_effect(document.id, text))
        effect: TargetCoverage | FrostError
        try:
            effect = await self.effect(text, document.policy)
        except FrostError as error:
            if error.status or error.code == contexts.CONTEXT_CHANGED:
                raise
            effect = error
        finally:
            affected = await principals
        policy = document.policy
        review = Review(
            f"Save {safe(policy.name)} on version {policy.version}" if policy is not None else "Save a new policy",
            *compared_texts(document.policy, text),
            effect,
            names,
            stored=document.policy,
            affected=affected,
            caution=_caution(self._on.current_check()),
            problem=problem,
        )
        answer: Mapping[str, str] | None = await self._on.show_dialog(review)
        if answer is None and document.policy is None and review.names is not None:  # keep what the user has typed
            document.name, document.description = review.names["name"], review.names["description"]
            self._on.show_status("")
        return answer

    async def _handle(self, error: FrostError, text: str) -> str | None:
        """Handle an error of a save. Return the problem to show in the review, or None to continue editing."""
        document = self._document
        if document.policy is None and (error.gone or error.code == "IDEMPOTENCY_KEY_REUSED"):
            return await self._adopt_stored(error)
        if error.code == "INVALID_POLICY_DOCUMENT":
            # An invalid document cannot be compared, so do not show the review again.
            self._on.show_problems(error)
            self._on.notify(f"Not saved: {error.message}", "error")
            return None
        if error.code == "POLICY_EXCEEDS_AUTHOR":
            self._on.show_counterexamples(ErrorDetails.read(error.details))
            return beyond_document(error, self._keys.label("editor.narrow"))
        if error.code == "PRINCIPAL_EXCEEDS_AUTHOR":
            affected = await self.principal_effect(document.id, text)
            return beyond_principals(error, affected.principals if affected is not None else ())
        if not error.status and error.code != contexts.CONTEXT_CHANGED:
            await self._on.keep_draft()
            # The key comes first: narrow screens truncate the message.
            key = self._keys.label("editor.save") or "the palette"
            self._on.show_status(f"not saved, {key} to retry: {error.message}")
            return None
        return error.message

    async def _finish(self, policy: Policy, text: str) -> None:
        await self._on.drop_draft()
        self._document.set_saved(policy, text)
        # Text typed during the save is not saved yet.
        await self._on.keep_draft()
        await self._on.rebased()

    async def _store(self, text: str, names: Mapping[str, str]) -> Policy:
        document, tenant = self._document, self.tenant_id
        if document.policy is None:
            return await self.ask_within(
                self._limits.save_seconds,
                policies.create(
                    tenant, names["name"], names["description"], text, idempotency_key=document.idempotency_key
                ),
            )
        edited = _edited_names(document.policy, names)
        return await self.ask_within(
            self._limits.save_seconds,
            policies.update(tenant, document.id, document_text=text, version=document.version, **edited),
        )

    async def _adopt_stored(self, error: FrostError) -> str:
        """Base the document on the policy that an earlier request created without a response. Return a message.

        If that policy was deleted, the next save creates another one, with a new idempotency key. The key does not
        change if the platform does not name the policy: a retry could then create a second one.
        """
        document, policy_id = self._document, ErrorDetails.read(error.details).id
        if not policy_id and not error.gone:
            return error.message
        try:
            if policy_id:
                stored = await self._requests.ask(policies.get(self.tenant_id, policy_id))
                await self._on.drop_draft()
                document.rebase(stored)
                await self._on.rebased()
                return "Your earlier request was stored; save to add these changes"
        except FrostError as missing:
            if not missing.gone:
                raise
        document.idempotency_key = new_idempotency_key()
        # A retry with a resumed draft needs the new key as well: with the former one it would get another new key.
        await self._on.keep_draft()
        return "the policy was stored and then deleted; save to create it again"

    async def _resolve_stale(self, error: FrostError) -> bool:
        """Handle a newer version by another user. Return True to review the document on top of it."""
        document = self._document
        newer = await self._requests.ask(policies.get(self.tenant_id, document.id))
        versions = "; ".join(map(_version_text, reversed(ErrorDetails.read(error.details).versions)))
        compared = f"{document.version} to {newer.version}, in effect and in text"
        entries = [
            Entry("see", "Show the changes", "d", compared),
            Entry("over", "Save my changes on top", "o", "Shows the difference to the newer version first"),
            Entry("stay", "Keep editing", "e", "Does not save"),
        ]
        while True:
            title = f"Newer version: {newer.version}"
            menu = Menu(title, entries, foot=versions or "Enter or its key: choose")
            choice = await self._on.show_dialog(menu)
            if choice == "over":
                document.rebase(newer)
                await self._on.rebased()
                return True
            if choice != "see":
                return False
            await self._show_newer(newer)

    async def _show_newer(self, newer: Policy) -> None:
        stored, text = self._document.policy, formatter.text_of(newer.document)
        effect = await self.effect(text, stored)
        title = f"Changes in version {newer.version}"
        names = {"name": newer.name, "description": newer.description}
        texts = compared_texts(stored, text)
        await self._on.show_dialog(Review(title, *texts, effect, None, stored=stored, new_names=names))


def _caution(check: AuthorCheck | None) -> str:
    """Return a warning from the author check; empty if there is none. The warning does not prevent a save."""
    if check is not None and check.answer == "beyond":
        examples = f" ({count})" if (count := example_count(check)) else ""
        return f"× The draft grants more than you have{examples}. Saving will be refused"
    undecided = check is not None and check.answer == "undecided"
    return "? The author check is undecided. Saving will be refused" if undecided else ""


def _edited_names(policy: Policy | None, names: Mapping[str, str]) -> dict[str, str]:
    """Return the name and description, as far as they differ from the stored ones."""
    stored = {"name": policy.name, "description": policy.description} if policy is not None else {}
    return {member: value for member, value in names.items() if value != stored.get(member, "")}


def _version_text(version: VersionChange) -> str:
    author = version.changed_by_name or version.changed_by or "another user"
    members = ", ".join(version.changed) or "nothing"
    return safe(f"version {version.version} by {author}, {time_text(version.changed_at)}: {members}")
