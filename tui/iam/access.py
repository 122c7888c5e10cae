"""Access of principals: by principal, by operation, and the catalogue of operations."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import BindingType

from client.tables.columns import Column, Record
from client.tables.iam import ACCESS, CATALOGUE, WHO
from tui.shell import keymap
from tui.shell.remote_list_screen import ChildListScreen, RemoteListScreen
from tui.shell.routes import Navigate, Subject
from tui.widgets.detail import Section
from tui.widgets.policy_text import grants, kind_text, path_text, type_text
from tui.widgets.record_table import Tones

if TYPE_CHECKING:
    from client.models.iam import AccessOperation, AllowedPrincipal, CatalogueOperation

ANYTHING = "*"


def who_on(operation: str, target: str, tenant_id: str) -> Navigate:
    """Return the message that opens `Who`."""
    return Navigate("who", Subject(tenant_id, f"{operation} {target}", f"{operation} on {target}"))


class Catalogue(RemoteListScreen["CatalogueOperation"]):
    """Operations of the platform, read once and then only on refresh or after a failure."""

    NAME = "catalogue"
    TITLE = "Catalogue"
    KIND = CATALOGUE
    PRIMARY = "catalogue.who"
    LIST_NAME = "catalogue"
    REQUIRES_USER = False
    EMPTY_TEXT = "No operations."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("catalogue")]

    def columns(self) -> Sequence[Column]:
        return tuple(column._replace(wide=False) for column in CATALOGUE.columns)

    def tones(self) -> Tones:
        return {
            "accessLevel": lambda record: "warning" if record.get("accessLevel") == "permission" else None,
            "description": lambda record: "dim",
        }

    def unavailable_reason(self) -> str:
        return ""

    def refresh_on_open(self) -> None:
        self.show()
        if self.record_list.state in ("unread", "failed"):
            self.read()

    def read_again(self, only: str = "") -> None:
        if not only and self.record_list.state in ("unread", "failed"):
            self.read(quiet=True)

    def detail(self, record: "CatalogueOperation") -> tuple[str, Sequence[Section]]:
        service, resource, action = [*record.name.split(":", 2), "", ""][:3]
        return record.name, [
            ("", [("Access level", record.access_level)]),
            ("", [("Service", service), ("Resource", resource), ("Action", action)]),
            ("Description", [("", record.description or "—")]),
            (
                "Matching patterns",
                [("", text) for text in (f"{service}:*", f"{service}:{resource}:*", f"*:*:{action}")],
            ),
        ]

    async def do_who(self, argument: str = "") -> None:
        from tui.iam.editor.request import problem
        from tui.widgets.form import Field, Form

        operation, _, target = argument.partition(" ")
        tenant_id = self.workspace.tenant_id
        operation = operation or (self.record.name if self.record is not None else "")
        if not target:
            field = Field(
                "target",
                "Target",
                ANYTHING,
                "* for any, or frn:service:region:tenant:type/id",
                check=lambda value: (
                    f"Target: {why}" if (why := problem("target", value, operation=operation)) else None
                ),
            )
            form = Form(f"Who may {operation}?", [field], save="Show")
            values = await self.app.push_screen_wait(form)
            if values is None:
                return
            target = values["target"].strip() or ANYTHING
        self.post_message(who_on(operation, target, tenant_id))


ACCESS_SIGNS = {"allowed": "●", "conditional": "◐", "denied": "×"}
ACCESS_TONES = {"allowed": "good", "conditional": "warning", "denied": "bad"}
ACCESS_TEXTS = {
    "allowed": "on all resources of this tenant, in any request",
    "conditional": "only for some targets, or under conditions",
    "denied": "allowed by a rule, but a deny takes precedence",
}


ALLOWED_BY = "Allowed by"


class Access(ChildListScreen["AccessOperation"]):
    """Operations of a principal, without those that no grant allows."""

    NAME = "access"
    TITLE = "Access"
    KIND = ACCESS
    PRIMARY = "access.policy"
    LIST_NAME = "access"
    EMPTY_TEXT = "No operations are allowed."
    SHOWS_STATE = True
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("access")]

    def title_for(self, name: str) -> str:
        return f"Access of {name}"

    def freshness_text(self) -> str:
        """Include the state of a revoked or expired key, whose grants have no effect."""
        over = f"{self._ended}: no access" if self._ended else ""
        return " · ".join(part for part in (over, super().freshness_text()) if part)

    @property
    def _ended(self) -> str:
        """`revoked` or `expired` for a key that has no access any more; otherwise empty."""
        state = self.state_of(self.subject.id) if self.subject else ""
        return state if state in ("revoked", "expired") else ""

    def _access_text(self, record: Record) -> str:
        return f"{ACCESS_SIGNS['denied']} {self._ended}" if self._ended else access_text(record)

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in ACCESS.columns}
        path = by_key["by"]._replace(cell=lambda record: path_text(deciding_grants(record)))
        return (by_key["operation"], by_key["access"]._replace(cell=self._access_text), path)

    def tones(self) -> Tones:
        return {"access": lambda record: "dim" if self._ended else access_tone(record)}

    def detail(self, record: "AccessOperation") -> tuple[str, Sequence[Section]]:
        text = "no access: the grants have no effect" if self._ended else ACCESS_TEXTS.get(record.access, "")
        facts = [("Access", self._access_text(record.wire())), (" ", text)]
        heading = "Grants without effect" if self._ended else ALLOWED_BY
        return record.operation, [("", facts), *grants(heading, record.by), *_denials(record)]

    def do_policy(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row.operation == argument), self.record)
        if record is not None and record.policy_id:
            self.post_message(Navigate("policies", record=record.policy_id))

    def do_who(self) -> None:
        if self.record is not None:
            self.post_message(who_on(self.record.operation, ANYTHING, self.tenant_id))


def access_text(record: Record) -> str:
    """Return `● allowed`, `◐ conditional` or `× denied`."""
    access = str(record.get("access", ""))
    return f"{ACCESS_SIGNS.get(access, '?')} {access}"


def access_tone(record: Record) -> str | None:
    return ACCESS_TONES.get(str(record.get("access")))


def deciding_grants(record: Record) -> Sequence[Mapping[str, Any]]:
    """Return the grants that deny the operation if it is denied, otherwise those that allow it."""
    decisive: Sequence[Mapping[str, Any]] = record.get("deniedBy" if record.get("access") == "denied" else "by") or ()
    return decisive


def _denials(record: "AccessOperation | AllowedPrincipal") -> list[Section]:
    """Return the denials. They are conditional unless the access is denied."""
    return grants("Denied by" if record.access == "denied" else "Unless denied by", record.denied_by)


class Who(ChildListScreen["AllowedPrincipal"]):
    """Principals that may perform an operation."""

    NAME = "who"
    TITLE = "Who may"
    KIND = WHO
    PRIMARY = "who.access"
    LIST_NAME = "who"
    EMPTY_TEXT = "No principal may do this."
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings("who")]

    def title_for(self, name: str) -> str:
        return f"Who may {name}"

    def columns(self) -> Sequence[Column]:
        by_key = {column.key: column for column in WHO.columns}
        path = by_key["by"]._replace(cell=lambda record: path_text(record.get("by") or ()))
        access = by_key["access"]._replace(cell=access_text)
        return (by_key["name"]._replace(cell=_short), by_key["type"]._replace(cell=kind_text), access, path)

    def tones(self) -> Tones:
        return {"type": lambda record: "dim", "access": access_tone}

    def detail(self, record: "AllowedPrincipal") -> tuple[str, Sequence[Section]]:
        facts = [("Type", type_text(record.type)), ("Access", access_text(record.wire()))]
        return record.name, [
            ("", facts),
            *grants(ALLOWED_BY, record.by),
            *_denials(record),
            ("ID", [("", record.id)]),
        ]

    def do_access(self, argument: str = "") -> None:
        record = next((row for row in self.records() if row.key == argument), self.record)
        if record is not None:
            self.post_message(Navigate("access", Subject(self.tenant_id, record.key, record.name)))


def _short(record: Record) -> str:
    """Return the name, without the email address of a person, which the details show."""
    name = str(record.get("name", ""))
    return name.partition(" <")[0] if record.get("type") == "user" else name
