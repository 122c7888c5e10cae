"""Parameters that routes share, as FastAPI dependencies, and keyset pagination.

A cursor is the key of the last row, signed for the route, tenant and filter of its list.
"""

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Header, Query
from starlette.requests import Request

from service import errors
from service.api.direct_call import immediate
from service.authz.context import AuthorizationContext, OrganizationContext, TenantContext
from service.context import Platform, platform_of
from service.db.engine import Record
from service.db.statements import KeysetKey
from service.db.tables import EPOCH, MICROSECOND
from service.errors import ApiError

DEFAULT_LIMIT = 50
MAX_LIMIT = 200
_NUMBER = re.compile(r"[0-9]{1,3}", re.ASCII)
_SIGNATURE_BYTES = 16
C = TypeVar("C", bound=AuthorizationContext)


@dataclass(frozen=True, slots=True)
class PageParams:
    """The unvalidated paging parameters of a request."""

    limit: str | None
    cursor: str | None


@immediate
def page_params(
    limit: Annotated[
        str | None, Query(description=f"items on a page, 1 to {MAX_LIMIT}; default {DEFAULT_LIMIT}")
    ] = None,
    cursor: Annotated[str | None, Query(description="`nextCursor` of the previous page")] = None,
) -> PageParams:
    return PageParams(limit, cursor)


@dataclass(frozen=True, slots=True)
class Page:
    """A requested page: at most `limit` rows after the key `after`."""

    limit: int
    after: KeysetKey | None
    signing: bytes

    def cut(self, rows: Sequence[Record], *key: str) -> tuple[Sequence[Record], str]:
        """Return the rows of this page and the cursor of the next page ("" if last), from up to `limit + 1` rows."""
        if len(rows) <= self.limit:
            return rows, ""
        last = rows[self.limit - 1]
        return rows[: self.limit], self.cursor(*(getattr(last, name) for name in key))

    def cursor(self, *key: Any) -> str:
        return _cursor(self.signing, key)


def page_of(platform: Platform, params: PageParams, *list_key: str) -> Page:
    """Return the requested page of the list with the key `list_key`: route, tenant and filter.

    Raises:
        ApiError: 400 INVALID_INPUT for the limit, INVALID_CURSOR for an invalid cursor or that of another list.
    """
    limit = DEFAULT_LIMIT
    if params.limit is not None:
        limit = int(params.limit) if _NUMBER.fullmatch(params.limit) else 0
        if not 1 <= limit <= MAX_LIMIT:
            raise errors.invalid_input(f"limit must be 1 to {MAX_LIMIT}", member="limit", min=1, max=MAX_LIMIT)
    signing = hmac.digest(platform.secret, b"cursor\0" + "\0".join(list_key).encode(), sha256)
    after = None if not params.cursor else _key(signing, params.cursor)
    return Page(limit, after, signing)


def _cursor(signing: bytes, key: KeysetKey) -> str:
    values = [[(value - EPOCH) // MICROSECOND] if isinstance(value, datetime) else value for value in key]
    text = json.dumps(values, separators=(",", ":")).encode()
    return _text(_signature(signing, text) + text)


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _key(signing: bytes, cursor: str) -> KeysetKey:
    refused = ApiError(400, "INVALID_CURSOR", "cursor is invalid here", hint="start again without a cursor")
    if len(cursor) > 1_000 or not cursor.isascii():
        raise refused
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (NotBase64, ValueError):
        raise refused from None
    signature, text = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
    # The decoder skips invalid characters.
    if _text(data) != cursor or not hmac.compare_digest(signature, _signature(signing, text)):
        raise refused
    values = json.loads(text)
    return tuple(EPOCH + timedelta(microseconds=value[0]) if isinstance(value, list) else value for value in values)


def _signature(signing: bytes, text: bytes) -> bytes:
    return hmac.digest(signing, text, sha256)[:_SIGNATURE_BYTES]


@immediate
def get_context(request: Request) -> AuthorizationContext:
    """Return the context that `ProtectedRoute` stored."""
    return _context(request, AuthorizationContext)


@immediate
def get_tenant_context(request: Request) -> TenantContext:
    return _context(request, TenantContext)


@immediate
def get_organization_context(request: Request) -> OrganizationContext:
    return _context(request, OrganizationContext)


def _context(request: Request, kind: type[C]) -> C:
    context = request.scope["frost.access"]
    if not isinstance(context, kind):
        raise RuntimeError(f"the policy of {request.url.path} does not give a {kind.__name__}")  # noqa: TRY004
    return context


ContextDep = Annotated[AuthorizationContext, Depends(get_context)]
TenantContextDep = Annotated[TenantContext, Depends(get_tenant_context)]
OrganizationContextDep = Annotated[OrganizationContext, Depends(get_organization_context)]
PlatformDep = Annotated[Platform, Depends(immediate(platform_of))]
PageParamsDep = Annotated[PageParams, Depends(page_params)]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The version that the write is based on")]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", pattern=r"^[A-Za-z0-9._:-]{8,128}$")]
