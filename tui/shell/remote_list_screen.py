"""Screens with lists from the platform: tenant, freshness, and lists that belong to a record."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from client.errors import FrostError
from client.name_lookup import find_by_name
from client.tables.columns import json_of
from tui.shell import routes
from tui.shell.action import PERSON_NEEDED
from tui.shell.actions import BY_ID
from tui.shell.list_screen import NO_TENANTS, ListScreen, T
from tui.shell.navigator import Navigator, frame_of
from tui.shell.routes import Navigate, Subject
from tui.state.list_store import NOT_ENTITLED, REST_SECONDS, RecordList, read_error_text
from tui.state.refresh import ListChanged, ReadAgain, Topic, Update
from tui.widgets.picker import Picker

if TYPE_CHECKING:
    from client.models.iam import Principal

R = TypeVar("R")


class RemoteListScreen(ListScreen[T]):
    """A screen with one list of tui/state/loaders.py."""

    LIST_NAME: ClassVar[str]
    """Name of the list."""
    RELATED: ClassVar[tuple[str, ...]] = ()
    """Lists of the record under the cursor, shown in its details."""
    EMPTY_TEXT: ClassVar[str] = "No entries"
    EMPTY_ACTION: ClassVar[str] = ""
    """The action that adds a record; an empty list names its key."""
    REQUIRES_USER: ClassVar[bool] = True
    """Whether the platform requires a person with a session."""
    UNAVAILABLE_TEXT: ClassVar[str] = PERSON_NEEDED
    """The reason to show for that."""
    OF_TENANT: ClassVar[bool] = True
    """Whether the list belongs to a tenant, so that one must be in use."""
    _shown_records: Sequence[T] | None = None
    _picker: Picker[Any] | None = None
    _pending_selection = ""  # id of a record to select once it is loaded

    # State

    @property
    def tenant_id(self) -> str:
        """The tenant of the list."""
        return self.workspace.tenant_id

    @property
    def record_list(self) -> RecordList[T]:
        """The loaded part of the list."""
        return self.workspace.collections.get(self.LIST_NAME, self.tenant_id, self.subject.id if self.subject else "")

    def unavailable_reason(self) -> str:
        """Return why the list cannot be read; empty if it can."""
        if self.REQUIRES_USER and self.workspace.keyed:
            return sentence(self.UNAVAILABLE_TEXT)
        if self.tenant_id or not self.OF_TENANT:
            return ""
        if self.workspace.tenants_state in ("failed", "refused"):
            return self.workspace.tenants_error
        return NO_TENANTS if self.workspace.without_tenants else "No tenant selected. Choose one in Tenants."

    def records(self) -> Sequence[T]:
        return () if self.unavailable_reason() else self.record_list.records

    @property
    def known(self) -> bool:
        return not self.unavailable_reason() and self.record_list.known

    def freshness_text(self) -> str:
        return "" if self.unavailable_reason() else self.record_list.words

    def empty(self) -> str:
        if text := self.unavailable_reason():
            return text
        record_list = self.record_list
        if record_list.state == "failed" and record_list.error is not None:
            if record_list.error.code == NOT_ENTITLED:
                return (
                    NO_TENANTS
                    if self.workspace.without_tenants
                    else "You have no access to this tenant. Choose another tenant."
                )
            return (
                sentence(self.UNAVAILABLE_TEXT)
                if record_list.error.code == "SESSION_REQUIRED"
                else read_error_text(record_list.error)
            )
        return self._empty_text() if record_list.known else "Loading …"

    def _empty_text(self) -> str:
        """Return the text of an empty list, with the key that adds a record if the user may add one."""
        key = self.frame.keys.label(self.EMPTY_ACTION)
        if not key or BY_ID[self.EMPTY_ACTION].disabled_reason(self.frame.action_context()):
            return self.EMPTY_TEXT
        return f"{self.EMPTY_TEXT} {key}: {BY_ID[self.EMPTY_ACTION].title}"

    def related(self, name: str, subject: str, tenant_id: str = "") -> RecordList[Any]:
        """Return a list of a record. An unread list is read after the cursor has rested on the record."""
        tenant = tenant_id or self.tenant_id
        record_list = self.workspace.collections.get(name, tenant, subject)
        if record_list.state == "unread":
            self.workspace.collections.read(name, tenant, subject, rest=REST_SECONDS)
        return record_list

    # Updates

    def refresh_on_open(self) -> None:
        self.show()
        self.read()

    def read(self, *, quiet: bool = False) -> None:
        if not self.unavailable_reason():
            self.workspace.collections.read(
                self.LIST_NAME, self.tenant_id, self.subject.id if self.subject else "", quiet=quiet
            )
            self._say()

    def changed(self, update: Update) -> None:
        if update is Topic.CONTEXT and self.record is not None:  # they are loaded again, maybe for another person
            self._pending_selection = self.id_of(self.record)
        if update in (Topic.TENANT, Topic.CONTEXT, Topic.IDENTITY):
            self._follow()
        elif isinstance(update, ReadAgain) and self.display:
            self.read_again(update.name)
        elif update == ListChanged(self.LIST_NAME):
            if self.record_list.records is self._shown_records:
                self._say()
            else:
                self.show()
        elif isinstance(update, ListChanged) and update.name in self.RELATED:
            self.show_detail()
        if self._picker is not None and self._picker.is_mounted:
            self._picker.show()

    def read_again(self, only: str = "") -> None:
        """Read the shown lists again, or only the list named `only`."""
        if only in ("", self.LIST_NAME):
            self.read(quiet=True)
        record = self.record
        if record is None or self.unavailable_reason():
            return
        for name in self.RELATED:
            if only in ("", name):
                tenant, subject = self.tenant_of(record), self.related_key(name, record)
                self.workspace.collections.read(name, tenant, subject, quiet=True, rest=REST_SECONDS)

    def related_key(self, name: str, record: T) -> str:
        """Return the subject of a list of a record."""
        return self.id_of(record)

    def tenant_of(self, record: T) -> str:
        """Return the tenant of a record."""
        return self.tenant_id

    def _follow(self) -> None:
        self.show()
        if self.display and self.record_list.state == "unread":
            self.read()

    def select(self, record_id: str) -> None:
        """Move the cursor to a record, once it is loaded."""
        self._pending_selection = "" if self.table.select(record_id) else record_id

    def show(self) -> None:
        self._shown_records = self.record_list.records
        super().show()
        if self._pending_selection:
            self.select(self._pending_selection)
            if self.record_list.state == "fresh":
                self._pending_selection = ""  # the list is complete and does not contain it

    def _say(self) -> None:
        """Update the freshness only."""
        self.table.set_empty(self.empty())
        self._arranged()

    # Records, errors and pickers

    @property
    def frame(self) -> Navigator:
        """The main screen."""
        return frame_of(self)

    async def named(self, argument: str) -> T | None:
        """Return the record with this id or name; without an argument, the record under the cursor.

        Shows a warning and returns None if no record or several match, or if the tenant has changed during the read.
        """
        if not argument or self.unavailable_reason():
            return self.record
        tenant_id = self.tenant_id
        await self.record_list.settled.wait()
        if self.OF_TENANT and self.tenant_id != tenant_id:
            self.frame.toast("Not done: the tenant has changed", "warning")
            return None
        records = self.records()
        record = next((row for row in records if self.id_of(row) == argument), None)
        key = self.KIND.name_key
        same = find_by_name(records, argument, lambda row: (str(json_of(row).get(key, "")),))
        if record is None and len(same) != 1:
            several = f"several {self.KIND.plural} are named {argument}: use the ID"
            self.frame.toast(several if same else f"{self.KIND.name} not found: {argument}", "warning")
        return record or (same[0] if len(same) == 1 else None)

    def show_error(self, error: FrostError, before: str = "") -> None:
        """Show an error, with its first counterexample and its hint."""
        from client.models.analysis import ErrorDetails

        examples = ErrorDetails.read(error.details).counterexamples
        example = f"\nfor example {examples[0].operation} on {examples[0].target}" if examples else ""
        hint = f"\n{error.hint}" if error.hint else ""
        self.frame.toast(f"{before}{error.message}{example}{hint}", "error")

    async def pick(
        self, picker: Picker[R], lists: Sequence[tuple[str, str]], *, reload: bool = True
    ) -> Sequence[R] | None:
        """Open a picker. Its lists (name, subject) are read again if `reload`; they may arrive while it is open."""
        self._picker = picker
        for name, subject in lists if reload else ():
            self.workspace.collections.read(name, self.tenant_id, subject, quiet=True)
        try:
            return await self.app.push_screen_wait(picker)
        finally:
            self._picker = None

    # Common actions

    def do_show(self, record_id: str = "") -> None:
        self.do_detail(record_id)


class ChildListScreen(RemoteListScreen[T]):
    """A screen that shows the contents of a record of another screen. Esc returns there."""

    SHOWS_STATE: ClassVar[bool] = False
    """Whether it shows the state of keys and identities, which are then read as well."""

    def refresh_on_open(self) -> None:
        super().refresh_on_open()
        if self.SHOWS_STATE and not self.unavailable_reason():
            self.workspace.collections.read("principals", self.tenant_id, quiet=True)

    def read_again(self, only: str = "") -> None:
        super().read_again(only)
        if self.SHOWS_STATE and only in ("", "principals") and not self.unavailable_reason():
            self.workspace.collections.read("principals", self.tenant_id, quiet=True)

    def changed(self, update: Update) -> None:
        super().changed(update)
        if self.SHOWS_STATE and update == ListChanged("principals") and self.display:
            self.show()

    def state_of(self, key: str) -> str:
        """Return the state of a key or identity by `type:id`: active, revoked, expired, inert; empty if unknown."""
        principals: RecordList[Principal] = self.workspace.collections.get("principals", self.tenant_id)
        return next((principal.status for principal in principals.records if principal.key == key), "")

    def title_for(self, name: str) -> str:
        """Return the title with the name of the subject."""
        return f"{self.TITLE} of {name}"

    def enter(self, subject: Subject) -> None:
        if subject != self.subject:
            self.subject = subject
            self.heading.rename(self.title_for(subject.name))
            self.set_filter("")
            self.table.clear_marks()
            self.table.reset_cursor()

    @property
    def tenant_id(self) -> str:
        return self.subject.tenant_id if self.subject else ""

    def unavailable_reason(self) -> str:
        return (
            super().unavailable_reason()
            if self.subject
            else f"No record of {routes.BY_NAME[self.NAME].parent} is open."
        )

    def _follow(self) -> None:
        """Leave the screen if its subject belongs to another tenant."""
        if self.subject is not None and self.subject.tenant_id != self.workspace.tenant_id:
            self.subject = None
            if self.display:
                self.post_message(Navigate(self.frame.origin))
        super()._follow()


def sentence(text: str) -> str:
    """Return a reason as a sentence."""
    return f"{text[:1].upper()}{text[1:]}."


async def each(
    screen: RemoteListScreen[Any], records: Sequence[R], change: Callable[[R], Awaitable[object]]
) -> list[R]:
    """Change records one after another until the first error. Show that error and return the changed records."""
    done: list[R] = []
    for record in records:
        try:
            await change(record)
        except FrostError as error:
            before = f"{len(done)} of {len(records)} done, then: " if len(records) > 1 else ""
            screen.show_error(error, before)
            break
        done.append(record)
    return done
