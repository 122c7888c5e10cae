"""The catalogue place: every operation the platform knows, and who may do one."""

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from client.records import Column, Record
from client.records_iam import CATALOGUE
from tui import keymaps
from tui.history import Subject
from tui.messages import Travel
from tui.screens.collected import Collected
from tui.widgets.detail import Section
from tui.widgets.record_table import Tones

ANYTHING = "*"


def who_on(operation: str, target: str, tenant_id: str) -> Travel:
    """The way to the list of those who may do something."""
    return Travel("who", Subject(tenant_id, f"{operation} {target}", f"{operation} on {target}"))


class Catalogue(Collected):
    """Served by the platform (checklist C05); it only grows, so it is read once and when somebody asks for it."""

    NAME = "catalogue"
    TITLE = "Catalogue"
    KIND = CATALOGUE
    PRIMARY = "catalogue.who"
    ROWS = "catalogue"
    PERSON = False
    NOTHING = "The platform names no operation."
    BINDINGS: ClassVar[list[BindingType]] = [*keymaps.bindings("catalogue")]

    def columns(self) -> Sequence[Column]:
        return tuple(column._replace(wide=False) for column in CATALOGUE.columns)

    def tones(self) -> Tones:
        return {
            "accessLevel": lambda record: "warning" if record.get("accessLevel") == "permission" else None,
            "description": lambda record: "dim",
        }

    def hindrance(self) -> str:
        return ""

    def in_sight(self) -> None:
        self.show()
        if self.rows.state in ("unread", "failed"):
            self.read()

    def read_again(self, only: str = "") -> None:
        if not only and self.rows.state in ("unread", "failed"):
            self.read(quiet=True)

    def detail(self, record: Record) -> tuple[str, Sequence[Section]]:
        service, resource, action = [*str(record["name"]).split(":", 2), "", ""][:3]
        return str(record["name"]), [
            ("", [("Access level", str(record.get("accessLevel", "")))]),
            ("", [("Service", service), ("Resource", resource), ("Action", action)]),
            ("What it does", [("", str(record.get("description") or "—"))]),
            (
                "Patterns that hold it",
                [("", text) for text in (f"{service}:*", f"{service}:{resource}:*", f"*:*:{action}")],
            ),
        ]

    async def do_who(self, argument: str = "") -> None:
        from tui.widgets.form import Field, Form

        operation, _, target = argument.partition(" ")
        operation = operation or str((self.record or {}).get("name", ""))
        if not target:
            field = Field("target", "Target", ANYTHING, "frn:service:region:tenant:type/id, or * for anything")
            form = Form(f"Who may {operation}?", [field], save="Show", note="Enter shows them · Esc cancels")
            values = await self.app.push_screen_wait(form)
            if values is None:
                return
            target = values["target"].strip() or ANYTHING
        self.post_message(who_on(operation, target, self.workspace.tenant_id))
