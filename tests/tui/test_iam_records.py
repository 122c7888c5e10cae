"""Decisions of the IAM screens about records, without a platform."""

from tui.iam.commands import deciding_policy, first_policy
from tui.iam.policies import compared_versions
from tui.shell.action import ActionContext

SCOPE = {"kind": "scope", "scope": "compute:write"}
READERS = {"policyId": "readers", "policyName": "readers"}
GUARD = {"policyId": "guard", "policyName": "guard"}


def test_the_policy_of_an_operation_is_found_on_either_side() -> None:
    assert deciding_policy({"access": "allowed", "by": [SCOPE], "deniedBy": [GUARD]}) == "guard"
    assert deciding_policy({"access": "denied", "by": [READERS], "deniedBy": [SCOPE]}) == "readers"
    assert deciding_policy({"access": "denied", "by": [READERS], "deniedBy": [GUARD]}) == "guard"
    assert deciding_policy({"access": "allowed", "by": [SCOPE], "deniedBy": []}) == ""


def test_the_command_shows_the_policy_that_the_key_opens() -> None:
    record = {"access": "denied", "by": [READERS], "deniedBy": [GUARD]}
    assert first_policy(ActionContext(record=record)) == "frost iam policy get guard"


def versions(*numbers: int) -> list[dict[str, object]]:
    return [{"policyId": "p", "version": number, "newest": number == max(numbers)} for number in numbers]


def test_the_newest_version_is_compared_with_the_one_before_it_also_after_the_list_was_read_again() -> None:
    selected = versions(3, 2, 1)[0]
    older, newer = compared_versions(versions(3, 2, 1), selected)
    assert older is not None
    assert newer is not None
    assert (older["version"], newer["version"]) == (2, 3)


def test_an_older_version_is_compared_with_the_newest() -> None:
    older, newer = compared_versions(versions(3, 2, 1), versions(3, 2, 1)[2])
    assert older is not None
    assert newer is not None
    assert (older["version"], newer["version"]) == (1, 3)


def test_a_single_version_is_compared_with_nothing() -> None:
    assert compared_versions(versions(1), versions(1)[0])[0] is None
