"""Which connections are closed in favour of others, without a server."""

from collections.abc import Iterable

import pytest

from service.http_server.connections import (
    GRACE_SECONDS,
    LOCAL,
    MAX_REPLACED,
    MAX_RESERVED_OF_NETWORK,
    Connections,
    Source,
    State,
)
from service.http_server.protected_connections import ProtectedConnections
from service.principal import Principal
from service.settings import Limits

TOTAL = 64
REMOTE = TOTAL - TOTAL // 8


class Opened:
    closed = False

    def close_early(self) -> None:
        self.closed = True


def key_of(user: str, key: str) -> Principal:
    return Principal("api_key", "request", user_id=user, key_id=key)


class Server:
    """Connections on a clock of the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.connections = Connections(
            Limits(max_connections=TOTAL, max_connections_per_address=TOTAL), clock=lambda: self.now
        )

    def open(self, address: str | None, state: State = State.HEAD, principal: Principal | None = None) -> Opened | None:
        source = LOCAL if address is None else Source(address)
        if not self.connections.has_room_for(source):
            return None
        connection = Opened()
        self.connections.add(connection, source)
        if principal is not None:
            self.connections.set_state(connection, State.BUSY)
            self.connections.protect(connection, principal)
        self.connections.set_state(connection, state)
        return connection

    def open_all(self, addresses: Iterable[str], state: State = State.HEAD) -> list[Opened]:
        return [connection for address in addresses if (connection := self.open(address, state)) is not None]


def networks(number: int, first: int = 0) -> list[str]:
    return [f"198.51.{each}.1" for each in range(first, first + number)]


def open_ones(connections: Iterable[Opened]) -> int:
    return sum(not connection.closed for connection in connections)


def test_the_slowest_head_is_closed_first_and_a_connection_with_an_accepted_credential_never() -> None:
    server = Server()
    known = server.open("192.0.2.1", State.IDLE, key_of("ada", "key"))
    idle = server.open("192.0.2.2", State.IDLE)
    assert known
    assert idle
    heads = server.open_all(networks(REMOTE - 2))
    assert open_ones(heads) == REMOTE - 2
    server.now = 2 * GRACE_SECONDS
    for number in range(10):
        assert server.open("203.0.113.1", State.BUSY)
        assert [head.closed for head in heads[: number + 2]] == [True] * (number + 1) + [False]
    # Half of a later head does not end the protection.
    server.connections.set_state(known, State.HEAD)
    for address in networks(3 * REMOTE, 100):
        server.now += GRACE_SECONDS
        assert server.open(address)
    assert not known.closed
    assert open_ones([*heads, idle]) < REMOTE


def test_new_heads_are_closed_after_idle_connections_without_a_credential() -> None:
    server = Server()
    idle = server.open_all(networks(REMOTE - 1), State.IDLE)
    head = server.open("192.0.2.1")
    assert head
    assert server.open("192.0.2.2")
    assert (idle[0].closed, head.closed) == (True, False)
    for connection in idle:
        server.connections.set_state(connection, State.BUSY)
    # The two heads are all that is left.
    assert server.open("192.0.2.3")
    assert head.closed


def test_one_key_on_many_addresses_has_a_share_of_the_protected_connections() -> None:
    server = Server()
    key = key_of("ada", "key")
    held = [server.open(address, State.IDLE, key) for address in networks(REMOTE)]
    assert None not in held
    for address in networks(REMOTE, 100):
        assert server.open(address, State.BUSY)
        if len(server.connections.protected) == open_ones(filter(None, held)):
            break
    assert open_ones(filter(None, held)) == server.connections.protected.max_of_actor


@pytest.mark.parametrize("keys", [1, 8], ids=["a key", "keys"])
def test_idle_connections_of_many_people_do_not_shut_out_others(keys: int) -> None:
    """Keys of a person count together."""
    server = Server()
    for number in range(4 * REMOTE):
        server.now += GRACE_SECONDS
        user = f"user {number // keys}"
        assert server.open(f"198.51.{number}.1", State.IDLE, key_of(user, f"key {number}")), number
    protected = server.connections.protected
    assert len(protected) <= protected.max_protected == REMOTE // 2
    assert max(protected._counts.values()) <= protected.max_of_actor
    assert server.open("192.0.2.1")


def test_a_connection_is_protected_while_one_of_its_credentials_is_accepted() -> None:
    protected: ProtectedConnections[str] = ProtectedConnections(4)
    protected.add("one", key_of("ada", "a"))
    protected.add("one", key_of("bob", "b"))
    assert protected.revoke("a") == []
    assert "one" in protected
    assert protected.revoke("b") == ["one"]
    assert "one" not in protected
    assert (protected._actors, protected._connections, protected._principals) == ({}, {}, {})
    # A second credential whose person has no share left does not take the first one's.
    protected.add("two", key_of("bob", "b"))
    protected.add("one", key_of("ada", "a"))
    protected.add("one", key_of("bob", "b"))
    assert "one" in protected
    protected.remove("one")
    protected.remove("two")
    assert (len(protected), protected._counts, protected._credentials, protected._principals) == (0, {}, {}, {})


def test_a_revoked_credential_does_not_protect() -> None:
    server = Server()
    held = server.open("192.0.2.1", State.IDLE, key_of("ada", "key"))
    assert held
    server.connections.revoke("key")
    others = server.open_all(networks(REMOTE), State.BUSY)
    assert len(others) == REMOTE
    assert held.closed


def test_a_network_replaces_few_connections_a_second() -> None:
    server = Server()
    server.open_all(networks(REMOTE), State.IDLE)
    opened = [server.open(f"192.0.2.{number % 250}", State.IDLE) for number in range(3 * MAX_REPLACED)]
    assert len([each for each in opened if each]) == MAX_REPLACED
    assert server.open("203.0.113.1")


def test_the_places_for_health_and_sign_in_are_shared_by_networks_and_not_held_by_slow_heads() -> None:
    server = Server()
    flood = [Opened() for _ in range(MAX_RESERVED_OF_NETWORK)]
    source = Source("192.0.2.1")
    for connection in flood:
        assert server.connections.has_reserved_room_for(source)
        server.connections.add(connection, source, only_reserved=True)
        server.connections.set_state(connection, State.BUSY)
    # All of the network run; another network has places.
    assert not server.connections.has_reserved_room_for(Source("192.0.2.2"))
    assert server.connections.has_reserved_room_for(Source("192.0.3.1"))
    server.connections.set_state(flood[3], State.HEAD)
    assert server.connections.has_reserved_room_for(source)
    assert [number for number, each in enumerate(flood) if each.closed] == [3]
