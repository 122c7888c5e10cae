"""The routes of the screens, in the order of their digits. The main screen knows no other names."""

from typing import NamedTuple


class Route(NamedTuple):
    """Name, title and class of a screen. Its module is imported on first use."""

    name: str
    title: str
    path: str
    """Its class, as `module:Class`."""
    parent: str = ""
    """For an inner screen, the screen whose records it shows the contents of. It has no digit."""


ROUTES = (
    Route("tenants", "Tenants", "tui.tenants.screen:Tenants"),
    Route("policies", "Policies", "tui.iam.policies:Policies"),
    Route("groups", "Groups", "tui.iam.groups:Groups"),
    Route("catalogue", "Catalogue", "tui.iam.access:Catalogue"),
    Route("contexts", "Contexts", "tui.contexts.screen:Contexts"),
    Route("api-keys", "API keys", "tui.account.api_keys:ApiKeys"),
    Route("sessions", "Sessions", "tui.account.sessions:Sessions"),
    Route("account", "Account", "tui.account.screen:Account"),
    Route("quotas", "Quotas", "tui.quotas.screen:Quotas"),
    Route("default-tags", "Tags", "tui.default_tags.screen:DefaultTags"),
    Route("activity", "Activity", "tui.activity.screen:Activity"),
)
"""The screens of the navigation."""
CHILD_ROUTES = (
    Route("attachments", "Attachments", "tui.iam.policies:Attachments", "policies"),
    Route("versions", "Versions", "tui.iam.versions:Versions", "policies"),
    Route("members", "Members", "tui.iam.groups:Members", "groups"),
    Route("access", "Access", "tui.iam.access:Access", "groups"),
    Route("who", "Who may", "tui.iam.access:Who", "catalogue"),
    Route("organization-quotas", "Organization's quotas", "tui.quotas.organization:OrganizationQuotas", "quotas"),
    Route("requests", "Requests", "tui.quotas.requests:QuotaRequests", "quotas"),
    Route("tag-versions", "History", "tui.default_tags.history:TagVersions", "default-tags"),
    Route("apply-preview", "Preview", "tui.default_tags.apply_preview:ApplyPreview", "default-tags"),
    Route("apply", "Apply", "tui.default_tags.apply_screen:Apply", "default-tags"),
    Route("apply-runs", "Recent runs", "tui.default_tags.apply_runs:ApplyRuns", "default-tags"),
    Route("untouched", "Failures and skips", "tui.default_tags.apply_items:Untouched", "default-tags"),
    Route("activity-of", "Activity of a record", "tui.activity.screen:ActivityOf", "activity"),
    Route("organization-activity", "Organization's activity", "tui.activity.screen:OrganizationActivity", "activity"),
)
"""Child screens."""
DIGITS = 9
"""Number of screens with a digit."""
NAMES = tuple(route.name for route in ROUTES)
BY_NAME = {route.name: route for route in (*ROUTES, *CHILD_ROUTES)}
