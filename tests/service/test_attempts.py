"""Guesses from IPv6 addresses are counted by the network of 64 bits of one customer."""

from collections.abc import Callable

import pytest

from service.authn.rate_limit import MAX_FAILURES_PER_ADDRESS, LoginThrottle, RateLimited
from service.db.engine import Database
from tests.service.conftest import KINDS


def is_accepted(attempts: LoginThrottle, address: str) -> bool:
    try:
        attempts.check(address, b"guessed")
        attempts.record_failure(address, looked_up=True)
    except RateLimited:
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_guesses_from_one_ipv6_network_are_counted(kind: str, new_database_url: Callable[[str, bool], str]) -> None:
    database = Database(new_database_url(kind, True))
    attempts = LoginThrottle(lambda: 0.0, database)
    network = [f"2001:db8:0:7:{number:x}::{number:x}" for number in range(MAX_FAILURES_PER_ADDRESS + 10)]
    accepted = [is_accepted(attempts, address) for address in network]
    # The one at the bound depends on how the sum of the pauses is rounded.
    assert all(accepted[: MAX_FAILURES_PER_ADDRESS - 1])
    assert not any(accepted[MAX_FAILURES_PER_ADDRESS + 1 :])
    assert is_accepted(attempts, "2001:db8:0:8::1")
    database.close()
