"""Screens with lists from the platform: tenant, freshness, and lists that belong to a record."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import ClassVar

from client.errors import FrostError
from client.tables.columns import Record, kind_and_id
from tui.shell.action import PERSON_NEEDED
from tui.shell.history import Subject
from tui.shell.list_screen import ListScreen
from tui.shell.messages import Navigate
from tui.shell.navigator import Navigator
from tui.shell.routes import BY_NAME
from tui.state.list_store import NOT_ENTITLED, REST_SECONDS, Rows
from tui.state.refresh import ALL
from tui.widgets.picker import Picker


class RemoteListScreen(ListScreen):
    """A screen with one list of tui/state/loaders.py."""

    ROWS: ClassVar[str]
    """Name of the list."""
    BESIDE: ClassVar[tuple[str, ...]] = ()
    """Lists of the record under the cursor, shown in its details."""
    NOTHING: ClassVar[str] = "There is nothing here."
    PERSON: ClassVar[bool] = True
    """Whether the platform requires a person with a session."""
    NEEDED: ClassVar[str] = PERSON_NEEDED
    """The reason to show for that."""
    OF_TENANT: ClassVar[bool] = True
    """Whether the list belongs to a tenant, so that one must be in use."""
    _shown: Sequence[Record] | None = None
    _picker: Picker | None = None
    _wanted = ""  # id of a record to select once it is loaded

    # State

    @property
    def tenant_id(self) -> str:
        """The tenant of the list."""
        return self.workspace.tenant_id

    @property
    def rows(self) -> Rows:
        """The list, as far as it is loaded."""
        return self.workspace.collections.rows(self.ROWS, self.tenant_id, self.subject.id if self.subject else "")

    def hindrance(self) -> str:
        """Return why the list cannot be read; empty if it can."""
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
        """Return a list of a record. An unread list is read after the cursor has rested on the record."""
        tenant = tenant_id or self.tenant_id
        rows = self.workspace.collections.rows(name, tenant, subject)
        if rows.state == "unread":
            self.workspace.collections.read(name, tenant, subject, rest=REST_SECONDS)
        return rows

    # Updates

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
        if topic == "context" and self.record is not None:  # the rows are loaded again, maybe for another person
            self._wanted = str(self.record[self.KIND.id_key])
        if topic in ("tenant", "context", "identity"):
            self._follow()
        elif topic == ALL and self.display:
            self.read_again()
        elif topic.startswith(f"{ALL} ") and self.display:
            self.read_again(topic.removeprefix(f"{ALL} "))
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
        """Read the shown lists again, or only the list named `only`."""
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
        """Return the subject of a list of a record."""
        return str(record["id"])

    def tenant_of(self, record: Record) -> str:
        """Return the tenant of a record."""
        return self.tenant_id

    def _follow(self) -> None:
        self.show()
        if self.display and self.rows.state == "unread":
            self.read()

    def select(self, record_id: str) -> None:
        """Move the cursor to a record, once it is loaded."""
        self._wanted = "" if self.table.select(record_id) else record_id

    def show(self) -> None:
        self._shown = self.rows.records
        super().show()
        if self._wanted:
            self.select(self._wanted)
            if self.rows.state == "fresh":
                self._wanted = ""  # the list is complete and does not contain it

    def _say(self) -> None:
        """Update the freshness only."""
        self.table.set_empty(self.empty())
        self._arranged()

    # Records, errors and pickers

    @property
    def frame(self) -> Navigator:
        """The main screen."""
        assert isinstance(self.screen, Navigator)
        return self.screen

    async def named(self, argument: str) -> Record | None:
        """Return the record with this id or name; without an argument, the record under the cursor.

        Shows a warning and returns None if no record or several match.
        """
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
        """Show an error, with its first counterexample and its hint."""
        examples = (error.details or {}).get("counterexamples") or ()
        example = f"\nfor example {examples[0].get('operation')} on {examples[0].get('target')}" if examples else ""
        hint = f"\n{error.hint}" if error.hint else ""
        self.frame.toast(f"{before}{error.message}{example}{hint}", "error")

    async def pick(
        self, picker: Picker, lists: Sequence[tuple[str, str]], *, anew: bool = True
    ) -> Sequence[Record] | None:
        """Open a picker. Its lists (name, subject) are read again if `anew`; they may arrive while it is open."""
        self._picker = picker
        for name, subject in lists if anew else ():
            self.workspace.collections.read(name, self.tenant_id, subject, quiet=True)
        try:
            return await self.app.push_screen_wait(picker)
        finally:
            self._picker = None

    # Common actions

    def do_show(self, record_id: str = "") -> None:
        self.do_detail(record_id)

    # Copying

    def copies(self) -> Mapping[str, str]:
        """Return the texts without `key`, which only the screens use."""
        texts = dict(super().copies())
        records = self.table.meant
        if records and self.KIND.id_key == "key":
            texts["id"] = "\n".join(kind_and_id(record)[1] for record in records)
            plain = [{name: value for name, value in record.items() if name != "key"} for record in records]
            texts["JSON"] = json.dumps(plain[0] if len(plain) == 1 else plain, indent=2, ensure_ascii=False)
        return texts


class ChildListScreen(RemoteListScreen):
    """A screen that shows the contents of a record of another screen. Esc returns there."""

    STATES: ClassVar[bool] = False
    """Whether it shows the state of keys and identities, which are then read as well."""

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
        """Return the state of a key or identity by `type:id`: active, revoked, expired, inert; empty if unknown."""
        principals = self.workspace.collections.rows("principals", self.tenant_id).records
        return str(next((one["status"] for one in principals if one["key"] == key), ""))

    def headline(self, name: str) -> str:
        """Return the title with the name of the subject."""
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
        return super().hindrance() if self.subject else f"Nothing of the {BY_NAME[self.NAME].parent} is open."

    def _follow(self) -> None:
        """Leave the screen if its subject belongs to another tenant."""
        if self.subject is not None and self.subject.tenant_id != self.workspace.tenant_id:
            self.subject = None
            if self.display:
                self.post_message(Navigate(self.frame.origin))
        super()._follow()


def sentence(words: str) -> str:
    """Return a reason as a sentence."""
    return f"{words[:1].upper()}{words[1:]}."


async def each(
    screen: RemoteListScreen, records: Sequence[Record], change: Callable[[Record], Awaitable[object]]
) -> list[Record]:
    """Change records one after another until the first error. Show that error and return the changed records."""
    done: list[Record] = []
    for record in records:
        try:
            await change(record)
        except FrostError as error:
            before = f"{len(done)} of {len(records)} done, then: " if len(records) > 1 else ""
            screen.tell(error, before)
            break
        done.append(record)
    return done
