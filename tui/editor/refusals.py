"""Why a draft was not stored because of its author's rights, and what to do next."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.errors import FrostError
from client.records import Record
from client.text import safe
from tui.editor.findings import rule_name
from tui.policy_text import kind_text

FEW = 5
"""Names that are told of each kind; the rest is a number."""


def beyond_document(error: FrostError, key: str) -> str:
    """What the document allows beyond its author's rights. `key` is the one that takes it out of the text."""
    examples = _examples(error)
    said = [f"{one.get('operation')} by {_rule(one)}" for one in examples]
    mend = f"Esc, then {key} takes it out; or ask" if key else "Take it out, or ask"
    why = f": {_listed(said)}" if said else ""
    return safe(f"Not saved: {error.message}{why}. {mend} somebody who holds it to save it", 600)


def beyond_principals(error: FrostError, touched: Iterable[Record]) -> str:
    """Whose keys and identities the change would reach; `touched` are those whose names are known."""
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
