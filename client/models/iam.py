"""Access policies, groups, workload identities, the catalogue, and the results of access reviews."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, ValidationError

from client.models.base import Instant, Wire


class Author(Wire):
    """The person on whose authority a policy grants permissions."""

    id: str
    name: str = ""
    email: str = ""


class Policy(Wire):
    """A policy. `orphaned`: its author has no access to the tenant any more, so its allow rules have no effect."""

    id: str
    tenant_id: str = ""
    name: str
    description: str = ""
    document: dict[str, Any]
    authored_by: str = ""
    author: Author | None = None
    orphaned: bool = False
    version: int = 1
    attachment_count: int = 0
    created_at: Instant
    updated_at: Instant


class PolicyVersion(Wire):
    """A policy's version. `change` is create, update or rollback; `changed` are the members that differ from before."""

    policy_id: str
    version: int
    name: str = ""
    description: str = ""
    document: dict[str, Any]
    authored_by: str = ""
    changed_by: str = ""
    changed_by_name: str = ""
    changed_at: Instant
    change: str = ""
    changed: tuple[str, ...] = ()
    rolled_back_to: int | None = None


class ListedVersion(PolicyVersion):
    """A version in the list of a policy's versions. The newest one is in force."""

    newest: bool


class PrincipalRef(Wire):
    """Type, id and name of a principal or of a group: `type` is api_key, workload_identity, user or group."""

    type: str
    id: str
    name: str = ""

    @property
    def key(self) -> str:
        """Type and id, `api_key:ID`, which only together identify a principal."""
        return f"{self.type}:{self.id}"


class Principal(PrincipalRef):
    """An API key or a workload identity of a tenant, or a group, to choose from.

    `status` is active, revoked, expired or inert; empty for a group.
    """

    status: str = ""
    about: str = ""


class Attachment(Wire):
    """A policy's attachment. `attachee_type` is api_key, workload_identity or group."""

    policy_id: str
    attachee_type: str
    attachee_id: str
    attachee_name: str = ""
    attached_at: Instant

    @property
    def key(self) -> str:
        """Type and id of the attachee, `group:ID`."""
        return f"{self.attachee_type}:{self.attachee_id}"

    @property
    def attachee(self) -> PrincipalRef:
        return PrincipalRef(type=self.attachee_type, id=self.attachee_id, name=self.attachee_name)


class GroupMember(Wire):
    """A member in a group's response: `type` is api_key or workload_identity."""

    type: str
    id: str


class Group(Wire):
    """A group. `version` increases with each change; `policy_count` is the number of attached policies.

    `members` is set for a single group, not in lists. It has the first 200; `members_truncated` is true if it has
    more.
    """

    id: str
    tenant_id: str = ""
    name: str
    description: str = ""
    version: int = 1
    member_count: int = 0
    policy_count: int = 0
    members: tuple[GroupMember, ...] | None = None
    members_truncated: bool | None = None
    created_at: Instant
    updated_at: Instant

    @property
    def attachee(self) -> PrincipalRef:
        return PrincipalRef(type="group", id=self.id, name=self.name)


class Member(Wire):
    """A member: `member_type` is api_key or workload_identity; `member_name` is empty if it has no name."""

    group_id: str
    member_type: str
    member_id: str
    member_name: str = ""
    added_at: Instant

    @property
    def key(self) -> str:
        """Type and id of the member, `api_key:ID`."""
        return f"{self.member_type}:{self.member_id}"

    @property
    def principal(self) -> PrincipalRef:
        return PrincipalRef(type=self.member_type, id=self.member_id, name=self.member_name)


class Binding(Wire):
    """A workload identity: a service account of a cluster. `inert`: it has neither scopes nor a policy."""

    id: str
    cluster_id: str = ""
    tenant_id: str = ""
    namespace: str
    service_account: str
    scopes: tuple[str, ...] = ()
    inert: bool = False
    created_at: Instant
    updated_at: Instant


class CatalogueOperation(Wire):
    """An operation of a service, such as `compute:instances:start`.

    `access_level` is read, write, list or permission.
    """

    name: str
    access_level: str = ""
    description: str = ""


class GrantPath(Wire):
    """A path of a policy to its principal: `type` is direct or group."""

    type: str
    id: str = ""
    name: str = ""


class GrantConstraint(Wire):
    """A constraint of a policy rule. `values` has the first ones, `values_total` is the number of all."""

    operator: str
    key: str
    values: tuple[str, ...] = ()
    values_total: int = 0


class Grant(Wire):
    """A scope, a role or a policy rule that allows or denies an operation: `kind` is scope, role or policy.

    The lists have the first entries; `targets_total` and `constraints_total` are the numbers of all.
    """

    kind: str = ""
    scope: str = ""
    role: str = ""
    policy_id: str = ""
    policy_name: str = ""
    rule_index: int | None = None
    rule_name: str = ""
    paths: tuple[GrantPath, ...] = ()
    targets: tuple[str, ...] = ()
    targets_total: int = 0
    constraints: tuple[GrantConstraint, ...] = ()
    constraints_total: int = 0


class GrantedBy(Wire):
    """The first grants that allow something and the first that deny it."""

    by: tuple[Grant, ...] = ()
    denied_by: tuple[Grant, ...] = ()

    @cached_property
    def _wire(self) -> dict[str, Any]:
        """The JSON object, which shares the objects of grants that the model shares."""
        document = self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"by", "denied_by"})
        for name, member, grants in (("by", "by", self.by), ("denied_by", "deniedBy", self.denied_by)):
            if name in self.model_fields_set:
                document[member] = [grant.wire() for grant in grants]
        return document


def share_grants(rows: Any) -> Any:
    """Validate equal grants once.

    The access of a principal has the same few grants in hundreds of operations: 20 grants of 528 operations are 4.5 MiB
    of JSON. Without this, their models and JSON objects took 360 ms on the event loop of the screens; with it, 20 ms. A
    thread would not help, as pydantic holds the interpreter lock.

    Args:
        rows: JSON objects with `by` and `deniedBy`. Anything else, or an invalid grant, is returned for the validation
            of the model to refuse.
    """
    if not isinstance(rows, list):
        return rows
    shared: dict[tuple[str, ...], tuple[Mapping[str, Any], Grant]] = {}

    def share(grant: Any) -> Any:
        if not isinstance(grant, dict):
            return grant
        key = (str(grant.get("policyId")), str(grant.get("ruleIndex")), str(grant.get("scope")), str(grant.get("role")))
        known = shared.get(key)
        if known is not None and known[0] == grant:
            return known[1]
        try:
            shared[key] = grant, (model := Grant.model_validate(grant))
        except ValidationError:
            return grant
        return model

    return [_with_grants(row, share) for row in rows]


def _with_grants(row: Any, share: Callable[[Any], Any]) -> Any:
    if not isinstance(row, dict):
        return row
    lists = {name: grants for name in ("by", "deniedBy") if isinstance(grants := row.get(name), list)}
    return {**row, **{name: [share(grant) for grant in grants] for name, grants in lists.items()}}


class AccessOperation(GrantedBy):
    """An operation of a principal: `access` is allowed, conditional or denied.

    `by` and `denied_by` have the first grants and denials; `by_total` and `denied_by_total` are the numbers of all.
    """

    operation: str
    access: str = ""
    by_total: int = 0
    denied_by_total: int = 0

    @property
    def policy_id(self) -> str:
        """The id of the first policy that allows or denies the operation, denying ones first; empty without one."""
        grants = (*self.denied_by, *self.by) if self.access == "denied" else (*self.by, *self.denied_by)
        return next((grant.policy_id for grant in grants if grant.policy_id), "")


class AccessPrincipal(PrincipalRef):
    """A principal whose access is listed. `works`: its credential is neither revoked nor expired."""

    works: bool = True


class AccessLimit(Wire):
    """A limit of a principal's permissions: `kind` is scopes or role."""

    kind: str
    detail: str = ""


class AccessPolicy(Wire):
    """A policy that is attached to a principal, directly or through groups.

    `paths` has the first paths, `paths_total` is the number of all. An `unreadable` policy denies everything; an
    `orphaned` one has no effect.
    """

    policy_id: str
    policy_name: str = ""
    version: int = 1
    authored_by: str = ""
    orphaned: bool = False
    unreadable: bool = False
    paths: tuple[GrantPath, ...] = ()
    paths_total: int = 0


class Access(Wire):
    """The operations that a principal may use, with the groups, policies and rules that allow each."""

    principal: AccessPrincipal
    limits: tuple[AccessLimit, ...] = ()
    policies: tuple[AccessPolicy, ...]
    operations: Annotated[tuple[AccessOperation, ...], BeforeValidator(share_grants)]


class AllowedPrincipal(GrantedBy, PrincipalRef):
    """A principal that may use an operation: `access` is allowed or conditional."""

    access: str = ""


class AllowedPrincipals(Wire):
    """The principals that may use an operation on a target; `conditional` depends on unknown facts.

    The lists are truncated; `total` and `conditional_total` are the numbers of all, `examined` that of all principals.
    """

    principals: Annotated[tuple[AllowedPrincipal, ...], BeforeValidator(share_grants)]
    total: int
    conditional: Annotated[tuple[AllowedPrincipal, ...], BeforeValidator(share_grants)] = ()
    conditional_total: int = 0
    examined: int
