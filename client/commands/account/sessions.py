"""`frost account session`: the sessions of all devices."""

from client.api import account as calls
from client.commands.command import Group
from client.commands.invocation import Invocation
from client.tables.account import SESSION

session = Group("session", help="Manage your sessions on all devices.", person=True)


@session.leaf("list", examples=("frost account session list", "frost account session list -o wide"))
def list_(run: Invocation) -> None:
    """List your active sessions, last seen first. A star marks this one."""
    found = run.call(calls.sessions())["sessions"]
    this = next((one["id"] for one in found if one.get("current")), "")
    run.output.records(SESSION, found, marked=this)


@session.leaf("revoke-all", examples=("frost account session revoke-all",))
def revoke_all(run: Invocation) -> None:
    """End all your sessions on all devices, including this one.

    API keys are not revoked.
    """
    answer = run.call(calls.revoke_all_sessions())
    from client.auth import sign_in

    sign_in.clear_ended_session(run.connection)
    run.tell_notices(run.connection)
    ended = answer["ended"]
    sessions_ = "session has" if ended == 1 else "sessions have"
    run.output.done(f"{ended} {sessions_} ended, including this one; sign in again: frost login", answer)
