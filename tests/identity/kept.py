"""The credentials of a signed-in home, the claims of its tokens, and the platform's answers to them."""

import base64
import json
import time
from typing import Any

import yaml

from tests.identity.provider import Site


def credentials(site: Site) -> dict[str, Any]:
    return dict(yaml.safe_load(site.home.config.read_text())["contexts"]["work"]["credentials"])


def claims_of(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))))


def taken(site: Site, token: str) -> int:
    """Return the platform's status for a token."""
    return site.platform.get("/api/v1/me", token=token).status


def make_due(site: Site) -> dict[str, Any]:
    """Move the expiry of the access token into the next seconds; return the credentials."""
    before = credentials(site)
    soon = str(int(time.time()) + 5)
    site.home.config.write_text(site.home.config.read_text().replace(str(before["expires_at"]), soon))
    return before


def who(site: Site) -> str:
    result = site.home.frost("whoami", "-o", "json")
    assert result.code == 0, (result, site.log)
    return str(result.json()["email"])


def past_this_second() -> None:
    """Wait: `auth_time` is in whole seconds, and a sign-in in the second of `revoke-all` counts as before it."""
    time.sleep(1.1)
