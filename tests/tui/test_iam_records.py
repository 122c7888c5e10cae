"""Decisions of the IAM screens about records, without a platform."""

from tui.iam.commands import deciding_policy, first_policy
from tui.iam.policies import compared_versions
from tui.shell.action import ActionContext

SCOPE = {"kind": "scope", "scope": "compute:write"}
READERS = {"policyId": "readers", "policyName": "readers"}
GUARD = {"policyId": "guard", "policyName": "guard"}


def test_the_deciding_policy_of_an_operation() -> None:
    assert deciding_policy({"access": "allowed", "by": [SCOPE], "deniedBy": [GUARD]}) == "guard"
    assert deciding_policy({"access": "denied", "by": [READERS], "deniedBy": [SCOPE]}) == "readers"
    assert deciding_policy({"access": "denied", "by": [READERS], "deniedBy": [GUARD]}) == "guard"
    assert deciding_policy({"access": "allowed", "by": [SCOPE], "deniedBy": []}) == ""
    record = {"access": "denied", "by": [READERS], "deniedBy": [GUARD]}
    assert first_policy(ActionContext(record=record)) == "frost iam policy get guard"


def versions(*numbers: int) -> list[dict[str, object]]:
    return [{"policyId": "p", "version": number, "newest": number == max(numbers)} for number in numbers]


def test_versions_are_compared() -> None:
    selected = versions(3, 2, 1)[0]
    older, newer = compared_versions(versions(3, 2, 1), selected)
    assert (older["version"], newer["version"]) == (2, 3)
    older, newer = compared_versions(versions(3, 2, 1), versions(3, 2, 1)[2])
    assert (older["version"], newer["version"]) == (1, 3)
    assert compared_versions(versions(1), versions(1)[0])[0] is None
