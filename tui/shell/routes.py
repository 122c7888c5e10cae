"""The routes of the screens, in the order of their digits. The main screen knows no other names."""

from importlib import import_module
from typing import Any, NamedTuple


def load(path: str) -> Any:
    """Import `package.module:name` and return the object."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


class Door(NamedTuple):
    """Name, title and class of a screen. Its module is imported on first use."""

    name: str
    title: str
    path: str
    """Its class, as `module:Class`."""
    within: str = ""
    """For an inner screen, the screen whose records it shows the contents of. It has no digit."""


DOORS = (
    Door("tenants", "Tenants", "tui.tenants.screen:Tenants"),
    Door("policies", "Policies", "tui.iam.policies:Policies"),
    Door("groups", "Groups", "tui.iam.groups:Groups"),
    Door("catalogue", "Catalogue", "tui.iam.access:Catalogue"),
    Door("contexts", "Contexts", "tui.contexts.screen:Contexts"),
    Door("api-keys", "API keys", "tui.account.api_keys:ApiKeys"),
    Door("sessions", "Sessions", "tui.account.sessions:Sessions"),
    Door("account", "Account", "tui.account.screen:Account"),
    Door("quotas", "Quotas", "tui.quotas.screen:Quotas"),
    Door("default-tags", "Tags", "tui.default_tags.screen:DefaultTags"),
    Door("activity", "Activity", "tui.activity.screen:Activity"),
)
"""The screens of the navigation."""
INNER = (
    Door("attachments", "Attachments", "tui.iam.policies:Attachments", "policies"),
    Door("versions", "Versions", "tui.iam.versions:Versions", "policies"),
    Door("members", "Members", "tui.iam.groups:Members", "groups"),
    Door("access", "Access", "tui.iam.access:Access", "groups"),
    Door("who", "Who may", "tui.iam.access:Who", "catalogue"),
    Door("organization-quotas", "Organization's quotas", "tui.quotas.organization:OrganizationQuotas", "quotas"),
    Door("requests", "Requests", "tui.quotas.requests:QuotaRequests", "quotas"),
    Door("tag-versions", "What the set was", "tui.default_tags.history:TagVersions", "default-tags"),
    Door("apply-preview", "Preview", "tui.default_tags.apply_preview:ApplyPreview", "default-tags"),
    Door("apply", "Apply", "tui.default_tags.apply_screen:Apply", "default-tags"),
    Door("apply-runs", "The last runs", "tui.default_tags.apply_runs:ApplyRuns", "default-tags"),
    Door("untouched", "Failures and skips", "tui.default_tags.apply_items:Untouched", "default-tags"),
    Door("activity-of", "Activity of one", "tui.activity.screen:ActivityOf", "activity"),
    Door("organization-activity", "Organization's activity", "tui.activity.screen:OrganizationActivity", "activity"),
)
"""Inner screens."""
DIGITS = 9
"""Number of screens with a digit."""
NAMES = tuple(door.name for door in DOORS)
BY_NAME = {door.name: door for door in (*DOORS, *INNER)}
