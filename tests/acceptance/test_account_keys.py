"""Making, finding, revoking and deleting API keys with the commands."""

import json

import pytest
import yaml

from tests.acceptance.account import CREATE, Account, Key
from tests.acceptance.people import NOBODYS, OWNER, WEB_SHOP
from tests.service.access import KEYS

TERRAFORM = KEYS["terraform"]
"""A key of the world that somebody else made."""


def test_a_key_comes_with_its_secret_shown_only_now(owner: Account) -> None:
    result = owner.run("api-key", "create", "--name", "ci", "--scopes", "compute:read")
    *table, empty, heading, secret = result.out.splitlines()
    assert (result.code, len(table), empty) == (0, 2, "")
    assert "shown once" in heading
    assert secret.startswith("fmk_")
    assert secret not in "".join(table) + result.err
    assert owner.home.request("GET", "/api/v1/me", key=secret).status == 200


def test_quiet_it_is_the_secret_alone_so_that_it_can_be_piped(owner: Account) -> None:
    made = owner.run("-q", *CREATE, "compute:read")
    secret, *more = made.out.splitlines()
    assert (made.code, made.err, more) == (0, "", [])
    me = owner.home.request("GET", "/api/v1/me", key=secret)
    assert me.status == 200
    rotated = owner.run("api-key", "rotate", me.json()["credential"]["id"], "-q")
    newer, *more = rotated.out.splitlines()
    assert (rotated.code, rotated.err, more) == (0, "", [])
    assert owner.home.request("GET", "/api/v1/me", key=newer).status == 200


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_as_a_document_it_is_the_key_and_its_secret(owner: Account, form: str) -> None:
    result = owner.run(*CREATE, "compute:read", "-o", form, "-q")
    document = (json.loads if form == "json" else yaml.safe_load)(result.out)
    assert (result.code, result.err, list(document)) == (0, "", ["apiKey", "key"])
    assert document["apiKey"]["name"] == "test key"
    assert document["key"].startswith(document["apiKey"]["keyPrefix"])


def test_no_other_answer_has_the_secret(owner: Account) -> None:
    key = Key(owner, "compute:read")
    words = (("get", key.id), ("list",), ("list", "-o", "wide"), ("revoke", key.id), ("get", key.id, "-o", "yaml"))
    results = [owner.run("api-key", *one, "-d") for one in words]
    shown = "".join(one.out + one.err for one in results)
    assert key.id in shown
    assert key.secret[12:] not in shown


@pytest.mark.parametrize("given", [(), ("--scopes", ""), ("--scopes", ","), ("--scopes=", "--scopes=,,")])
def test_at_least_one_scope_is_required(owner: Account, given: tuple[str, ...]) -> None:
    said = owner.refused(2, "api-key", "create", "--name", "no scopes", *given)
    assert "at least one scope" in said
    assert "frost account api-key scopes" in said


def test_scopes_add_up_and_each_is_kept_once(owner: Account) -> None:
    made = owner.done(*CREATE, "compute:*,storage:read", "--scopes", "dns:read", "--scopes=compute:*")["apiKey"]
    assert made["scopes"] == ["compute:*", "storage:read", "dns:read"]


@pytest.mark.parametrize(
    ("scopes", "named"),
    [
        ("compute:instances:start", "compute:instances:start: every request of this key is denied"),
        ("compute:start", "compute:start: every request of this key is denied"),
        ("compute:read,compute:start,dns:zones:read", "compute:start, dns:zones:read: these scopes allow nothing"),
    ],
)
def test_scopes_that_no_service_enforces_are_given_with_a_warning(owner: Account, scopes: str, named: str) -> None:
    result = owner.run(*CREATE, scopes, "-q", "-o", "json")
    assert result.code == 0
    assert f"warning: no service enforces {named}" in result.err
    assert result.json()["apiKey"]["scopes"] == scopes.split(",")
    assert owner.run(*CREATE, "compute:*,storage:write,sessions:*", "-q").err == ""


def test_a_malformed_scope_is_refused_with_the_nearest(owner: Account) -> None:
    result = owner.run(*CREATE, "compte:read", "-o", "json")
    assert (result.code, result.out, result.error()["code"]) == (2, "", "INVALID_SCOPE")
    assert "compute:read" in result.error()["message"]


def test_a_key_says_everything_about_itself_but_its_secret(owner: Account) -> None:
    made = Key(owner, "compute:read", "dns:read", more=("--description", "for the tests", "--rate-limit", "42")).made
    plain = Key(owner, "compute:read").made
    assert plain["rateLimit"] == 600
    assert owner.done("api-key", "get", made["id"]) == made
    shown = owner.run("api-keys", "get", made["id"]).out
    for text in ("for the tests", "compute:read, dns:read", "42 requests per minute", "active", made["keyPrefix"]):
        assert text in shown
    assert {"created", "expires", "last used"} <= {line.split("  ")[0] for line in shown.splitlines()}


def test_own_keys_of_every_tenant_are_listed(owner: Account) -> None:
    found = owner.keys()
    assert {one["tenantName"] for one in found.values()} >= {"Web Shop", "Data Lake", "Newsroom"}
    assert {one["creatorEmail"] for one in found.values()} == {OWNER}
    assert TERRAFORM not in found
    heads = owner.run("api-key", "list").out.splitlines()[0].split()
    assert heads[:4] == ["NAME", "ID", "TENANT", "STATUS"]
    here = owner.done("api-key", "list", "--tenant", WEB_SHOP)["items"]
    assert {one["tenantId"] for one in here} == {WEB_SHOP}
    owner.refused(4, "api-key", "list", "--tenant", NOBODYS)


def test_a_revoked_key_is_refused_stays_listed_and_is_never_active_again(owner: Account) -> None:
    key = Key(owner, "compute:read")
    assert key.ask("GET", "/api/v1/me").status == 200
    assert owner.done("api-key", "revoke", key.id)["status"] == "revoked"
    assert key.ask("GET", "/api/v1/me").status == 401
    assert owner.keys()[key.id]["status"] == "revoked"
    again = owner.run("api-key", "revoke", key.id)
    assert (again.code, again.err) == (0, "already revoked\n")
    assert key.ask("GET", "/api/v1/me").status == 401


@pytest.mark.parametrize("word", ["get", "revoke", "delete", "rotate"])
def test_another_persons_key_is_not_found(owner: Account, word: str) -> None:
    for other in (TERRAFORM, NOBODYS):
        assert owner.refused(5, "api-key", word, other) == (
            f"frost: you have no API key {other}. List your keys: frost account api-key list\n"
        )
    assert owner.raw("GET", f"/api-keys/{TERRAFORM}").status == 404


def test_scopes_are_served_lines_without_the_wildcard(owner: Account) -> None:
    lines = owner.run("api-key", "scopes").out.splitlines()
    assert lines[0] == "SCOPE"
    assert {"compute:read", "compute:*", "sessions:pty", "organizations:write"} <= set(lines)
    assert all(len(line.split(":")) == 2 for line in lines[1:])
    items = owner.done("api-key", "scopes")["items"]
    assert [one["scope"] for one in items] == lines[1:]
    assert "*" not in lines


@pytest.mark.parametrize("word", ["get", "revoke", "delete", "rotate"])
@pytest.mark.parametrize("name", ["../me", "a/b", "..", "%2e%2e", "a\\b", "x\n"])
def test_a_name_of_a_key_is_never_part_of_a_path(owner: Account, word: str, name: str) -> None:
    result = owner.run("api-key", word, name, "-d")
    assert (result.code, result.out) == (5, "")
    requests = [line.split()[:2] for line in result.err.splitlines() if "/api/" in line]
    assert requests == [["GET", "/api/v1/me/api-keys"]]


@pytest.mark.parametrize("word", ["get", "revoke", "delete", "rotate"])
def test_an_empty_name_of_a_key_is_refused_before_a_request(owner: Account, word: str) -> None:
    result = owner.run("api-key", word, "", "-d")
    assert (result.code, result.out) == (2, "")
    assert "/api/" not in result.err


def test_a_key_without_enforced_scopes_is_refused_by_commands(owner: Account) -> None:
    context = owner.context("compute:instances:start")
    newest = next(iter(owner.keys()))
    for words in (("api-key", "get", newest), ("profile",)):
        assert "no scope that a service enforces" in owner.refused(4, *words, FROST_CONTEXT=context)


def test_a_key_reads_itself_and_no_other(owner: Account) -> None:
    other = Key(owner, "compute:read")
    context = owner.context("compute:read")
    itself = owner.done("profile", FROST_CONTEXT=context)["credential"]["id"]
    assert owner.done("api-key", "get", itself, FROST_CONTEXT=context)["id"] == itself
    assert "may read only itself" in owner.refused(5, "api-key", "get", other.id, FROST_CONTEXT=context)


def test_a_revoked_key_in_a_context_is_named_with_the_next_step(owner: Account) -> None:
    context = owner.context("compute:read")
    itself = owner.done("profile", FROST_CONTEXT=context)["credential"]["id"]
    assert owner.run("api-key", "revoke", itself).code == 0
    for words in (("profile",), ("api-key", "get", itself), ("session", "list")):
        said = owner.refused(3, *words, FROST_CONTEXT=context)
        assert f"rejects the API key of context {context}: it or the account" in said
        assert "frost config set api_key" in said
        assert "frost login" not in said
