"""Base of the quota screens."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from client import quota_request
from client.tables.columns import Record, cells
from tui.quotas import table
from tui.quotas.request_dialog import QuotaForm
from tui.quotas.table import RowLayout
from tui.shell.remote_list_screen import RemoteListScreen
from tui.shell.routes import Subject
from tui.state.list_store import Rows
from tui.widgets.row_painting import GUTTER

if TYPE_CHECKING:
    from tui.state.workspace import Workspace

REQUESTS = "quota requests"


class OfQuotas(RemoteListScreen):
    """A list of quotas that marks pending requests. An open form is updated when the quotas change."""

    def __init__(self, workspace: "Workspace") -> None:
        super().__init__(workspace)
        self.row_layout = RowLayout(self._space)
        self._form: QuotaForm | None = None

    def _space(self) -> int:
        return self.table.size.width - GUTTER - 1 if self.is_mounted else 0

    @property
    def organization_id(self) -> str:
        """Organization whose requests are included; empty if they are not."""
        raise NotImplementedError

    @property
    def requests(self) -> Rows:
        return self.workspace.collections.rows(REQUESTS, self.tenant_id, self.organization_id)

    def records(self) -> Sequence[Record]:
        """Leave out quotas with a limit of 0 that cannot be requested, as the commands do."""
        return [one for one in super().records() if one["limit"] or quota_request.requestable(one)]

    def show(self) -> None:
        self.row_layout.take(self.records())
        self.row_layout.pending = table.waiting(self.requests.records)
        self.row_layout.own = self.tenant_id
        super().show()

    def read(self, *, quiet: bool = False) -> None:
        super().read(quiet=quiet)
        if not self.unavailable_reason():
            self.workspace.collections.read(REQUESTS, self.tenant_id, self.organization_id, quiet=quiet)

    def changed(self, topic: str) -> None:
        super().changed(topic)
        if topic == REQUESTS:
            self.show()
            self.show_detail()
        elif topic == "tenants" and self.display and self.requests.state == "unread":
            self.read(quiet=True)  # the organization is known now
        if topic == self.LIST_NAME and self._form is not None and self._form.is_mounted:
            self._form.show()

    def quota(self, resource_type: str) -> Record | None:
        return next((one for one in self.rows.records if one["resourceType"] == resource_type), None)

    def requests_subject(self) -> Subject:
        """Return the subject of the requests screen."""
        tenant = self.workspace.find(self.tenant_id) or {}
        return Subject(self.tenant_id, self.organization_id, str(tenant.get("displayName", "")))

    async def fill(self, form: QuotaForm) -> Any:
        """Show a form and return its result."""
        self._form = form
        try:
            return await self.app.push_screen_wait(form)
        finally:
            self._form = None

    def copies(self) -> Mapping[str, str]:
        """Copy the figures of a row instead of its bar."""
        texts = dict(super().copies())
        records = self.table.selected_records
        if records:
            texts["row"] = "\n".join("\t".join(cells(self.KIND, record)) for record in records)
        return texts
