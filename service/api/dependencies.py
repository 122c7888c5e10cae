"""Parameters that routes share, as FastAPI dependencies."""

from typing import Annotated, TypeVar

from fastapi import Depends, Header
from starlette.requests import Request

from service.api.direct_call import immediate
from service.api.pagination import PageParams, page_params
from service.authz.context import AuthorizationContext, OrganizationContext, TenantContext
from service.context import Platform, platform_of

C = TypeVar("C", bound=AuthorizationContext)


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
