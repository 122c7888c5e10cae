"""What is being edited: which policy in which version it came from, and what was typed since."""

from dataclasses import dataclass, field
from typing import Any

from client.core import new_idempotency_key
from client.records import Record
from tui.editor import layout


@dataclass
class Draft:
    """A policy as it was opened. `policy` is None for a new one."""

    policy: Record | None
    name: str = ""
    description: str = ""
    base: str = ""
    """The text that was opened, or stored last."""
    creation: str = field(default_factory=new_idempotency_key)
    """The idempotency key of a new policy: however often it is sent until an answer comes, it is made once."""

    @classmethod
    def of(cls, policy: Record | None, name: str = "", text: str = "") -> "Draft":
        """The draft of a stored policy, or of a new one with a name and a text to begin with."""
        if policy is None:
            return cls(None, name, "", text)
        draft = cls(policy)
        draft.stand_on(policy)
        return draft

    def stand_on(self, policy: Record) -> None:
        """Take a stored version as what the draft is compared with and saved upon."""
        self.policy = policy
        self.name, self.description = str(policy.get("name", "")), str(policy.get("description", ""))
        self.base = layout.text_of(policy.get("document") or {})

    @property
    def id(self) -> str:
        """Id of the policy; "" for a new one."""
        return str(self.policy["id"]) if self.policy is not None else ""

    @property
    def version(self) -> int:
        """The version the draft began with; 0 for a new one."""
        return int(self.policy.get("version") or 0) if self.policy is not None else 0

    def changed(self, text: str) -> bool:
        """Whether the text is another than what was opened or stored."""
        return text != self.base

    def record(self, text: str, **more: Any) -> dict[str, Any]:
        """What the actions judge by."""
        # A new policy can be saved as it was begun.
        changed = self.changed(text) or self.policy is None
        return {"id": self.id, "name": self.name, "changed": changed, **more}
