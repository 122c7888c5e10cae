"""The one credential of a request, read from its headers without asking anybody. hostile C01, C03, C12"""

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
    """What was presented. `secret` has the right shape and is otherwise unchecked."""

    kind: Literal["api_key", "bearer", "workload"]
    secret: str


def extract_credential(headers: Iterable[tuple[bytes, bytes]]) -> Credential:
    """The credential of a request.

    Raises:
        Refusal: 401 for none, for more than one (two headers, or one repeated), and for one of the wrong shape;
            a key or workload token with a bad checksum ends here, before the database is asked.
    """
    found = [(name, value.decode("latin-1")) for name, value in headers if name in HEADERS]
    if len(found) != 1:
        raise errors.authentication_required()
    name, value = found[0]
    if name == b"x-api-key":
        if api_keys.well_formed(value):
            return Credential("api_key", value)
    elif match := _BEARER.fullmatch(value):
        token = match[1]
        if not token.startswith(workload_tokens.MARK):
            return Credential("bearer", token)
        if workload_tokens.well_formed(token):
            return Credential("workload", token)
    raise errors.authentication_required()
