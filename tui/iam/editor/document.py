"""The document in the editor: stored version, changes, format, and templates for new policies."""

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from client.models.iam import Policy
from client.transport.call import new_idempotency_key

LINE = 58
"""Maximum width of a line that contains a whole list or object."""


def text_of(document: Any) -> str:
    """Return the document as formatted text with a final newline."""
    return _value(document, 0, 0, 0) + "\n"


_RULE = ("name", "access", "operations", "targets", "constraints")


def as_stored(document: Any) -> Any:
    """Return the document as the platform stores it: ordered members, always a `name`, no empty `constraints`."""
    if not isinstance(document, dict) or not isinstance(document.get("rules"), list):
        return document
    return {"schemaVersion": document.get("schemaVersion"), "rules": [_stored_rule(rule) for rule in document["rules"]]}


def _stored_rule(rule: Any) -> Any:
    constraints = rule.get("constraints", {}) if isinstance(rule, dict) else None
    if not isinstance(constraints, dict) or not all(isinstance(keys, dict) for keys in constraints.values()):
        return rule
    stored = {
        operator: {key: _stored_value(operator, value) for key, value in keys.items()}
        for operator, keys in constraints.items()
    }
    members = {"name": "", **rule, "constraints": stored}
    return {member: members[member] for member in _RULE if member in members and (member != "constraints" or stored)}


def _stored_value(operator: str, value: Any) -> Any:
    return value[0] if operator != "ipInRange" and isinstance(value, list) and value else value


def part(value: Any, *, depth: int, indent: int) -> str:
    """Return a part of a document as text, at nesting level `depth` and indented by `indent` spaces."""
    return _value(value, depth, indent, indent)


def _value(value: Any, depth: int, indent: int, used: int) -> str:
    if not isinstance(value, (dict, list)) or not value:
        return _scalar(value)
    # The document, its list of rules and each rule always have one member or item per line.
    if depth > 2 and used + len(flat := _flat(value)) <= LINE:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = []
        for name, member in value.items():
            head = f"{inner}{_scalar(name)}: "
            parts.append(head + _value(member, depth + 1, indent + 2, len(head)))
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    items = [inner + _value(item, depth + 1, indent + 2, indent + 2) for item in value]
    return "[\n" + ",\n".join(items) + "\n" + " " * indent + "]"


def _flat(value: Any) -> str:
    if isinstance(value, dict) and value:
        return "{ " + ", ".join(f"{_scalar(name)}: {_flat(member)}" for name, member in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flat, value)) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    """Return the value as JSON. Non-printable characters are escaped, which makes them editable."""
    text = json.dumps(value, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)


@dataclass
class Document:
    """The policy in the editor: the stored version, the edited text, name and description. Independent of widgets."""

    policy: Policy | None
    """The stored version that the text is based on and compared with; None for a new policy."""
    name: str = ""
    description: str = ""
    base: str = ""
    """The text as opened or last saved."""
    text: str = ""
    """The text as edited."""
    idempotency_key: str = field(default_factory=new_idempotency_key)
    """Key of the request that creates a new policy, so that retries create it only once."""
    saved: Policy | None = None
    """The policy as last saved; None if it was not saved."""

    @classmethod
    def of(cls, policy: Policy | None, name: str = "", text: str = "") -> "Document":
        """Create the document of a stored policy, or of a new one with a name and a text."""
        if policy is None:
            return cls(None, name, "", text, text)
        document = cls(policy)
        document.rebase(policy)
        document.text = document.base
        return document

    def rebase(self, policy: Policy) -> None:
        """Set the stored version that the text is based on. The edited text does not change."""
        self.policy = policy
        self.name, self.description = policy.name, policy.description
        self.base = text_of(policy.document)

    def set_saved(self, policy: Policy, text: str) -> None:
        """Base the document on the policy that was saved with a text."""
        self.rebase(policy)
        self.base, self.saved = text, policy

    @property
    def id(self) -> str:
        """Id of the policy; "" if new."""
        return self.policy.id if self.policy is not None else ""

    @property
    def version(self) -> int:
        """The version that the text is based on; 0 if new."""
        return self.policy.version if self.policy is not None else 0

    @property
    def is_changed(self) -> bool:
        """Whether the text differs from `base`."""
        return self.text != self.base

    @property
    def can_save(self) -> bool:
        """Whether there is something to save. A new policy can be saved without a change."""
        return self.is_changed or self.policy is None


class Template(NamedTuple):
    """An initial document."""

    name: str
    title: str
    note: str
    text: str


TEMPLATES = (
    Template(
        "read",
        "Read-only for one service",
        "Read and list operations of compute",
        """\
{
  "schemaVersion": "1",
  "rules": [
    {
      "name": "read-compute",
      "access": "allow",
      "operations": ["compute:*:read", "compute:*:list"],
      "targets": ["*"]
    }
  ]
}
""",
    ),
    Template(
        "operate",
        "Operate tagged resources",
        "Start and stop instances with the tag env=dev, from one network",
        """\
{
  "schemaVersion": "1",
  "rules": [
    {
      "name": "operate-dev",
      "access": "allow",
      "operations": ["compute:instances:start", "compute:instances:stop"],
      "targets": ["frn:compute:*:*:instances/*"],
      "constraints": {
        "equals": { "frn:resourceTag/env": "dev" },
        "ipInRange": { "frn:sourceIp": ["203.0.113.0/24"] }
      }
    }
  ]
}
""",
    ),
    Template(
        "guard",
        "Prevent deletion",
        "Deny deletion of resources with the tag env=prod",
        """\
{
  "schemaVersion": "1",
  "rules": [
    {
      "name": "keep-production",
      "access": "deny",
      "operations": ["*:*:delete"],
      "targets": ["*"],
      "constraints": {
        "equals": { "frn:resourceTag/env": "prod" }
      }
    }
  ]
}
""",
    ),
)
