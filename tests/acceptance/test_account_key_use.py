"""What a key may do: keys made with the command, used without our client."""

import time
from pathlib import Path

import pytest

from tests.acceptance.account import TENANT, Account, Key
from tests.acceptance.people import ADMIN, AURORA
from tests.conftest import opened
from tests.homes import Home

ALL = '{"schemaVersion":"1","rules":[{"name":"all","access":"allow","operations":["*"],"targets":["*"]}]}'
INTERACTIVE = {
    "port-forwards": "instance",
    "database-consoles": "database",
    "shells": "instance",
    "cluster-proxies": "kubernetes_cluster",
}
OPENED_BY = {
    "sessions:forward": {"port-forwards", "database-consoles"},
    "sessions:pty": {"shells"},
    "sessions:write": {"cluster-proxies"},
    "sessions:*": set(INTERACTIVE),
    "compute:write": set(),
    "compute:*": set(),
    "kubernetes:write": set(),
}


def test_a_key_with_finer_scopes_only_is_denied_everything(owner: Account) -> None:
    key = Key(owner, "compute:instances:start", "compute:instances:read")
    policy = owner.home.json("iam", "policy", "create", "--name", "all", "--document", ALL)["id"]
    attached = ("iam", "policy", "attach", policy, "--type", "api_key", "--id", key.id)
    for _ in range(2):
        for path in ("", "/resources/instance", f"/api-keys/{key.id}"):
            assert key.use("GET", path) == 403
        assert key.ask("GET", "/api/v1/me").status == 403
        assert key.use("POST", f"/resources/instance/{owner.some('instance')}/start") == 403
        assert owner.home.frost(*attached).code == 0


def test_its_own_commands_say_so(owner: Account) -> None:
    context = owner.context("compute:instances:start")
    made = owner.keys()
    newest = next(iter(made))
    for words in (("api-key", "get", newest), ("profile",)):
        assert "no scope that a service enforces" in owner.refused(4, *words, FROST_CONTEXT=context)


def test_a_key_reads_itself_and_no_other(owner: Account) -> None:
    other = Key(owner, "compute:read")
    context = owner.context("compute:read")
    itself = owner.done("profile", FROST_CONTEXT=context)["credential"]["id"]
    assert owner.done("api-key", "get", itself, FROST_CONTEXT=context)["id"] == itself
    assert "can read only its own record" in owner.refused(5, "api-key", "get", other.id, FROST_CONTEXT=context)


def test_a_context_whose_key_is_revoked_says_so_and_not_to_sign_in(owner: Account) -> None:
    context = owner.context("compute:read")
    itself = owner.done("profile", FROST_CONTEXT=context)["credential"]["id"]
    assert owner.run("api-key", "revoke", itself).code == 0
    for words in (("profile",), ("api-key", "get", itself), ("session", "list")):
        said = owner.refused(3, *words, FROST_CONTEXT=context)
        assert f"rejects the API key of context {context}: it or the account" in said
        assert "frost config set api_key" in said
        assert "frost login" not in said


def test_finer_scopes_add_nothing_to_the_coarse_ones(owner: Account) -> None:
    key = Key(owner, "compute:read", "compute:instances:start")
    assert key.use("GET", "/resources/instance") == 200
    assert key.use("POST", f"/resources/instance/{owner.some('instance')}/start") == 403


def test_writing_is_every_mutation_and_no_reading(owner: Account) -> None:
    key, reader, both = Key(owner, "compute:write"), Key(owner, "compute:read"), Key(owner, "compute:*")
    made = key.ask("POST", f"{TENANT}/resources/instance", {"name": "made", "region": "se-sto-1"})
    assert made.status == 201
    instance = f"/resources/instance/{made.json()['id']}"
    for deed, status in (("stop", 200), ("start", 200), ("restart", 200)):
        assert key.use("POST", f"{instance}/{deed}") == status
        assert reader.use("POST", f"{instance}/{deed}") == 403
    assert key.use("PATCH", instance, {"name": "renamed"}) == 200
    assert [one.use("GET", instance) for one in (key, reader, both)] == [403, 200, 200]
    assert [one.use("DELETE", instance) for one in (reader, both)] == [403, 204]


@pytest.mark.parametrize("scope", OPENED_BY)
def test_interactive_sessions_have_scopes_that_nothing_substitutes(owner: Account, scope: str) -> None:
    key = Key(owner, scope)
    opened_ = {
        name
        for name, kind in INTERACTIVE.items()
        if key.use("POST", f"/interactive/{name}", {"resourceId": owner.some(kind)}) == 200
    }
    assert opened_ == OPENED_BY[scope]


def test_above_its_limit_a_key_is_told_to_wait_and_others_are_not(owner: Account) -> None:
    key, other = Key(owner, "compute:read", more=("--rate-limit", "60")), Key(owner, "compute:read")
    began = time.monotonic()
    answers = [key.ask("GET", "/api/v1/me")]
    while answers[-1].status == 200 and len(answers) < 600:
        answers.append(key.ask("GET", "/api/v1/me"))
    passed = [one.status for one in answers].count(200)
    assert 60 <= passed <= 60 + int(time.monotonic() - began)
    assert {one.status for one in answers} == {200, 429}
    assert other.ask("GET", "/api/v1/me").status == 200
    last = next(one for one in reversed(answers) if one.status == 429)
    time.sleep(int(last.headers["retry-after"]))
    assert key.ask("GET", "/api/v1/me").status == 200


def test_a_key_loses_what_its_creator_loses(demo_platform: Path) -> None:
    home = opened(demo_platform)
    try:
        home.sign_in(ADMIN)
        key = Key(Account(home), "organizations:write", "organizations:read")
        assert key.use("GET", "") == 200
        _demote(home)
        assert key.use("PATCH", "", {"displayName": "Web Shop"}) == 403
        assert key.use("GET", "") == 403
    finally:
        home.remove()


def _demote(home: Home) -> None:
    """Take the role of the admin away; there is no route for it, so it is done in the database."""
    import sqlite3

    with sqlite3.connect(home.platform_dir / "platform.db", timeout=20) as database:
        done = database.execute(
            "UPDATE memberships SET role = 'viewer' WHERE organization_id = ? AND user_id ="
            " (SELECT id FROM users WHERE email = ?)",
            (AURORA, ADMIN),
        )
        assert done.rowcount == 1
