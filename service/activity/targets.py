"""What an entry of the audit log is about: what was changed, or what a refused request's path names."""

import re
from typing import NamedTuple

_ID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMED = re.compile(rf"([a-z][a-z0-9_]*):({_ID})")
_PATH = re.compile(rf"/api/v1/(tenants|organizations)/({_ID})(/.*)?")
_RESOURCE = re.compile(rf"/resources/([a-z][a-z0-9_]*)/({_ID})(?:/.*)?")
_COLLECTIONS = {
    "/iam/policies/": "policy",
    "/iam/groups/": "group",
    "/api-keys/": "api_key",
    "/workload-identity/bindings/": "workload_identity",
    "/workload-identity/clusters/": "cluster",
}
_PATHS = {kind: path for path, kind in _COLLECTIONS.items()}


class Target(NamedTuple):
    """A thing by its kind (`policy`, `api_key`, `tenant`, `instance`, …) and its id."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


def target_of(text: str) -> Target | None:
    """The thing an entry's `target` is about; None where that is no one thing (`platform`, a path nobody knows).

    A change names it (`policy:ID`). A refused one has the path that was asked for: of something in it, else of the
    tenant or the organization whose path it is.
    """
    text = text.lower()
    if named := _NAMED.fullmatch(text):
        return Target(*named.groups())
    path = _PATH.fullmatch(text)
    if path is None:
        return None
    area, identifier, rest = path.group(1), path.group(2), path.group(3) or ""
    if area == "tenants" and (found := _inside(rest)):
        return found
    return Target(area.removesuffix("s"), identifier)


def _inside(rest: str) -> Target | None:
    """What the rest of a tenant's path names."""
    if resource := _RESOURCE.fullmatch(rest):
        return Target(*resource.groups())
    for collection, kind in _COLLECTIONS.items():
        if rest.startswith(collection):
            found = re.match(_ID, rest.removeprefix(collection))
            return Target(kind, found.group()) if found else None
    return None


def written(target: Target, tenant_id: str | None) -> tuple[str, str]:
    """How entries about a thing write it: as a change does, and the path that begins those of refused requests."""
    place = f"/api/v1/tenants/{tenant_id}"
    if target.kind in ("tenant", "organization"):
        return str(target), f"/api/v1/{target.kind}s/{target.id}"
    return str(target), f"{place}{_PATHS.get(target.kind, f'/resources/{target.kind}/')}{target.id}"
