"""Places whose rows are lists of a tenant: how they follow the tenant, how fresh they are, what hangs on a record."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from client.errors import FrostError
from client.records import Record
from tui.action import kind_and_id
from tui.collections import NOT_ENTITLED, REST_SECONDS, Rows
from tui.history import Subject
from tui.messages import Travel
from tui.places import BY_NAME
from tui.policy_actions import PERSON_NEEDED
from tui.screens.place import Place
from tui.widgets.picker import Picker
from tui.workspace import REFRESH

if TYPE_CHECKING:
    from tui.screens.frame import FrameScreen


class Collected(Place):
    """A place that shows one list of tui/readers.py."""

    ROWS: ClassVar[str]
    """The list shown."""
    BESIDE: ClassVar[tuple[str, ...]] = ()
    """Lists that hang on the record under the cursor: its details show them."""
    NOTHING: ClassVar[str] = "There is nothing here."
    PERSON: ClassVar[bool] = True
    """Whether the platform shows it only to a person who is signed in."""
    NEEDED: ClassVar[str] = PERSON_NEEDED
    """Why that is so."""
    OF_TENANT: ClassVar[bool] = True
    """Whether the list is one of a tenant, so that one must be in use."""
    _shown: Sequence[Record] | None = None
    _picker: Picker | None = None
    _wanted = ""  # a record the cursor is to stand on once it is there

    # What is known

    @property
    def tenant_id(self) -> str:
        """The tenant whose rows are shown."""
        return self.workspace.tenant_id

    @property
    def rows(self) -> Rows:
        """The list as far as it is known."""
        return self.workspace.collections.rows(self.ROWS, self.tenant_id, self.subject.id if self.subject else "")

    def hindrance(self) -> str:
        """Why nothing can be read here; empty when it can."""
        if self.PERSON and self.workspace.keyed:
            return sentence(self.NEEDED)
        return "" if self.tenant_id or not self.OF_TENANT else "No tenant is in use; choose one among the tenants."

    def records(self) -> Sequence[Record]:
        return () if self.hindrance() else self.rows.records

    @property
    def known(self) -> bool:
        return not self.hindrance() and self.rows.known

    def state_words(self) -> str:
        return "" if self.hindrance() else self.rows.words

    def empty(self) -> str:
        if words := self.hindrance():
            return words
        rows = self.rows
        if rows.state == "failed" and rows.error is not None:
            if rows.error.code == NOT_ENTITLED:
                return "You are not, or no longer, entitled to this tenant; choose another."
            return sentence(self.NEEDED) if rows.error.code == "SESSION_REQUIRED" else rows.error.message
        return self.NOTHING if rows.known else "Asking the platform …"

    def beside(self, name: str, subject: str, tenant_id: str = "") -> Rows:
        """A list that hangs on a record; it is read once the cursor has rested there."""
        tenant = tenant_id or self.tenant_id
        rows = self.workspace.collections.rows(name, tenant, subject)
        if rows.state == "unread":
            self.workspace.collections.read(name, tenant, subject, rest=REST_SECONDS)
        return rows

    # Following

    def in_sight(self) -> None:
        self.show()
        self.read()

    def read(self, *, quiet: bool = False) -> None:
        if not self.hindrance():
            self.workspace.collections.read(
                self.ROWS, self.tenant_id, self.subject.id if self.subject else "", quiet=quiet
            )
            self._say()

    def changed(self, topic: str) -> None:
        if topic == "context" and self.record is not None:  # its rows come again, maybe for another person
            self._wanted = str(self.record[self.KIND.id_key])
        if topic in ("tenant", "context", "identity"):
            self._follow()
        elif topic == REFRESH and self.display:
            self.read_again()
        elif topic.startswith(f"{REFRESH} ") and self.display:
            self.read_again(topic.removeprefix(f"{REFRESH} "))
        elif topic == self.ROWS:
            if self.rows.records is self._shown:
                self._say()
            else:
                self.show()
        elif topic in self.BESIDE:
            self.show_detail()
        if self._picker is not None and self._picker.is_mounted:
            self._picker.show()

    def read_again(self, only: str = "") -> None:
        """Read again what is shown, or only the list of that name."""
        if only in ("", self.ROWS):
            self.read(quiet=True)
        record = self.record
        if record is None or self.hindrance():
            return
        for name in self.BESIDE:
            if only in ("", name):
                tenant, subject = self.tenant_of(record), self.beside_of(name, record)
                self.workspace.collections.read(name, tenant, subject, quiet=True, rest=REST_SECONDS)

    def beside_of(self, name: str, record: Record) -> str:
        """The subject under which a list hangs on a record."""
        return str(record["id"])

    def tenant_of(self, record: Record) -> str:
        """The tenant a record belongs to."""
        return self.tenant_id

    def _follow(self) -> None:
        self.show()
        if self.display and self.rows.state == "unread":
            self.read()

    def select(self, record_id: str) -> None:
        """Put the cursor on a record, now or when it has come."""
        self._wanted = "" if self.table.select(record_id) else record_id

    def show(self) -> None:
        self._shown = self.rows.records
        super().show()
        if self._wanted:
            self.select(self._wanted)
            if self.rows.state == "fresh":
                self._wanted = ""  # all has come: it is not among them

    def _say(self) -> None:
        """Only the freshness changed."""
        self.table.set_empty(self.empty())
        self._arranged()

    # Choosing and telling

    @property
    def frame(self) -> "FrameScreen":
        """The screen around the place."""
        from tui.screens.frame import FrameScreen

        assert isinstance(self.screen, FrameScreen)
        return self.screen

    async def named(self, argument: str) -> Record | None:
        """The record meant by an argument (its id or its name), or the one under the cursor."""
        if not argument or self.hindrance():
            return self.record
        await self.rows.settled.wait()
        key, records = self.KIND.id_key, self.records()
        found = next((row for row in records if str(row[key]) == argument), None)
        wanted = argument.casefold()
        same = [row for row in records if str(row.get(self.KIND.name_key, "")).casefold() == wanted]
        if found is None and len(same) != 1:
            why = "there is no such" if not same else "several are called so; the id is needed for the"
            self.frame.toast(f"{argument}: {why} {self.KIND.name}", "warning")
        return found or (same[0] if len(same) == 1 else None)

    def tell(self, error: FrostError, before: str = "") -> None:
        """Say what was refused, with the first counterexample where there is one."""
        examples = (error.details or {}).get("counterexamples") or ()
        example = f"\nfor example {examples[0].get('operation')} on {examples[0].get('target')}" if examples else ""
        hint = f"\n{error.hint}" if error.hint else ""
        self.frame.toast(f"{before}{error.message}{example}{hint}", "error")

    async def pick(
        self, picker: Picker, lists: Sequence[tuple[str, str]], *, anew: bool = True
    ) -> Sequence[Record] | None:
        """Open a picker on lists (name, subject), which may still be on their way then."""
        self._picker = picker
        for name, subject in lists if anew else ():
            self.workspace.collections.read(name, self.tenant_id, subject, quiet=True)
        try:
            return await self.app.push_screen_wait(picker)
        finally:
            self._picker = None

    # Actions that several places have

    def do_show(self, record_id: str = "") -> None:
        """The details of a record, or of the one under the cursor."""
        if record_id:
            self.select(record_id)
        self.do_detail()

    # What can be copied

    def copies(self) -> Mapping[str, str]:
        """As everywhere, without the member that only tells rows apart here."""
        texts = dict(super().copies())
        records = self.table.meant
        if records and self.KIND.id_key == "key":
            texts["id"] = "\n".join(kind_and_id(record)[1] for record in records)
            plain = [{name: value for name, value in record.items() if name != "key"} for record in records]
            texts["JSON"] = json.dumps(plain[0] if len(plain) == 1 else plain, indent=2, ensure_ascii=False)
        return texts


class Inner(Collected):
    """A place that shows the inside of a record of another one; Esc leads back there."""

    STATES: ClassVar[bool] = False
    """Whether it shows the state of keys and identities: they are read as well then."""

    def in_sight(self) -> None:
        super().in_sight()
        if self.STATES and not self.hindrance():
            self.workspace.collections.read("principals", self.tenant_id, quiet=True)

    def read_again(self, only: str = "") -> None:
        super().read_again(only)
        if self.STATES and only in ("", "principals") and not self.hindrance():
            self.workspace.collections.read("principals", self.tenant_id, quiet=True)

    def changed(self, topic: str) -> None:
        super().changed(topic)
        if self.STATES and topic == "principals" and self.display:
            self.show()

    def state_of(self, key: str) -> str:
        """The state of a key or identity, told by type and id: active, revoked, expired, inert; empty when unknown."""
        principals = self.workspace.collections.rows("principals", self.tenant_id).records
        return str(next((one["status"] for one in principals if one["key"] == key), ""))

    def headline(self, name: str) -> str:
        """The title, with the name of what is shown."""
        return f"{self.TITLE} of {name}"

    def enter(self, subject: Subject) -> None:
        if subject != self.subject:
            self.subject = subject
            self.heading.rename(self.headline(subject.name))
            self.set_filter("")
            self.table.clear_marks()
            self.table.begin()

    @property
    def tenant_id(self) -> str:
        return self.subject.tenant_id if self.subject else ""

    def hindrance(self) -> str:
        return super().hindrance() if self.subject else f"Nothing of the {BY_NAME[self.NAME].within} is open."

    def _follow(self) -> None:
        """Leave the inside of a record of another tenant at once."""
        if self.subject is not None and self.subject.tenant_id != self.workspace.tenant_id:
            self.subject = None
            if self.display:
                self.post_message(Travel(self.frame.origin))
        super()._follow()


def sentence(words: str) -> str:
    """A reason as a sentence of its own."""
    return f"{words[:1].upper()}{words[1:]}."
