"""The operation catalogue from the command line. That its seed only grows is held by tests/service too."""

from tests.acceptance.iam import Desk, allow


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
