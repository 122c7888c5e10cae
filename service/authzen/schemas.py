"""Request bodies of the Authorization API. Unknown members are ignored, as the specification requires.

Evaluations in one request are validated one by one: an invalid one is an error of its own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

Properties = dict[str, Any] | None
Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]


class AuthzenModel(BaseModel):
    """Base of the API's objects."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Subject(AuthzenModel):
    """The subject of a request."""

    type: str
    id: str
    properties: Properties = Field(None, description="Ignored: what is held of the subject counts")


class Action(AuthzenModel):
    """The action of a request."""

    name: str
    properties: Properties = Field(None, description="The tags of the request")


class Resource(AuthzenModel):
    """The resource of a request."""

    type: str
    id: str
    properties: Properties = Field(None, description="`region` of what does not exist yet; else ignored")


class OfType(AuthzenModel):
    """The type of the subjects or resources to search for."""

    type: str
    properties: Properties = None


class Part(AuthzenModel):
    """A default subject, action or resource; evaluations supply the missing members."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    properties: Properties = None


class Evaluation(AuthzenModel):
    """One access evaluation."""

    subject: Subject
    action: Action
    resource: Resource
    context: Properties = Field(None, description="`ip` and `time` of the request; the rest is ignored")


class Options(AuthzenModel):
    """Options for several evaluations."""

    evaluations_semantic: Semantic = "execute_all"


class Evaluations(AuthzenModel):
    """Several evaluations and the defaults of their members. Without `evaluations`, a single evaluation."""

    subject: Part | None = None
    action: Part | None = None
    resource: Part | None = None
    context: Properties = None
    evaluations: list[Any] | None = Field(None, description="Each as in an evaluation of its own")
    options: Options | None = None

    def defaults(self) -> dict[str, Any]:
        """Return the members that apply to all evaluations."""
        return self.model_dump(include={"subject", "action", "resource", "context"}, exclude_unset=True)


class Paging(AuthzenModel):
    """The page of results to return."""

    token: Annotated[str | None, Field(description="`page.next_token` of the page before")] = None
    limit: Annotated[int | None, Field(ge=0, description="Results on a page, at most 200; default 50")] = None
    properties: Properties = None


class SubjectSearch(AuthzenModel):
    """Which subjects may perform an action on a resource?"""

    subject: OfType
    action: Action
    resource: Resource
    context: Properties = None
    page: Paging | None = None


class ResourceSearch(AuthzenModel):
    """On which resources may a subject perform an action?"""

    subject: Subject
    action: Action
    resource: OfType
    context: Properties = None
    page: Paging | None = None


class ActionSearch(AuthzenModel):
    """Which actions may a subject perform on a resource?"""

    subject: Subject
    resource: Resource
    context: Properties = None
    page: Paging | None = None


Search = SubjectSearch | ResourceSearch | ActionSearch


NO_MEMBERS: Mapping[str, Any] = MappingProxyType({})


def merge_evaluation(defaults: Mapping[str, Any], members: Any = NO_MEMBERS) -> Evaluation:
    """Return one of several evaluations: its members, with the defaults for those that are missing.

    A member replaces its default, but keeps the default's `type`, `id` and `name` if it lacks them.

    Raises:
        RequestValidationError: the result is not a valid evaluation.
    """
    members = members
    if isinstance(members, Mapping):
        members = {**defaults, **{name: _merge_member(value, defaults.get(name)) for name, value in members.items()}}
    try:
        return Evaluation.model_validate(members)
    except ValidationError as error:
        raise RequestValidationError(
            [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
        ) from None


def _merge_member(value: Any, default: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(default, dict):
        return value
    return {name: default[name] for name in ("type", "id", "name") if name in default} | value
