"""Saving: what changes is shown first, in text and in effect; what is refused says why, and nothing typed is lost."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from client.errors import FrostError
from client.records import Record
from client.text import safe
from tui.editor import layout
from tui.editor.live import Answer
from tui.editor.review import Review
from tui.widgets.menu import Entry, Menu

if TYPE_CHECKING:
    from tui.editor.screen import PolicyEditor


async def save(editor: "PolicyEditor") -> bool:
    """Review, store, and deal with refusals; True when the draft is stored now."""
    draft = editor.draft
    names = {"name": draft.name, "description": draft.description}
    problem = ""
    while True:
        text = editor.pane.text
        effect = await effect_of(editor, text, draft.policy)
        title = f"Save {safe(draft.name)} on version {draft.version}" if draft.policy else "Save a new policy"
        before = draft.stored_text
        given = await editor.app.push_screen_wait(Review(title, before, text, effect, names, problem=problem))
        if given is None:
            return False
        names = dict(given)
        draft.name, draft.description = names["name"], names["description"]
        editor.show_facts()
        try:
            stored = await _store(editor, text, names)
        except FrostError as error:
            if error.code == "STALE_VERSION":
                if not await _stale(editor, error):
                    return False
                problem = ""
                continue
            if error.code in ("POLICY_EXCEEDS_AUTHOR", "INVALID_POLICY_DOCUMENT"):
                refused(editor, error)
                return False
            if not error.status:
                raise
            problem = error.message
            continue
        version = int(stored.get("version") or 1)
        same = draft.policy is not None and version == draft.version
        _stored(editor, stored, text)
        editor.toast("Nothing was changed: it is stored so already" if same else f"Saved as version {version}")
        return True


def refused(editor: "PolicyEditor", error: FrostError) -> None:
    """The platform did not take the draft: show why in place."""
    if error.code == "POLICY_EXCEEDS_AUTHOR":
        editor.found.check = {"warnings": (), **(editor.found.check or {}), **(error.details or {})}
        editor.go("author")
    else:
        editor.told(Answer(editor.live.number, "failure", error))
        editor.go("problems")
    editor.toast(f"Not saved: {error.message}", "error")


def _stored(editor: "PolicyEditor", policy: Record, text: str) -> None:
    """The draft is stored: it stands on that version from now on."""
    editor.keeping.drop()
    editor.draft.stand_on(policy)
    editor.draft.base = text
    editor.saved = policy
    _compare_with(editor)
    editor.show_facts()


def _compare_with(editor: "PolicyEditor") -> None:
    editor.live.policy_id, editor.live.version = editor.draft.id, editor.draft.version
    editor.ask(at_once=True)


async def _store(editor: "PolicyEditor", text: str, names: Mapping[str, str]) -> dict[str, Any]:
    draft, tenant = editor.draft, editor.tenant_id
    if draft.policy is None:
        made = await editor.workspace.ask(
            lambda client: client.policies.create(tenant, names["name"], names["description"], text)
        )
    else:
        policy = draft.policy
        changed = {member: value for member, value in names.items() if value != str(policy.get(member) or "")}
        made = await editor.workspace.ask(
            lambda client: client.policies.update(
                tenant, draft.id, document_text=text, version=draft.version, **changed
            )
        )
    wire: dict[str, Any] = made.wire()
    return wire


async def effect_of(editor: "PolicyEditor", text: str, against: Record | None) -> dict[str, Any]:
    """What a text gives and takes on everything, against a stored policy or against nothing."""
    compare = {"documentText": layout.text_of(against["document"])} if against is not None else None
    answer = await editor.workspace.ask(
        lambda client: client.trials.coverage(
            editor.tenant_id, text, compare=compare, facts={"currentTime": None}, operations=compare is None
        )
    )
    found = dict(answer["targets"][0])
    if compare is None:
        found["gained"], found["lost"] = found.get("operations") or [], []
    return found


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
    before = editor.draft.stored_text
    after = layout.text_of(theirs["document"])
    effect = await effect_of(editor, after, editor.draft.policy)
    title = f"What version {theirs['version']} changed"
    await editor.app.push_screen_wait(Review(title, before, after, effect, None))
