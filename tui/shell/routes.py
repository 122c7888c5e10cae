"""The routes of the screens, and the messages that screens and dialogs send to the main screen."""

from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from textual.message import Message


class Route(NamedTuple):
    """Name, title and class of a screen. Its module is imported on first use."""

    name: str
    title: str
    path: str
    """Its class, as `module:Class`."""
    parent: str = ""
    """For an inner screen, the list screen of its subject. An inner screen has no digit."""


ROUTES = (
    Route("tenants", "Tenants", "tui.tenants.screen:Tenants"),
    Route("policies", "Policies", "tui.iam.policies:Policies"),
    Route("groups", "Groups", "tui.iam.groups:Groups"),
    Route("catalogue", "Catalogue", "tui.iam.access:Catalogue"),
    Route("contexts", "Contexts", "tui.contexts.screen:Contexts"),
    Route("api-keys", "API keys", "tui.account.api_keys:ApiKeys"),
    Route("sessions", "Sessions", "tui.account.screen:Sessions"),
    Route("account", "Account", "tui.account.screen:Account"),
    Route("quotas", "Quotas", "tui.quotas.screen:Quotas"),
    Route("default-tags", "Tags", "tui.default_tags.screen:DefaultTags"),
    Route("activity", "Activity", "tui.activity.screen:Activity"),
)
"""The screens of the navigation."""
CHILD_ROUTES = (
    Route("attachments", "Attachments", "tui.iam.policies:Attachments", "policies"),
    Route("versions", "Versions", "tui.iam.policies:Versions", "policies"),
    Route("members", "Members", "tui.iam.groups:Members", "groups"),
    Route("access", "Access", "tui.iam.access:Access", "groups"),
    Route("who", "Who may", "tui.iam.access:Who", "catalogue"),
    Route("organization-quotas", "Organization's quotas", "tui.quotas.screen:OrganizationQuotas", "quotas"),
    Route("requests", "Requests", "tui.quotas.screen:QuotaRequests", "quotas"),
    Route("tag-versions", "History", "tui.default_tags.versions:TagVersions", "default-tags"),
    Route("apply-preview", "Preview", "tui.default_tags.apply_lists:ApplyPreview", "default-tags"),
    Route("apply", "Apply", "tui.default_tags.apply_screen:Apply", "default-tags"),
    Route("apply-runs", "Recent runs", "tui.default_tags.apply_lists:ApplyRuns", "default-tags"),
    Route("untouched", "Failures and skips", "tui.default_tags.apply_lists:Untouched", "default-tags"),
    Route("activity-of", "Activity of a record", "tui.activity.screen:ActivityOf", "activity"),
    Route("organization-activity", "Organization's activity", "tui.activity.screen:OrganizationActivity", "activity"),
)
"""Child screens."""
DIGITS = 9
"""Number of screens with a digit."""
NAMES = tuple(route.name for route in ROUTES)
BY_NAME = {route.name: route for route in (*ROUTES, *CHILD_ROUTES)}


class Subject(NamedTuple):
    """The record whose contents a screen shows, and its tenant."""

    tenant_id: str
    id: str
    name: str


@dataclass(eq=False)
class RunAction(Message):
    """Request an action. `argument` names a record, in case the cursor has moved."""

    action: str
    argument: str = ""


@dataclass(eq=False)
class Navigate(Message):
    """Request a screen. A child screen shows the contents of `subject`; the cursor moves to `record`."""

    screen: str
    subject: Subject | None = None
    filter: str = ""
    _: KW_ONLY
    record: str = ""


@dataclass(eq=False)
class UndoAvailable(Message):
    """A reversible change was made. `undone` describes its undo."""

    description: str
    undo: Callable[[], Awaitable[None]]
    undone: str


@dataclass(eq=False)
class UndoCleared(Message):
    """An irreversible change was made. Earlier changes can no longer be undone."""

    description: str


class PrincipalLoaded(Message, bubble=False):
    """The principal was loaded, or dropped with its context. Sent to each Textual screen in front of the main one."""


class PrincipalChanged(Message, bubble=False):
    """Another principal, context or endpoint is in use. Sent to each Textual screen in front of the main one."""


class SignInRequired(Message):
    """The session has ended, and the user wants to sign in."""
