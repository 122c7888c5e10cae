"""`frost account`: the profile, the sessions of all devices, and deleting the account."""

from typing import Any

from client.api import account as calls
from client.commands.command import Group, Lazy
from client.commands.invocation import Invocation
from client.commands.output import Fact
from client.commands.parameters import YES
from client.errors import Exit, FrostError
from client.tables import columns
from client.tables.account import SESSION
from client.text import safe

account = Group(
    "account",
    {
        "api-key": Lazy("client.commands.account.keys:api_key", "Manage your API keys.", ("api-keys",)),
        "session": Lazy(
            "client.commands.account.profile:session", "Manage your sessions on all devices.", ("sessions",)
        ),
    },
    help="Manage your profile, API keys and sessions.",
)


@account.leaf("profile", examples=("frost account profile", "frost account profile -o json"))
def profile(run: Invocation) -> None:
    """Show your profile and organizations.

    With an API key, show the owner of the key and the limits of the key.
    """
    me = run.me
    name_tenant = str if run.output.structured else run.tenant_text
    credential = me.get("credential") or {}
    facts: list[Fact] = [
        ("id", me["id"]),
        ("email", me.get("email", "")),
        ("name", me.get("name", "")),
        ("created", columns.time_text(me.get("createdAt"))),
        ("default tenant", name_tenant(me.get("tenantId") or "")),
        ("credential", _CREDENTIALS.get(str(credential.get("kind")), str(credential.get("kind", "")))),
    ]
    if credential.get("scopes") is not None:
        facts += [
            ("tenant", name_tenant(str(credential.get("tenantId") or ""))),
            ("scopes", ", ".join(map(str, credential["scopes"]))),
        ]
    if credential.get("expiresAt"):
        facts.append(("expires", columns.time_text(credential["expiresAt"])))
    if run.output.wide:
        facts.append(("credential id", str(credential.get("id") or "")))
    for organization in me.get("organizations", ()):
        facts.append(("organization", f"{organization['name']} · {organization['role']} · {organization['id']}"))
        if run.output.wide:
            facts.append(
                ("", f"slug {organization.get('slug', '')}, created {columns.time_text(organization.get('createdAt'))}")
            )
    run.output.facts(me, facts)


_CREDENTIALS = {"api_key": "API key", "session": "session", "workload": "workload identity"}


@account.leaf(
    "delete",
    YES,
    person=True,
    examples=("frost account delete",),
)
def delete(run: Invocation, yes: bool) -> None:
    """Delete your account. Support can restore it within 30 days.

    All its sessions and API keys end at once, and stay ended if the account is restored. Type your e-mail address
    to confirm.
    """
    me = run.me
    _needs_person(run, me)
    email = str(me.get("email") or "").strip()
    if not email:
        raise FrostError(
            "the account has no e-mail address, which confirms a deletion",
            code="ADDRESS_MISSING",
            hint="ask the support of the platform to delete the account",
        )
    if not yes:
        from client.commands import output

        output.confirm(
            run.talk,
            f"Delete the account {safe(email, 130)}, its sessions and API keys?",
            refused=f"this deletes the account {safe(email, 130)}",
            hint="use --yes to skip the confirmation",
            typed=email,
        )
    try:
        gone: dict[str, Any] = run.call(calls.delete(email))
    except FrostError as error:
        if error.code == "LAST_OWNER":
            _name_organizations(error)
        raise
    from client.auth import sign_in

    sign_in.clear_ended_session(run.connection)
    run.show_notices(run.connection)
    until = columns.time_text(gone["restorableUntil"])
    run.output.done(f"account {email} was deleted; support can restore it until {until}", gone)


def _needs_person(run: Invocation, me: dict[str, Any]) -> None:
    """Refuse an API key or a workload identity before sending a request: only a person may delete an account."""
    if (me.get("credential") or {}).get("kind", "session") == "session":
        return
    error = FrostError(
        "only a signed-in user can delete the account",
        code="SESSION_REQUIRED",
        hint="use an interactive login: frost login",
        exit_code=Exit.NOT_ALLOWED,
    )
    run.point_to_person(error)
    raise error


def _name_organizations(error: FrostError) -> None:
    """Name the organizations that prevent the deletion, and a solution."""
    organizations = (error.details or {}).get("organizations")
    if isinstance(organizations, list) and organizations:
        names = ", ".join(
            f"{safe(organization['name'], 80)} ({safe(organization['id'], 40)})" for organization in organizations
        )
        have = "has" if len(organizations) == 1 else "have"
        error.message = f"you are the last owner of {names}, which {have} other members"
    error.hint = "make another member an owner, then delete the account"


session = Group("session", help="Manage your sessions on all devices.", person=True)


@session.leaf("list", examples=("frost account session list", "frost account session list -o wide"))
def list_sessions(run: Invocation) -> None:
    """List your active sessions, last seen first. A star marks this one."""
    sessions = run.call(calls.sessions())["sessions"]
    this = next((one["id"] for one in sessions if one.get("current")), "")
    run.output.records(SESSION, sessions, marked=this)


@session.leaf("revoke-all", examples=("frost account session revoke-all",))
def revoke_all(run: Invocation) -> None:
    """End all your sessions on all devices, including this one.

    API keys are not revoked.
    """
    answer = run.call(calls.revoke_all_sessions())
    from client.auth import sign_in

    sign_in.clear_ended_session(run.connection)
    run.show_notices(run.connection)
    ended = answer["ended"]
    sessions_ = "session has" if ended == 1 else "sessions have"
    run.output.done(f"{ended} {sessions_} ended, including this one; sign in again: frost login", answer)
