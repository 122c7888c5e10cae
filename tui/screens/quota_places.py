"""What the places of a tenant's and of an organization's quotas share: the requests that are read beside the rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from client import quota_request
from client.records import Record, cells
from tui import quota_news
from tui.collections import Rows
from tui.history import Subject
from tui.quota_table import Shown
from tui.screens.collected import Collected
from tui.widgets.quota_form import QuotaForm
from tui.widgets.row_painting import GUTTER

if TYPE_CHECKING:
    from tui.workspace import Workspace

REQUESTS = "quota requests"


class OfQuotas(Collected):
    """A list of quotas, a pending request marked in it. A form filled in over it sees newer figures come."""

    def __init__(self, workspace: "Workspace") -> None:
        super().__init__(workspace)
        self.shown = Shown(self._space)
        self._form: QuotaForm | None = None

    def _space(self) -> int:
        return self.table.size.width - GUTTER - 1 if self.is_mounted else 0

    @property
    def organization_id(self) -> str:
        """The organization whose requests are told here as well; empty where they are not."""
        raise NotImplementedError

    @property
    def requests(self) -> Rows:
        """The requests as far as they are known."""
        return self.workspace.collections.rows(REQUESTS, self.tenant_id, self.organization_id)

    def records(self) -> Sequence[Record]:
        """Without images where none are allowed, as the commands have it (checklist Q10)."""
        return [one for one in super().records() if one["limit"] or quota_request.requestable(one)]

    def show(self) -> None:
        self.shown.take(self.records())
        self.shown.pending = quota_news.waiting(self.requests.records)
        self.shown.own = self.tenant_id
        super().show()

    def read(self, *, quiet: bool = False) -> None:
        super().read(quiet=quiet)
        if not self.hindrance():
            self.workspace.collections.read(REQUESTS, self.tenant_id, self.organization_id, quiet=quiet)

    def changed(self, topic: str) -> None:
        super().changed(topic)
        if topic == REQUESTS:
            self.show()
            self.show_detail()
        elif topic == "tenants" and self.display and self.requests.state == "unread":
            self.read(quiet=True)  # now the organization is known
        if topic == self.ROWS and self._form is not None and self._form.is_mounted:
            self._form.show()

    def quota(self, resource_type: str) -> Record | None:
        """A quota as it is known now."""
        return next((one for one in self.rows.records if one["resourceType"] == resource_type), None)

    def whose_requests(self) -> Subject:
        """The requests beside the rows, as what their own place shows the inside of."""
        tenant = self.workspace.find(self.tenant_id) or {}
        return Subject(self.tenant_id, self.organization_id, str(tenant.get("displayName", "")))

    async def fill(self, form: QuotaForm) -> Any:
        """Have a form filled in."""
        self._form = form
        try:
            return await self.app.push_screen_wait(form)
        finally:
            self._form = None

    def copies(self) -> Mapping[str, str]:
        """As everywhere; a row has the figures, not the bar."""
        texts = dict(super().copies())
        records = self.table.meant
        if records:
            texts["row"] = "\n".join("\t".join(cells(self.KIND, record)) for record in records)
        return texts
