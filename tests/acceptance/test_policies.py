"""Policies and the catalogue of operations."""

import json

from tests.acceptance.iam import NO_ID, READ_TENANTS, Desk, allow, document, text
from tests.people import OWNER, VIEWER

CREATE = ("policy", "create", "--name", "p", "--document")


def file(desk: Desk, content: str | bytes, name: str = "policy.json") -> str:
    path = desk.home.path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return f"@{name}"


def test_a_policy_is_created_read_and_deleted_after_a_question(desk: Desk) -> None:
    rule = allow("compute:instances:read", targets=("frn:compute:*:*:instances/*",), equals={"frn:region": "fi-hel-1"})
    made = desk.done(*CREATE, text(rule), "--description", "d")
    assert (made["name"], made["description"], made["document"]["rules"]) == ("p", "d", [rule])
    policy = made["id"]
    assert desk.done("policy", "get", policy) == made
    assert desk.iam("policy", "update", policy, "--document", text(rule)).err.startswith("nothing changed")
    assert "--force" in desk.refused(2, "policy", "delete", policy)
    assert desk.answering("", "policy", "delete", policy)[0] == 1
    program = desk.on_terminal("policy", "delete", policy)
    program.wait_for("cannot be undone")
    desk.done("policy", "update", policy, "--description", "needed after all")
    program.until_quiet(0.2, 5)
    program.write(b"y\r")
    assert program.wait_end() == 6
    assert "by Astrid Lindqvist: description" in program.text
    code, shown = desk.answering("y", "policy", "delete", policy)
    assert (code, "0 attachments and a version history, which are deleted" in shown) == (0, True)
    desk.refused(5, "policy", "get", policy)
    forced = desk.policy(READ_TENANTS)
    assert desk.done("policy", "delete", forced, "--force") == {"id": forced, "status": "deleted"}


def test_a_name_that_another_policy_has_is_taken_with_a_warning(desk: Desk) -> None:
    first = desk.policy(READ_TENANTS, name="twin")
    again = desk.iam("policy", "create", "--name", "twin", "--document", text(READ_TENANTS), "-o", "json", "-q")
    assert (again.code, again.err) == (0, f'frost: warning: policy {first} has the name "twin" too\n')
    second = again.json()["id"]
    assert desk.iam("policy", "update", second, "--description", "the other", "-q").err == ""
    similar = desk.iam("policy", "update", second, "--name", "TWIN", "-q").err
    assert similar == f'frost: warning: policy {first} has the similar name "twin"\n'
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
    program = desk.on_terminal("policy", "create", "--name", "typed", "--document", "-", columns=120)
    program.wait_for("Ctrl-D")
    program.write(typed.encode() + b"\r\x04")
    assert program.wait_end() == 0
    assert "typed" in [one["name"] for one in desk.items("policy", "list", "--all")]


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
    newest = "the newest is version 3"
    assert f"no version 9: {newest}" in desk.refused(5, "policy", "diff", made, "--from", "9")
    desk.sql("DELETE FROM policy_versions WHERE policy_id = ? AND version = 1", made)
    assert f"no version 1 any more: {newest}" in desk.refused(5, "policy", "get", made, "--version", "1")
    assert "first" in desk.refused(2, "policy", "diff", desk.policy(READ_TENANTS))


def test_versions_of_a_document_near_the_limit_are_compared_and_restored(desk: Desk) -> None:
    """Indented, the document is over the limit of 256 KiB."""
    targets = [f"frn:compute:*:*:instances/machine-{number:04}" for number in range(560)]
    rules = [allow("compute:instances:read", targets=tuple(targets)) for _ in range(10)]
    large = file(desk, json.dumps(document(*rules), separators=(",", ":")), "large.json")
    made = desk.done("policy", "create", "--name", "large", "--document", large)["id"]
    desk.done("policy", "update", made, "--document", text(READ_TENANTS))
    lost = desk.done("policy", "diff", made, "--from", "2", "--to", "1")["lost"]
    assert lost == ["organizations:tenants:read", "organizations:tenants:list"]
    assert desk.done("policy", "rollback", made, "--version", "1", "--dry-run")["principals"] == []
    restored = desk.iam("policy", "rollback", made, "--version", "1")
    assert (restored.code, "unknown" in restored.err) == (0, False), restored.err


def test_the_catalogue_is_filtered_by_a_plain_text_in_any_case_and_wide_adds_the_rest(desk: Desk) -> None:
    def names(*words: str) -> list[str]:
        return [one["name"] for one in desk.items("catalog", *words)]

    everything = names()
    for part in ("instance", ":delete", "Compute:I"):
        matches = names("--filter", part)
        assert matches == [name for name in everything if part.lower() in name]
        assert 0 < len(matches) < len(everything)
    assert names("--filter", "") == everything
    for wildcard in ("*", ".", "%", "_x_", "["):
        assert names("--filter", wildcard) == []
    shown = desk.iam("catalog", "--filter", "*")
    assert (shown.code, shown.err) == (0, "no operations\n")
    heads, row = desk.iam("catalog", "--filter", "compute:instances:delete", "-o", "wide").out.splitlines()
    assert heads.split() == ["OPERATION", "ACCESS", "DESCRIPTION"]
    assert row.split()[:2] == ["compute:instances:delete", "write"]
    assert desk.iam("catalog").out.splitlines()[0].split() == ["OPERATION"]
