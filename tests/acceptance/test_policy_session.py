"""A policy written, tried and attached in a real terminal."""

import pytest

from tests.acceptance.iam import KEYS, Desk
from tests.terminal import policy_editor

pytestmark = pytest.mark.slow

READERS = "\x1b[B" * 6 + "\x1b[F" + "\x1b[D" * 3
"""From the top of the first template to the end of its last operation."""
DELETES = "compute:instances:delete"


def test_a_policy_is_written_attached_and_seen_in_what_its_keys_may_do(own_desk: Desk) -> None:
    """Write, try, attach and correct a policy in the screens."""
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
