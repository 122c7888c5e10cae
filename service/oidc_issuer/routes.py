"""Routes of the local issuer, served only on the unix socket. The first request that needs Authlib imports it."""

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from service import errors
from service.api.dependencies import ContextDep
from service.api.protected_route import protected_router
from service.authz.context import AuthorizationContext
from service.context import platform_of
from service.json_bodies import JSONResponse
from service.oidc_issuer import issuer as oidc_issuer_issuer
from service.oidc_issuer.issuer import LocalIssuer

if TYPE_CHECKING:
    from service.oidc_issuer.endpoints import Endpoint

FORM = "application/x-www-form-urlencoded"

router = protected_router("issuer")


async def local_issuer(request: Request) -> LocalIssuer:
    """Return the local issuer, or raise 404 for an external issuer."""
    issuer = platform_of(request).issuer
    if not isinstance(issuer, LocalIssuer):
        raise errors.not_routed(request.url.path)
    return issuer


async def form_body(request: Request) -> bytes | None:
    """Return the encoded form; None for another media type."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return await request.body() if media_type == FORM else None


Issuer = Annotated[LocalIssuer, Depends(local_issuer)]
Form = Annotated[bytes | None, Depends(form_body)]


@router.get("/issuer/.well-known/openid-configuration", operation_id="discoveryDocument")
def discovery_document(issuer: Issuer) -> JSONResponse:
    """Return the metadata of OpenID Connect Discovery."""
    return JSONResponse(oidc_issuer_issuer.discovery_metadata(issuer.issuer))


@router.get("/issuer/jwks", operation_id="keySet")
def key_set(issuer: Issuer) -> JSONResponse:
    """Return the public signing key."""
    return JSONResponse(issuer.public_jwks())


@router.post("/issuer/device_authorization", operation_id="deviceAuthorization")
def device_authorization(issuer: Issuer, form: Form, peer: ContextDep) -> Response:
    """Start a device flow. Parameters: client_id, scope, device."""
    return _answer(issuer, peer, "device_authorization", form)


@router.post("/issuer/device/approve", operation_id="approveDevice")
def approve_device(issuer: Issuer, form: Form, peer: ContextDep) -> Response:
    """Approve a user code. Parameters: user_code, email."""
    return _answer(issuer, peer, "approve", form)


@router.get("/issuer/authorize", operation_id="authorization")
def authorization(issuer: Issuer, request: Request, peer: ContextDep) -> Response:
    """Redirect with an authorization code.

    Parameters: response_type, client_id, redirect_uri, scope, state, nonce, code_challenge(_method), login_hint.
    """
    return _answer(issuer, peer, "authorize", request.scope["query_string"], method="GET")


@router.post("/issuer/token", operation_id="token")
def token(issuer: Issuer, form: Form, peer: ContextDep) -> Response:
    """Exchange a device code, an authorization code or a refresh token for tokens."""
    return _answer(issuer, peer, "token", form)


@router.post("/issuer/revoke", operation_id="revocation")
def revocation(issuer: Issuer, form: Form, peer: ContextDep) -> Response:
    """End the session of a token."""
    return _answer(issuer, peer, "revoke", form)


def _answer(
    issuer: LocalIssuer, peer: AuthorizationContext, endpoint: "Endpoint", encoded: bytes | None, method: str = "POST"
) -> Response:
    if encoded is None:
        refusal = {"error": "invalid_request", "error_description": f"The request must be {FORM}."}
        return JSONResponse(refusal, 400, {"Cache-Control": "no-store"})
    from service.oidc_issuer import endpoints

    return endpoints.handle(issuer, peer.principal, endpoint, method, encoded)
