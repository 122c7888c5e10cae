"""Request bodies of the Authorization API. Unknown members are ignored, as the specification requires."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Properties = dict[str, Any] | None
Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]


class AuthzenModel(BaseModel):
    """Base of the API's models."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class Subject(AuthzenModel):
    """The subject of a request."""

    type: str
    id: str
    properties: Properties = Field(None, description="Ignored: the stored properties of the subject apply")


class Action(AuthzenModel):
    """The action of a request."""

    name: str
    properties: Properties = Field(None, description="The tags of the request")


class Resource(AuthzenModel):
    """The resource of a request."""

    type: str
    id: str
    properties: Properties = Field(None, description="`region` of a resource to create; ignored for an existing one")


class OfType(AuthzenModel):
    """The type of the subjects or resources to search for."""

    type: str
    properties: Properties = None


class Part(AuthzenModel):
    """A default subject, action or resource, completed by evaluations."""

    type: str | None = None
    id: str | None = None
    name: str | None = None
    properties: Properties = None


class Evaluation(AuthzenModel):
    """An access evaluation."""

    subject: Subject
    action: Action
    resource: Resource
    context: Properties = Field(None, description="`ip` and `time` of the request; the rest is ignored")


class Options(AuthzenModel):
    """Options for several evaluations."""

    evaluations_semantic: Semantic = "execute_all"


class Evaluations(AuthzenModel):
    """Several evaluations with defaults of their members; without `evaluations`, a single evaluation."""

    subject: Part | None = None
    action: Part | None = None
    resource: Part | None = None
    context: Properties = None
    evaluations: list[Any] | None = Field(None, description="Each as in a single evaluation")
    options: Options | None = None


class Paging(AuthzenModel):
    """The page of results to return."""

    token: Annotated[str | None, Field(description="`page.next_token` of the previous page")] = None
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
