"""What the header says of a workspace, in words and signs."""

from client.records import Record
from tui.apply_words import is_undo
from tui.contexts import credential_words
from tui.widgets.header import Facts
from tui.workspace import Workspace


def facts(workspace: Workspace, *, looks_again: bool = True) -> Facts:
    """What the header says of a workspace; `looks_again` where the key for that works, so that it may be named."""
    tenant: Record = workspace.tenant or {}
    credential = (workspace.me or {}).get("credential", {})
    how = credential_words(str(credential["kind"])) if credential else ""
    link = workspace.link
    words, key, tone = {
        "opening": ("○ connecting", "", "$text-muted"),
        "up": (f"● connected {link.latency}".rstrip(), "", "$text-muted"),
        "lost": ("", "", ""),
        "signed_out": ("! not signed in", "r signs in", "$text-warning"),
    }[link.state]
    if link.state == "signed_out" and workspace.key_first:
        words, key = "! API key refused", "r tries again"
    elif link.state == "lost" and link.stopped:
        words, key, tone = "○ stopped", "r starts it", "$text-warning"
    elif link.state == "lost" and link.since is not None:
        words, key = f"! no answer since {link.since.astimezone():%H:%M:%S} · trying again", "r tries now"
        tone = "$text-error"
    nobody = link.state == "signed_out"  # who it was is no longer who it is
    missing = workspace.tenant_id and not tenant and workspace.tenants_state == "fresh"
    return Facts(
        context=workspace.context,
        organization=str(tenant.get("organizationName", "")),
        tenant=str(tenant.get("displayName", "")) or ("not available: choose another" if missing else ""),
        status=str(tenant.get("status", "")),
        who="" if nobody else workspace.who,
        how="" if nobody else how,
        note=HINT if workspace.first_run and workspace.tenant_source != "here" else _source(workspace),
        read_only=bool(workspace.read_only),
        link=f"{words} · {key}" if key and looks_again else words,
        link_tone=tone,
        running=_running(workspace),
    )


HINT = "A platform of your own · ? for help"
"""The one line of the first run; it gives way with the next start."""


def _running(workspace: Workspace) -> str:
    """What goes on, wherever one is: how far an apply is, and how many other operations there are."""
    applies = workspace.applies.running
    others = len(workspace.provisioning.running) + len(applies[1:])
    if not applies:
        return f"◐ {others} running" if others else ""
    tenant_id, run = applies[0]
    verb = "undoing" if is_undo(run.operation) else "applying"
    elsewhere = f" in {workspace.name_of(tenant_id)}" if tenant_id != workspace.tenant_id else ""
    return f"◐ {verb} {run.operation.get('progress') or 0:.0f}%{elsewhere}{f' +{others}' if others else ''}"


def _source(workspace: Workspace) -> str:
    """Why it is this tenant, when that is not the stored choice."""
    return (
        {
            "flag": "tenant from --tenant",
            "variable": "tenant from FROST_TENANT",
            "default": "your default tenant",
            "here": "not stored",
        }.get(workspace.tenant_source, "")
        if workspace.tenant_id
        else ""
    )
