"""The places there are, in the order of their digits. The frame knows no place by name beyond this table."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tui.screens.place import Place
    from tui.workspace import Workspace


class Door(NamedTuple):
    """How a place is named and opened; the place's module is imported when it is opened first."""

    name: str
    title: str
    open: Callable[["Workspace"], "Place"]
    within: str = ""
    """The place whose records this one shows the inside of: it has no digit and is entered from there."""


def _tenants(workspace: "Workspace") -> "Place":
    from tui.screens.tenants import Tenants

    return Tenants(workspace)


def _policies(workspace: "Workspace") -> "Place":
    from tui.screens.policies import Policies

    return Policies(workspace)


def _attachments(workspace: "Workspace") -> "Place":
    from tui.screens.attachments import Attachments

    return Attachments(workspace)


def _versions(workspace: "Workspace") -> "Place":
    from tui.screens.versions import Versions

    return Versions(workspace)


def _groups(workspace: "Workspace") -> "Place":
    from tui.screens.groups import Groups

    return Groups(workspace)


def _members(workspace: "Workspace") -> "Place":
    from tui.screens.members import Members

    return Members(workspace)


def _access(workspace: "Workspace") -> "Place":
    from tui.screens.access import Access

    return Access(workspace)


def _catalogue(workspace: "Workspace") -> "Place":
    from tui.screens.catalogue import Catalogue

    return Catalogue(workspace)


def _who(workspace: "Workspace") -> "Place":
    from tui.screens.who import Who

    return Who(workspace)


def _contexts(workspace: "Workspace") -> "Place":
    from tui.screens.contexts import Contexts

    return Contexts(workspace)


def _api_keys(workspace: "Workspace") -> "Place":
    from tui.screens.api_keys import ApiKeys

    return ApiKeys(workspace)


def _sessions(workspace: "Workspace") -> "Place":
    from tui.screens.sessions import Sessions

    return Sessions(workspace)


def _account(workspace: "Workspace") -> "Place":
    from tui.screens.account import Account

    return Account(workspace)


def _quotas(workspace: "Workspace") -> "Place":
    from tui.screens.quotas import Quotas

    return Quotas(workspace)


def _organization_quotas(workspace: "Workspace") -> "Place":
    from tui.screens.organization_quotas import OrganizationQuotas

    return OrganizationQuotas(workspace)


def _quota_requests(workspace: "Workspace") -> "Place":
    from tui.screens.quota_requests import QuotaRequests

    return QuotaRequests(workspace)


def _default_tags(workspace: "Workspace") -> "Place":
    from tui.screens.default_tags import DefaultTags

    return DefaultTags(workspace)


def _tag_versions(workspace: "Workspace") -> "Place":
    from tui.screens.tag_versions import TagVersions

    return TagVersions(workspace)


def _apply_preview(workspace: "Workspace") -> "Place":
    from tui.screens.apply_preview import ApplyPreview

    return ApplyPreview(workspace)


def _apply(workspace: "Workspace") -> "Place":
    from tui.screens.apply import Apply

    return Apply(workspace)


def _apply_runs(workspace: "Workspace") -> "Place":
    from tui.screens.apply_runs import ApplyRuns

    return ApplyRuns(workspace)


def _untouched(workspace: "Workspace") -> "Place":
    from tui.screens.untouched import Untouched

    return Untouched(workspace)


def _activity(workspace: "Workspace") -> "Place":
    from tui.screens.activity import Activity

    return Activity(workspace)


def _activity_of(workspace: "Workspace") -> "Place":
    from tui.screens.activity import ActivityOf

    return ActivityOf(workspace)


def _organization_activity(workspace: "Workspace") -> "Place":
    from tui.screens.activity import OrganizationActivity

    return OrganizationActivity(workspace)


DOORS = (
    Door("tenants", "Tenants", _tenants),
    Door("policies", "Policies", _policies),
    Door("groups", "Groups", _groups),
    Door("catalogue", "Catalogue", _catalogue),
    Door("contexts", "Contexts", _contexts),
    Door("api-keys", "API keys", _api_keys),
    Door("sessions", "Sessions", _sessions),
    Door("account", "Account", _account),
    Door("quotas", "Quotas", _quotas),
    Door("default-tags", "Tags", _default_tags),
    Door("activity", "Activity", _activity),
)
"""The places of the navigation."""
INNER = (
    Door("attachments", "Attachments", _attachments, "policies"),
    Door("versions", "Versions", _versions, "policies"),
    Door("members", "Members", _members, "groups"),
    Door("access", "Access", _access, "groups"),
    Door("who", "Who may", _who, "catalogue"),
    Door("organization-quotas", "Organization's quotas", _organization_quotas, "quotas"),
    Door("requests", "Requests", _quota_requests, "quotas"),
    Door("tag-versions", "What the set was", _tag_versions, "default-tags"),
    Door("apply-preview", "Preview", _apply_preview, "default-tags"),
    Door("apply", "Apply", _apply, "default-tags"),
    Door("apply-runs", "The last runs", _apply_runs, "default-tags"),
    Door("untouched", "Failures and skips", _untouched, "default-tags"),
    Door("activity-of", "Activity of one", _activity_of, "activity"),
    Door("organization-activity", "Organization's activity", _organization_activity, "activity"),
)
"""Places that show the inside of a record of another place."""
DIGITS = 9
"""So many places of the navigation are reached by their digit."""
NAMES = tuple(door.name for door in DOORS)
BY_NAME = {door.name: door for door in (*DOORS, *INNER)}
