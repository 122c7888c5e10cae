"""Making, finding, revoking and deleting API keys with the commands."""

import json

import pytest
import yaml

from tests.acceptance.account import CREATE, Account, Key


def test_a_key_comes_with_its_secret_shown_only_now(owner: Account) -> None:
    result = owner.run("api-key", "create", "--name", "ci", "--scopes", "compute:read")
    *table, empty, heading, secret = result.out.splitlines()
    assert (result.code, len(table), empty) == (0, 2, "")
    assert "shown once" in heading
    assert secret not in "".join(table) + result.err
    assert owner.home.request("GET", "/api/v1/me", key=secret).status == 200
    # Quiet, the secret is alone and can be piped.
    quiet = owner.run("-q", *CREATE, "compute:read")
    me = owner.home.request("GET", "/api/v1/me", key=quiet.out.strip())
    rotated = owner.run("api-key", "rotate", me.json()["credential"]["id"], "-q")
    for result in (quiet, rotated):
        secret, *more = result.out.splitlines()
        assert (result.code, result.err, more) == (0, "", [])
        assert owner.home.request("GET", "/api/v1/me", key=secret).status == 200
    for form, read in (("json", json.loads), ("yaml", yaml.safe_load)):
        result = owner.run(*CREATE, "compute:read", "-o", form, "-q")
        document = read(result.out)
        assert (result.code, result.err, list(document)) == (0, "", ["apiKey", "key"])
        assert document["apiKey"]["name"] == "test key"
        assert document["key"].startswith(document["apiKey"]["keyPrefix"])


def test_a_key_is_read_listed_and_revoked_without_its_secret(owner: Account) -> None:
    key = Key(owner, "compute:read", "dns:read", more=("--description", "for the tests", "--rate-limit", "42"))
    assert owner.done("api-key", "get", key.id) == key.made
    shown = owner.run("api-keys", "get", key.id).out
    for text in ("for the tests", "compute:read, dns:read", "42 requests per minute", "active", key.made["keyPrefix"]):
        assert text in shown
    assert {"created", "expires", "last used"} <= {line.split("  ")[0] for line in shown.splitlines()}
    words = (("get", key.id), ("list",), ("list", "-o", "wide"), ("revoke", key.id), ("get", key.id, "-o", "yaml"))
    results = [owner.run("api-key", *one, "-d") for one in words]
    shown = "".join(one.out + one.err for one in results)
    assert (key.id in shown, key.secret[12:] in shown) == (True, False)
    assert owner.keys()[key.id]["status"] == "revoked"
    again = owner.run("api-key", "revoke", key.id)
    assert (again.code, again.err) == (0, "already revoked\n")
    assert key.ask("GET", "/api/v1/me").status == 401


@pytest.mark.parametrize("given", [(), ("--scopes", ""), ("--scopes", ","), ("--scopes=", "--scopes=,,")])
def test_at_least_one_scope_is_required(owner: Account, given: tuple[str, ...]) -> None:
    message = owner.refused(2, "api-key", "create", "--name", "no scopes", *given)
    assert "at least one scope" in message
    assert "frost account api-key scopes" in message


@pytest.mark.parametrize(
    ("scopes", "warning"),
    [
        ("compute:instances:start", "compute:instances:start: every request of this key is denied"),
        ("compute:start", "compute:start: every request of this key is denied"),
        ("compute:read,compute:start,dns:zones:read", "compute:start, dns:zones:read: these scopes allow nothing"),
        ("compute:*,storage:write,sessions:*", ""),
    ],
)
def test_scopes_that_no_service_enforces_are_given_with_a_warning(owner: Account, scopes: str, warning: str) -> None:
    result = owner.run(*CREATE, scopes, "-q", "-o", "json")
    assert result.code == 0
    assert result.json()["apiKey"]["scopes"] == scopes.split(",")
    assert f"warning: no service enforces {warning}" in result.err if warning else result.err == ""


def test_scopes_are_listed_added_up_and_refused_with_the_nearest(owner: Account) -> None:
    lines = owner.run("api-key", "scopes").out.splitlines()
    assert lines[0] == "SCOPE"
    assert {"compute:read", "compute:*", "sessions:pty", "organizations:write"} <= set(lines)
    assert all(len(line.split(":")) == 2 for line in lines[1:])
    assert [one["scope"] for one in owner.done("api-key", "scopes")["items"]] == lines[1:]
    made = owner.done(*CREATE, "compute:*,storage:read", "--scopes", "dns:read", "--scopes=compute:*")["apiKey"]
    assert (made["scopes"], made["rateLimit"]) == (["compute:*", "storage:read", "dns:read"], 600)
    result = owner.run(*CREATE, "compte:read", "-o", "json")
    assert (result.code, result.out, result.error()["code"]) == (2, "", "INVALID_SCOPE")
    assert "compute:read" in result.error()["message"]


def test_a_refused_key_in_a_context_is_named_with_the_next_step(owner: Account) -> None:
    unenforced = owner.context("compute:instances:start")
    for words in (("api-key", "get", next(iter(owner.keys()))), ("profile",)):
        assert "no scope that a service enforces" in owner.refused(4, *words, FROST_CONTEXT=unenforced)
    reader = owner.context("storage:read")
    result = owner.home.frost("tenant", "list", env={"FROST_CONTEXT": reader})
    assert (result.code, result.out, "organizations:read" in result.err) == (4, "", True)
    itself = owner.done("profile", FROST_CONTEXT=reader)["credential"]["id"]
    for words in (
        ("api-key", "list"),
        (*CREATE, "compute:read"),
        ("session", "list"),
        ("session", "revoke-all"),
        ("delete", "--yes"),
    ):
        assert "frost login --context NAME" in owner.refused(4, *words, FROST_CONTEXT=reader)
    assert owner.run("api-key", "revoke", itself).code == 0
    for words in (("profile",), ("api-key", "get", itself), ("session", "list")):
        message = owner.refused(3, *words, FROST_CONTEXT=reader)
        assert f"rejects the API key of context {reader}: it or the account" in message
        assert "frost config set api_key" in message
        assert "frost login" not in message
