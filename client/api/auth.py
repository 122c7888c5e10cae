"""Calls before signing in. Source: facts 1.5."""

from __future__ import annotations

from client.core import Call, Request


def cli_config() -> Call:
    """Which identity provider the platform trusts, and as which client to sign in there."""
    request = Request("GET", "/v1/auth/cli-config", authenticated=False)
    return Call(request, model="account.CliConfig", needs=("issuer",))
