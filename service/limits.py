"""Limits of the HTTP server. Only the standard library is imported here: the settings need it before the framework."""

from dataclasses import dataclass

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one process. An address is a client's IP address (of IPv6 its /64); the unix socket has none."""

    max_connections: int = 2_000
    max_connections_per_address: int = 256
    max_requests: int = 512
    """Requests that run or wait to run, without those whose body is still arriving."""
    max_requests_per_address: int = 256
    max_body_mebibytes: int = 64
    """Memory for the bodies of all requests until each is answered."""
    max_body_mebibytes_per_address: int = 4
    body_seconds: float = 10.0
    """Time for a request body, plus its size at `body_bytes_per_second`."""
    body_bytes_per_second: int = 64 * 1024
