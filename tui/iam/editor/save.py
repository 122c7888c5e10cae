"""Save a policy: review, request, and handling of errors without loss of the user's text."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from client.api import analysis, policies
from client.errors import Exit, FrostError
from client.models import strict_json
from client.tables.columns import Record
from client.text import safe
from client.texts.effects import Effect
from client.transport.request import new_idempotency_key
from tui.iam.editor import document
from tui.iam.editor.autosave import Keeping
from tui.iam.editor.base import EditorBase
from tui.iam.editor.completion_popup import Offering
from tui.iam.editor.evaluation import Answer, rule_name
from tui.iam.editor.review import Review
from tui.iam.editor.verdict import counted
from tui.state import effects
from tui.widgets.menu import Entry, Menu
from tui.widgets.policy_text import document_text, kind_text

if TYPE_CHECKING:
    from client.transport.call import Call

T = TypeVar("T")

FEW = 5
"""Maximum names in a list; the others are a number."""


def beyond_document(error: FrostError, key: str) -> str:
    """Explain what the document allows beyond its author's permissions. `key` is the key to narrow the draft."""
    examples = _examples(error)
    said = [f"{one.get('operation')} by {_rule(one)}" for one in examples]
    mend = f"Esc, then {key} takes it out; or ask" if key else "Take it out, or ask"
    why = f": {_listed(said)}" if said else ""
    return safe(f"Not saved: {error.message}{why}. {mend} somebody who holds it to save it", 600)


def beyond_principals(error: FrostError, touched: Iterable[Record]) -> str:
    """Explain which principals would get more than the author's permissions. `touched` provides their names."""
    names = {(str(one.get("type")), str(one.get("id"))): str(one.get("name") or "") for one in touched}
    found = (error.details or {}).get("principals") or ()
    said = [
        f"{kind_text(one)} {names.get((str(one.get('type')), str(one.get('id')))) or one.get('id')}" for one in found
    ]
    held = list(dict.fromkeys(str(one.get("operation")) for one in _examples(error)))
    who = f"somebody who holds {_listed(held)}" if held else "somebody whose rights cover it"
    whom = f": {_listed(said)}" if said else ""
    return safe(
        f"Not saved: it changes what others' keys and identities may do, beyond what you hold{whom}. "
        f"Ask whoever made it, or {who}",
        600,
    )


def _examples(error: FrostError) -> Sequence[Mapping[str, Any]]:
    return (error.details or {}).get("counterexamples") or ()


def _rule(example: Mapping[str, Any]) -> str:
    return rule_name({"index": example.get("ruleIndex", 0), "name": example.get("ruleName")})


def _listed(words: Sequence[str]) -> str:
    more = f" and {len(words) - FEW} more" if len(words) > FEW else ""
    return ", ".join(words[:FEW]) + more


SAVING = "saving …"
STORING_SECONDS = 10.0
"""Timeout of a save. It is shorter than that of the client because the user is waiting."""
EFFECT_SECONDS = 4.0
"""Timeout of the effect. Without it, the review shows the text difference only."""


class Editor(EditorBase, Protocol):
    """The editor as used by saving and the action handlers."""

    keeping: Keeping
    offering: Offering


async def save(editor: Editor) -> bool:
    """Review and save the draft until it is saved or the user cancels. Return whether it was saved."""
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
                # Names that the user did not edit take their values from the newer version.
                names = {"name": draft.name, "description": draft.description, **mine}
                draft.name, draft.description = names["name"], names["description"]
                problem = ""
                continue
            if draft.policy is None and (error.gone or error.code == "IDEMPOTENCY_KEY_REUSED"):
                problem = await _arrived(editor, error)
                draft.name, draft.description = names["name"], names["description"]
                continue
            if error.code == "INVALID_POLICY_DOCUMENT":
                # An invalid document cannot be compared, so do not show the review again.
                editor.told(Answer(editor.live.number, "failure", error))
                editor.go("problems")
                editor.toast(f"Not saved: {error.message}", "error")
                return False
            if error.code in ("POLICY_EXCEEDS_AUTHOR", "PRINCIPAL_EXCEEDS_AUTHOR"):
                problem = await _beyond(editor, error, text)
                continue
            if not error.status:
                editor.keeping.now()
                # The key comes first: narrow screens truncate the message.
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


async def _reviewed(editor: Editor, names: Mapping[str, str], problem: str) -> Mapping[str, str] | None:
    """Show the review. Return the name and description to save, or None to continue editing."""
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


def _caution(editor: Editor) -> str:
    """Return a warning from the author check; empty if there is none. It does not prevent a save."""
    found = editor.found
    check = found.check if found.fresh.get("check") else None
    answer = str((check or {}).get("answer", ""))
    if answer == "beyond":
        return f"× It goes beyond what you hold{counted(check or {})}. It will be refused unless that changed"
    return "? The author check is undecided: it will be refused" if answer == "undecided" else ""


def _touched(policy: Record | None, names: Mapping[str, str]) -> dict[str, str]:
    """Return the name and description, as far as they differ from the stored ones."""
    return {member: value for member, value in names.items() if value != str((policy or {}).get(member) or "")}


async def _beyond(editor: Editor, error: FrostError, text: str) -> str:
    """Explain a refusal that protects the author's permissions. The panel shows counterexamples of the document."""
    if error.code == "POLICY_EXCEEDS_AUTHOR":
        editor.found.check = {"warnings": (), **(editor.found.check or {}), **(error.details or {})}
        editor.go("author")
        return beyond_document(error, editor.keys.label("editor.narrow"))
    touched = await whom_of(editor, text)
    return beyond_principals(error, touched.principals if touched is not None else ())


def _stored(editor: Editor, policy: Record, text: str) -> None:
    """Base the draft on the policy that was saved with this text."""
    editor.keeping.drop()
    editor.draft.stand_on(policy)
    editor.draft.base = text
    editor.saved = policy
    # Text typed during the save is not saved yet.
    editor.keeping.now()
    _compare_with(editor)
    editor.show_facts()


def _compare_with(editor: Editor) -> None:
    editor.live.policy_id, editor.live.version = editor.draft.id, editor.draft.version
    editor.ask(at_once=True)


async def _store(editor: Editor, text: str, names: Mapping[str, str]) -> dict[str, Any]:
    draft, tenant = editor.draft, editor.tenant_id
    if draft.policy is None:
        made = await within(
            editor,
            STORING_SECONDS,
            policies.create(tenant, names["name"], names["description"], text, idempotency_key=draft.creation),
        )
    else:
        changed = _touched(draft.policy, names)
        made = await within(
            editor,
            STORING_SECONDS,
            policies.update(tenant, draft.id, document_text=text, version=draft.version, **changed),
        )
    return made.wire()


async def _arrived(editor: Editor, error: FrostError) -> str:
    """Base the draft on the new policy that an earlier request created without a response. Return a message.

    If that policy was deleted, the next save creates another one.
    """
    draft, made = editor.draft, str((error.details or {}).get("id") or "")
    try:
        if made:
            stored = (await editor.workspace.ask(policies.get(editor.tenant_id, made))).wire()
            editor.keeping.drop()
            draft.stand_on(stored)
            _compare_with(editor)
            return "What you sent before was stored after all: this goes on top of it"
    except FrostError as missing:
        if not missing.gone:
            raise
    draft.creation = new_idempotency_key()
    return "it was stored and is deleted by now; saving stores it anew"


async def within(editor: Editor, seconds: float, call: "Call[T]") -> T:
    """Send a call with a timeout.

    Raises:
        FrostError: No response within `seconds` (UNREACHABLE), or an error of the request.
    """
    try:
        async with asyncio.timeout(seconds):
            return await editor.workspace.ask(call)
    except TimeoutError as error:
        words = f"no answer within {seconds:.0f} s"
        raise FrostError(words, code="UNREACHABLE", exit_code=Exit.UNREACHABLE) from error


async def effect_of(editor: Editor, text: str, against: Record | None) -> dict[str, Any]:
    """Return the coverage of a text on any target, compared with a stored policy or, with None, with no document."""
    compare = {"documentText": document.text_of(against["document"])} if against is not None else None
    answer = await within(
        editor,
        EFFECT_SECONDS,
        analysis.coverage(
            editor.tenant_id, text, compare=compare, facts={"currentTime": None}, operations=compare is None
        ),
    )
    found = dict(answer["targets"][0])
    if compare is None:
        found["gained"], found["conditionalGained"] = found["operations"], found["conditionalOperations"]
    return found


async def whom_of(editor: Editor, text: str) -> Effect | None:
    """Return the effect of a text on the principals that the policy is attached to; None for a new policy."""
    if editor.draft.policy is None:
        return None
    change = {"change": "updatePolicy", "policyId": editor.draft.id, "documentText": text}
    try:
        async with asyncio.timeout(EFFECT_SECONDS):
            return await effects.effect(editor.workspace, editor.tenant_id, [change])
    except TimeoutError:
        return Effect(problem=f"no answer within {EFFECT_SECONDS:.0f} s")


def texts(policy: Record | None, text: str) -> tuple[str, str]:
    """Return the stored and the new text in the same format, because formatting is not stored."""
    if policy is None:
        return "", text
    before = document_text(policy.get("document") or {})
    try:
        return before, document_text(document.as_stored(strict_json.loads(text)))
    except strict_json.StrictJsonError:
        return before, text


async def _stale(editor: Editor, error: FrostError) -> bool:
    """Handle a newer version by another user. Return True to review the draft on top of it."""
    draft, details = editor.draft, error.details or {}
    theirs = (await editor.workspace.ask(policies.get(editor.tenant_id, draft.id))).wire()
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
    from client.tables.columns import time_text

    who = version.get("changedByName") or version.get("changedBy") or "somebody"
    what = ", ".join(map(str, version.get("changed") or ())) or "nothing"
    return safe(f"version {version.get('version')} by {who}, {time_text(version.get('changedAt'))}: {what}")


async def _show_theirs(editor: Editor, theirs: Record) -> None:
    text = document.text_of(theirs["document"])
    effect = await effect_of(editor, text, editor.draft.policy)
    title = f"What version {theirs['version']} changed"
    await editor.app.push_screen_wait(Review(title, *texts(editor.draft.policy, text), effect, None))
