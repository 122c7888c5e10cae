"""Extracts the credential of a request from its headers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from service import errors
from service.authn import api_keys, workload_tokens

HEADERS = (b"x-api-key", b"authorization")
_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Credential:
    """A well-formed credential that is not verified yet."""

    kind: Literal["api_key", "bearer", "workload"]
    secret: str


def extract_credential(headers: Iterable[tuple[bytes, bytes]]) -> Credential:
    """Return the credential of a request.

    Raises:
        ApiError: 401 unless there is exactly one header with a well-formed credential. A wrong checksum of an API key
            or workload token is rejected here, without a database lookup.
    """
    credentials = [(name, value.decode("latin-1")) for name, value in headers if name in HEADERS]
    if len(credentials) != 1:
        raise errors.authentication_required()
    name, value = credentials[0]
    if name == b"x-api-key":
        if api_keys.is_well_formed(value):
            return Credential("api_key", value)
    elif match := _BEARER.fullmatch(value):
        token = match[1]
        if not token.startswith(workload_tokens.TYPE_PREFIX):
            return Credential("bearer", token)
        if workload_tokens.is_well_formed(token):
            return Credential("workload", token)
    raise errors.authentication_required()
