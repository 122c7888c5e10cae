"""Policies and the catalogue of operations."""

import json

import pytest

from tests.acceptance.iam import KEYS, NO_ID, READ_TENANTS, Desk, allow, deny, text
from tests.people import OWNER, VIEWER
from tests.terminal import policy_editor

CREATE = ("policy", "create", "--name", "p", "--document")


def file(desk: Desk, content: str | bytes, name: str = "policy.json") -> str:
    path = desk.home.path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return f"@{name}"


def test_a_policy_is_created_and_read(desk: Desk) -> None:
    rule = allow("compute:instances:read", targets=("frn:compute:*:*:instances/*",), equals={"frn:region": "fi-hel-1"})
    made = desk.done(*CREATE, text(rule), "--description", "d")
    assert (made["name"], made["description"], made["version"]) == ("p", "d", 1)
    assert made["document"] == {"schemaVersion": "1", "rules": [rule]}
    assert desk.done("policy", "get", made["id"]) == made
    again = desk.iam("policy", "update", made["id"], "--document", text(rule))
    assert again.err.startswith("nothing changed")


def test_a_name_that_another_policy_has_is_taken_with_a_warning(desk: Desk) -> None:
    first = desk.policy(READ_TENANTS, name="twin")
    again = desk.iam("policy", "create", "--name", "twin", "--document", text(READ_TENANTS), "-o", "json", "-q")
    assert (again.code, again.err) == (0, f'frost: warning: policy {first} has the name "twin" too\n')
    second = again.json()["id"]
    assert desk.iam("policy", "update", second, "--description", "the other", "-q").err == ""
    assert desk.iam("policy", "update", second, "--name", "Twin", "-q").err == ""
    assert f"policy {first} has the name" in desk.iam("policy", "update", second, "--name", "twin").err
    renamed = desk.iam("policy", "update", first, "--name", " twin ", "--description", "d")
    assert f"policy {second} has the name" in renamed.err
    alone = desk.iam("policy", "create", "--name", "no twin", "--document", text(READ_TENANTS), "-q")
    assert (alone.code, alone.err) == (0, "")


def test_a_document_comes_inline_from_a_file_or_from_the_input(desk: Desk) -> None:
    typed = text(READ_TENANTS)
    sources = (typed, file(desk, typed), file(desk, typed.encode("utf-8-sig"), "bom.json"), "-")
    made = [desk.iam(*CREATE, source, "-o", "json", stdin=typed).json()["document"] for source in sources]
    assert made == [json.loads(typed)] * 4
    tried = ("simulate", "--operation", "organizations:tenants:read", "--target", "*", "-o", "json", "--document")
    assert len({desk.iam(*tried, source, stdin=typed).out for source in sources}) == 1
    program = desk.on_terminal("policy", "create", "--name", "typed", "--document", "-", columns=120)
    program.wait_for("Ctrl-D")
    program.write(typed.encode() + b"\r\x04")
    assert program.wait_end() == 0
    assert "typed" in [one["name"] for one in desk.items("policy", "list", "--all")]


def test_deleting_asks_and_needs_force_without_a_terminal(desk: Desk) -> None:
    made = desk.policy(READ_TENANTS)
    assert "--force" in desk.refused(2, "policy", "delete", made)
    assert desk.answering("", "policy", "delete", made)[0] == 1
    assert desk.done("policy", "get", made)["id"] == made
    code, shown = desk.answering("y", "policy", "delete", made)
    assert (code, "0 attachments and 1 version" in shown) == (0, True)
    desk.refused(5, "policy", "get", made)
    forced = desk.policy(READ_TENANTS)
    assert desk.done("policy", "delete", forced, "--force") == {"id": forced, "status": "deleted"}


def test_a_policy_changed_after_the_question_is_not_deleted(desk: Desk) -> None:
    made = desk.policy(READ_TENANTS)
    program = desk.on_terminal("policy", "delete", made)
    program.wait_for("cannot be undone")
    desk.done("policy", "update", made, "--description", "needed after all")
    program.until_quiet(0.2, 5)
    program.write(b"y\r")
    assert program.wait_end() == 6
    assert "by Astrid Lindqvist: description" in program.text
    assert desk.done("policy", "get", made)["version"] == 2


BROKEN = """{
  "schemaVersion": "1",
  "rules": [
    { "access": "allow",
      "operations": ["compute:instancs:read"],
      "targets": ["*"],
      "constrains": {} }
  ]
}
"""


def test_problems_are_reported_at_their_place_in_the_text(desk: Desk) -> None:
    for given, source in ((file(desk, BROKEN), "policy.json"), ("-", "standard input"), (BROKEN, "--document")):
        for words in (CREATE, ("policy", "update", NO_ID, "--document"), ("policy", "check", "--document")):
            lines = desk.refused(2, *words, given, stdin=BROKEN).splitlines()
            assert "2 problems" in lines[0]
            assert lines[1].startswith(f"  {source}:5:22: compute:instancs:read matches no operation")
            assert "did you mean compute:instances:read" in lines[1]
            assert lines[1].endswith("($.rules[0].operations[0])")
            assert lines[2].startswith(f"  {source}:7:7: unknown member")
            assert "did you mean constraints?" in lines[2]


def test_a_policy_beyond_its_author_is_refused_with_what_it_would_allow(own_desk: Desk) -> None:
    desk = own_desk
    desk.home.sign_in(VIEWER)
    narrow = allow("compute:instances:delete", targets=("frn:compute:*:*:instances/web-*",))
    lines = desk.refused(4, *CREATE, text(allow("compute:*:read"), narrow)).splitlines()
    assert lines[0].startswith("frost: a policy cannot grant more than its author has")
    assert lines[1].startswith("  compute:instances:delete on frn:compute:")
    assert "instances/web-" in lines[1]
    assert lines[-1] == "    rule 2 allows it; you do not have this permission"
    checked = desk.iam("policy", "check", "--document", text(narrow))
    assert (checked.code, checked.out.splitlines()[0].startswith("grants more than you have")) == (4, True)
    assert checked.err == "narrow the named rule, or ask a user who has the operation\n"
    checked = desk.iam("policy", "check", "--document", text(narrow), "-o", "json")
    assert checked.json()["counterexamples"][0]["operation"] == "compute:instances:delete"
    assert "p" not in [one["name"] for one in desk.items("policy", "list", "--all")]
    # A viewer may read, and each author may deny.
    assert desk.policy(allow("compute:*:read"))
    assert desk.policy(deny("*"))
    desk.home.sign_in(OWNER)
    assert desk.done("policy", "check", "--document", text(narrow))["answer"] == "within"


def test_a_missing_file_and_a_file_without_its_sign_are_refused(desk: Desk) -> None:
    for name in ("@missing.json", "@", "@nul\\0"):
        message = desk.refused(2, *CREATE, name, "-d")
        assert (name[1:] in message, "/api/" in message) == (True, False)
    file(desk, text(READ_TENANTS))
    assert "--document @policy.json" in desk.refused(2, *CREATE, "policy.json")


def test_former_documents_are_shown_compared_and_taken_back(desk: Desk) -> None:
    made = desk.policy(READ_TENANTS)
    other = text(allow("organizations:tenants:read", "compute:instances:read"))
    desk.done("policy", "update", made, "--document", other)
    assert desk.done("policy", "get", made, "--version", "1")["document"] == json.loads(text(READ_TENANTS))
    assert [one["version"] for one in desk.items("policy", "history", made)] == [2, 1]
    compared = desk.done("policy", "diff", made)
    assert (compared["from"], compared["to"]) == (1, 2)
    assert compared["gained"] == ["compute:instances:read"]
    assert compared["lost"] == ["organizations:tenants:list"]
    assert '+        "compute:instances:read"' in compared["text"]
    back = desk.done("policy", "diff", made, "--from", "2", "--to", "1")
    assert (back["gained"], back["lost"]) == (compared["lost"], compared["gained"])
    shown = desk.iam("policy", "diff", made).out
    assert "+ compute:instances:read" in shown
    assert "- organizations:tenants:list" in shown
    taken = desk.done("policy", "rollback", made, "--version", "1")
    assert (taken["version"], taken["document"]) == (3, json.loads(text(READ_TENANTS)))
    assert desk.iam("policy", "rollback", made, "--version", "1").err.startswith("nothing changed")
    assert desk.items("policy", "history", made)[0]["rolledBackTo"] == 1
    assert "no version 9" in desk.refused(5, "policy", "diff", made, "--from", "9")
    assert "first" in desk.refused(2, "policy", "diff", desk.policy(READ_TENANTS))


READERS = "\x1b[B" * 6 + "\x1b[F" + "\x1b[D" * 3
"""From the top of the first template to the end of its last operation."""
DELETES = "compute:instances:delete"


@pytest.mark.slow
def test_a_policy_is_written_attached_and_seen_in_what_its_keys_may_do(own_desk: Desk) -> None:
    desk = own_desk
    group = desk.group("night watch")
    for key in ("terraform", "tenant-reader"):
        desk.add(group, "api_key", KEYS[key])
    assert desk.access("api_key", KEYS["terraform"])["storage:buckets:list"] == "allowed"
    with policy_editor(desk.home, "n") as program:
        # The request of the form: instances may not be deleted. Then the last operation of the text is changed.
        program.press("f3", "ctrl+u")
        program.write(DELETES.encode())
        program.wait_for("× DENIED")
        program.press("escape")
        program.write(READERS.encode())
        program.press(*["backspace"] * 4)
        program.write(b"delete")
        program.wait_for("✓ ALLOWED")
        program.wait_for("✓ within your permissions")
        program.press("ctrl+s")
        program.wait_for("Save a new policy")
        program.press(*"removal", "enter")
        program.wait_for("Saved as version 1")
        program.press("ctrl+g")
        program.wait_for("none, so the policy has no effect")
        program.press("a")
        program.wait_for("Attach removal to")
        program.write(b"night watch")
        program.wait_for("night watch  ")
        program.until_quiet(0.3, 3)
        program.press("enter")
        program.wait_for("terraform")
        program.wait_for("the first policy limits scopes")
        program.agree("Attach policy?")
        program.wait_for("Attached removal to night watch (group)")
        program.press("q")
        program.wait_end()
    given = desk.done("access", "api_key", KEYS["terraform"])["operations"]
    assert {one["operation"] for one in given} >= {DELETES, "compute:instances:read"}
    assert {one["operation"].split(":")[0] for one in given} == {"compute"}
    table = desk.iam("access", "api_key", KEYS["terraform"], "-o", "wide").out
    for word in ("night watch", "removal", "read-compute"):
        assert word in table
    assert desk.done("access", "api_key", KEYS["tenant-reader"])["operations"] == []


def names(desk: Desk, *words: str) -> list[str]:
    return [one["name"] for one in desk.items("catalog", *words)]


def test_the_filter_is_a_plain_text_anywhere_in_any_case(desk: Desk) -> None:
    everything = names(desk)
    for part in ("instance", "compute", ":delete", "e:i", "INSTANCE", "Compute:I"):
        matches = names(desk, "--filter", part)
        assert matches == [name for name in everything if part.lower() in name]
        assert 0 < len(matches) < len(everything)
    assert names(desk, "--filter", "") == everything
    for wildcard in ("*", ".", "%", "_x_", "instances.read", "["):
        assert names(desk, "--filter", wildcard) == []
    shown = desk.iam("catalog", "--filter", "*")
    assert (shown.code, shown.err) == (0, "no operations\n")


def test_a_newer_platform_lists_every_operation_that_an_older_one_did(own_desk: Desk) -> None:
    """The newer one adds operations of its own and does not know one that the data has."""
    newest = names(own_desk)
    assert own_desk.home.frost("platform", "stop").code == 0
    own_desk.sql("DELETE FROM catalogue_operations WHERE position > 500")
    own_desk.sql("INSERT INTO catalogue_operations VALUES (501, 'telegraph:wires:send', 'write', 'Of old')")
    own_desk.sql("UPDATE platform_state SET value = 'that of an older version' WHERE name = 'catalogue'")
    earlier = {name for (name,) in own_desk.sql("SELECT name FROM catalogue_operations")}
    assert len(earlier) == 501
    listed = set(names(own_desk))
    assert earlier <= listed
    assert listed == {*newest, "telegraph:wires:send"}
    assert own_desk.policy(allow("telegraph:wires:send"))


def test_wide_adds_access_level_and_description(desk: Desk) -> None:
    heads, row = desk.iam("catalog", "--filter", "compute:instances:delete", "-o", "wide").out.splitlines()
    assert heads.split() == ["OPERATION", "ACCESS", "DESCRIPTION"]
    assert row.split()[:2] == ["compute:instances:delete", "write"]
    assert desk.iam("catalog").out.splitlines()[0].split() == ["OPERATION"]
    assert {one["accessLevel"] for one in desk.items("catalog")} == {"read", "write", "list", "permission"}
