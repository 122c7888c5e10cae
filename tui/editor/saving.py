"""Saving: what changes is shown first, in text and in effect; what is refused says why, and nothing typed is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from client.core import new_idempotency_key
from client.errors import Exit, FrostError
from client.models import strict_json
from client.records import Record
from client.text import safe
from tui import effects
from tui.editor import layout, refusals
from tui.editor.live import Answer
from tui.editor.review import Review
from tui.editor.verdict import counted
from tui.effects import Effect
from tui.policy_text import document_text
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from client.api.client import Client
    from tui.editor.screen import PolicyEditor

SAVING = "saving …"
STORING_SECONDS = 10.0
"""How long storing may take: who waits for it wants to know sooner than the client gives up."""
EFFECT_SECONDS = 4.0
"""How long the effect may take; without an answer the difference in text is shown alone."""


async def save(editor: "PolicyEditor") -> bool:
    """Review, store, and deal with refusals; True when the draft is stored now."""
    draft = editor.draft
    names = {"name": draft.name, "description": draft.description}
    problem = ""
    await editor.workspace.want_platform()
    while True:
        given = await _reviewed(editor, names, problem)
        if given is None:
            return False
        names, text = dict(given), editor.pane.text
        draft.name, draft.description = names["name"], names["description"]
        editor.say_state(SAVING)
        try:
            stored = await _store(editor, text, names)
        except FrostError as error:
            editor.say_state("")
            if error.code == "STALE_VERSION":
                mine = _touched(draft.policy, names)
                if not await _stale(editor, error):
                    return False
                # What was not touched stays as they have it.
                names = {"name": draft.name, "description": draft.description, **mine}
                draft.name, draft.description = names["name"], names["description"]
                problem = ""
                continue
            if draft.policy is None and (error.gone or error.code == "IDEMPOTENCY_KEY_REUSED"):
                problem = await _arrived(editor, error)
                draft.name, draft.description = names["name"], names["description"]
                continue
            if error.code == "INVALID_POLICY_DOCUMENT":
                # Nothing can be compared with a text that cannot be read.
                editor.told(Answer(editor.live.number, "failure", error))
                editor.go("problems")
                editor.toast(f"Not saved: {error.message}", "error")
                return False
            if error.code in ("POLICY_EXCEEDS_AUTHOR", "PRINCIPAL_EXCEEDS_AUTHOR"):
                problem = await _beyond(editor, error, text)
                continue
            if not error.status:
                editor.keeping.now()
                # The key first: on a narrow screen the end is lost.
                again = editor.keys.label("editor.save") or "the palette"
                editor.say_state(f"could not be saved, {again} tries again: {error.message}")
                return False
            problem = error.message
            continue
        version = int(stored.get("version") or 1)
        same = draft.policy is not None and version == draft.version
        editor.say_state("")
        _stored(editor, stored, text)
        editor.toast("Nothing was changed: it is stored so already" if same else f"Saved as version {version}")
        return True


async def _reviewed(editor: "PolicyEditor", names: Mapping[str, str], problem: str) -> Mapping[str, str] | None:
    """Show what would be stored; the name and description to store it under, None to go on editing."""
    draft, text = editor.draft, editor.pane.text
    whom = asyncio.create_task(whom_of(editor, text))
    try:
        effect = await effect_of(editor, text, draft.policy)
    except FrostError as error:
        if error.status:
            raise
        effect = {"problem": error.message}
    finally:
        touched = await whom
    title = f"Save {safe(str((draft.policy or {}).get('name') or draft.name))} on version {draft.version}"
    review = Review(
        title if draft.policy else "Save a new policy",
        *texts(draft.policy, text),
        effect,
        names,
        stored=draft.policy,
        touched=touched,
        caution=_caution(editor),
        problem=problem,
    )
    return await editor.app.push_screen_wait(review)


def _caution(editor: "PolicyEditor") -> str:
    """What the author check says against storing this text; storing is tried all the same, the service decides."""
    found = editor.found
    check = found.check if found.fresh.get("check") else None
    answer = str((check or {}).get("answer", ""))
    if answer == "beyond":
        return f"× It goes beyond what you hold{counted(check or {})}. It will be refused unless that changed"
    return "? The author check is undecided: it will be refused" if answer == "undecided" else ""


def _touched(policy: Record | None, names: Mapping[str, str]) -> dict[str, str]:
    """The names that are others than the stored ones."""
    return {member: value for member, value in names.items() if value != str((policy or {}).get(member) or "")}


async def _beyond(editor: "PolicyEditor", error: FrostError, text: str) -> str:
    """Storing would exceed its author's rights: why, and what to do. What the document exceeds stands in the panel."""
    if error.code == "POLICY_EXCEEDS_AUTHOR":
        editor.found.check = {"warnings": (), **(editor.found.check or {}), **(error.details or {})}
        editor.go("author")
        return refusals.beyond_document(error, editor.keys.label("editor.narrow"))
    touched = await whom_of(editor, text)
    return refusals.beyond_principals(error, touched.principals if touched is not None else ())


def _stored(editor: "PolicyEditor", policy: Record, text: str) -> None:
    """The draft is stored: it stands on that version from now on."""
    editor.keeping.drop()
    editor.draft.stand_on(policy)
    editor.draft.base = text
    editor.saved = policy
    # What was typed while it was being stored is not stored.
    editor.keeping.now()
    _compare_with(editor)
    editor.show_facts()


def _compare_with(editor: "PolicyEditor") -> None:
    editor.live.policy_id, editor.live.version = editor.draft.id, editor.draft.version
    editor.ask(at_once=True)


async def _store(editor: "PolicyEditor", text: str, names: Mapping[str, str]) -> dict[str, Any]:
    draft, tenant = editor.draft, editor.tenant_id
    if draft.policy is None:
        made = await within(
            editor,
            STORING_SECONDS,
            lambda client: client.policies.create(
                tenant, names["name"], names["description"], text, idempotency_key=draft.creation
            ),
        )
    else:
        changed = _touched(draft.policy, names)
        made = await within(
            editor,
            STORING_SECONDS,
            lambda client: client.policies.update(
                tenant, draft.id, document_text=text, version=draft.version, **changed
            ),
        )
    wire: dict[str, Any] = made.wire()
    return wire


async def _arrived(editor: "PolicyEditor", error: FrostError) -> str:
    """A new policy was stored when it was sent before, though no answer came: stand on it. What is to be said.

    When it is gone again, the next one is another creation.
    """
    draft, made = editor.draft, str((error.details or {}).get("id") or "")
    try:
        if made:
            stored = (await editor.workspace.ask(lambda client: client.policies.get(editor.tenant_id, made))).wire()
            editor.keeping.drop()
            draft.stand_on(stored)
            _compare_with(editor)
            return "What you sent before was stored after all: this goes on top of it"
    except FrostError as missing:
        if not missing.gone:
            raise
    draft.creation = new_idempotency_key()
    return "it was stored and is deleted by now; saving stores it anew"


async def within(editor: "PolicyEditor", seconds: float, question: Callable[["Client"], Awaitable[Any]]) -> Any:
    """Ask, and wait no longer than that."""
    try:
        async with asyncio.timeout(seconds):
            return await editor.workspace.ask(question)
    except TimeoutError as error:
        words = f"no answer within {seconds:.0f} s"
        raise FrostError(words, code="UNREACHABLE", exit_code=Exit.UNREACHABLE) from error


async def effect_of(editor: "PolicyEditor", text: str, against: Record | None) -> dict[str, Any]:
    """What a text gives and takes on everything, against a stored policy or against nothing."""
    compare = {"documentText": layout.text_of(against["document"])} if against is not None else None
    answer = await within(
        editor,
        EFFECT_SECONDS,
        lambda client: client.trials.coverage(
            editor.tenant_id, text, compare=compare, facts={"currentTime": None}, operations=compare is None
        ),
    )
    found = dict(answer["targets"][0])
    if compare is None:
        found["gained"], found["conditionalGained"] = found["operations"], found["conditionalOperations"]
    return found


async def whom_of(editor: "PolicyEditor", text: str) -> Effect | None:
    """What a text gives to and takes from the keys and identities the policy is attached to; None for a new one."""
    if editor.draft.policy is None:
        return None
    change = {"change": "updatePolicy", "policyId": editor.draft.id, "documentText": text}
    try:
        async with asyncio.timeout(EFFECT_SECONDS):
            return await effects.effect(editor.workspace.ask, editor.tenant_id, [change])
    except TimeoutError:
        return Effect(problem=f"no answer within {EFFECT_SECONDS:.0f} s")


def texts(policy: Record | None, text: str) -> tuple[str, str]:
    """What is stored and what would be, written alike: how either is laid out is no difference, nor is it stored."""
    if policy is None:
        return "", text
    before = document_text(policy.get("document") or {})
    try:
        return before, document_text(layout.as_stored(strict_json.loads(text)))
    except strict_json.StrictJsonError:
        return before, text


async def _stale(editor: "PolicyEditor", error: FrostError) -> bool:
    """Somebody else stored a version meanwhile: True to review mine on top of theirs."""
    draft, details = editor.draft, error.details or {}
    theirs = (await editor.workspace.ask(lambda client: client.policies.get(editor.tenant_id, draft.id))).wire()
    said = "; ".join(map(_version_words, reversed(details.get("versions") or ())))
    entries = [
        Entry("see", "See what they changed", "d", f"{draft.version} to {theirs['version']}, in effect and in text"),
        Entry("over", "Save mine on top of theirs", "o", "Shows the difference to theirs first"),
        Entry("stay", "Go on editing", "e", "Nothing is stored; your text stays"),
    ]
    while True:
        title = f"Version {theirs['version']} was stored meanwhile"
        chosen = await editor.app.push_screen_wait(Menu(title, entries, foot=said or "Enter or its key chooses"))
        if chosen == "over":
            editor.draft.stand_on(theirs)
            _compare_with(editor)
            return True
        if chosen != "see":
            return False
        await _show_theirs(editor, theirs)


def _version_words(version: Mapping[str, Any]) -> str:
    from client.records import time_text

    who = version.get("changedByName") or version.get("changedBy") or "somebody"
    what = ", ".join(map(str, version.get("changed") or ())) or "nothing"
    return safe(f"version {version.get('version')} by {who}, {time_text(version.get('changedAt'))}: {what}")


async def _show_theirs(editor: "PolicyEditor", theirs: Record) -> None:
    text = layout.text_of(theirs["document"])
    effect = await effect_of(editor, text, editor.draft.policy)
    title = f"What version {theirs['version']} changed"
    await editor.app.push_screen_wait(Review(title, *texts(editor.draft.policy, text), effect, None))
