"""Bodies of the Authorization API: their models, and evaluations, checked by hand.

Unknown members are ignored, as the specification requires. Bodies are read without FastAPI, and evaluations are checked
without pydantic, because both take longer than the decision. The models validate the bodies that fail the check: they
have the error messages.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from service import json_bodies
from service.api.request_body import read_body, require_few_values, require_json
from service.errors import invalid_input, validation_error

Properties = dict[str, Any] | None
Semantic = Literal["execute_all", "deny_on_first_deny", "permit_on_first_permit"]
MAX_BYTES_ON_EVENT_LOOP = 16 * 1024
"""Enough for 50 evaluations; takes a tenth of a millisecond."""
MAX_EVALUATIONS = 200
_TEXT_MEMBERS = ("type", "id", "name")


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


async def read_json(request: Request) -> tuple[Any, bool]:
    """Return the JSON value of a body, and whether the body is short and plain. Others are read in worker threads.

    Raises:
        ApiError: as `read_body`.
    """
    require_json(request)
    try:
        return read_short_json(await request.body()), True
    except json_bodies.NotPlain:
        await read_body(request)
        return await request.json(), False


def read_short_json(content: bytes) -> Any:
    """Return the JSON value of a short and plain body.

    Raises:
        NotPlain: the body is another.
        ApiError: 400 for too many values.
    """
    if len(content) > MAX_BYTES_ON_EVENT_LOOP:
        raise json_bodies.NotPlain
    value = json_bodies.loads_plain(content)
    require_few_values(value, content)
    return value


def json_body(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of a body, with the schemas that it uses in place of references to them."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def inline(value: Any) -> Any:
        if isinstance(value, list):
            return [inline(each) for each in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            return inline(definitions[value["$ref"].rpartition("/")[2]])
        return {name: inline(each) for name, each in value.items()}

    return {"requestBody": {"required": True, "content": {"application/json": {"schema": inline(schema)}}}}


Model = TypeVar("Model", bound=AuthzenModel)


class EvaluationRequest(NamedTuple):
    """May a subject perform an action on a resource? `properties` are those of the resource."""

    subject_type: str
    subject_id: str
    action: str
    action_properties: Mapping[str, Any] | None
    resource_type: str
    resource_id: str
    properties: Mapping[str, Any] | None
    context: Mapping[str, Any] | None


class EvaluationsRequest(NamedTuple):
    """Evaluations in order, or the error messages of invalid ones. A single one has no list in its answer."""

    evaluations: Sequence[EvaluationRequest | str]
    semantic: Semantic = "execute_all"
    is_list: bool = True


def count_evaluations(body: Any) -> int:
    """Return the number of evaluations in a body that is not checked yet; 0 of an invalid body."""
    evaluations = body.get("evaluations") if isinstance(body, dict) else None
    return len(evaluations) if isinstance(evaluations, list) else 0


def parse_evaluation(body: Any) -> EvaluationsRequest:
    """Parse the body of a single evaluation.

    Raises:
        RequestValidationError: the body is invalid.
    """
    return EvaluationsRequest([_read(body) or _from_model(_validate(Evaluation, body, is_body=True))], is_list=False)


def parse_evaluations(body: Any) -> EvaluationsRequest:
    """Parse the body of several evaluations; without `evaluations`, of a single one.

    Raises:
        ApiError: 400 for more than `MAX_EVALUATIONS`.
        RequestValidationError: the body as a whole is invalid.
    """
    envelope = _validate(Evaluations, body, is_body=True)
    defaults = envelope.model_dump(include={"subject", "action", "resource", "context"}, exclude_unset=True)
    if not envelope.evaluations:
        return EvaluationsRequest([_parse_merged(defaults)], is_list=False)
    if len(envelope.evaluations) > MAX_EVALUATIONS:
        raise invalid_input(f"evaluations: at most {MAX_EVALUATIONS} in one request")
    parts = {name: _text_members(value) for name, value in defaults.items() if isinstance(value, dict)}
    evaluations = [_merge(defaults, parts, members) for members in envelope.evaluations]
    return EvaluationsRequest(evaluations, (envelope.options or Options()).evaluations_semantic)


def _merge(defaults: Mapping[str, Any], parts: Mapping[str, dict[str, Any]], members: Any) -> EvaluationRequest | str:
    """Return an evaluation with defaults for missing members, and for missing `type`, `id` and `name` of members.

    An invalid evaluation is an error message.
    """
    if defaults and type(members) is dict:
        members = {
            **defaults,
            **{
                name: {**parts[name], **value} if name in parts and type(value) is dict else value
                for name, value in members.items()
            },
        }
    try:
        return _parse_merged(members)
    except RequestValidationError as error:
        return validation_error(error).message


def _text_members(default: Mapping[str, Any]) -> dict[str, Any]:
    return {name: default[name] for name in _TEXT_MEMBERS if name in default}


def _parse_merged(members: Any) -> EvaluationRequest:
    return _read(members) or _from_model(_validate(Evaluation, members))


def _read(members: Any) -> EvaluationRequest | None:
    """Return a valid evaluation; None for one that the model must validate."""
    try:
        subject, action, resource = members["subject"], members["action"], members["resource"]
        request = EvaluationRequest(
            subject["type"],
            subject["id"],
            action["name"],
            action.get("properties"),
            resource["type"],
            resource["id"],
            resource.get("properties"),
            members.get("context"),
        )
        # Subscripts of other types than a dictionary with these names fail.
        is_valid = (
            type(request.subject_type) is type(request.subject_id) is type(request.action) is str
            and type(request.resource_type) is type(request.resource_id) is str
            and _is_properties(request.action_properties)
            and _is_properties(request.properties)
            and _is_properties(request.context)
            and _is_properties(subject.get("properties"))
        )
    except (KeyError, TypeError, AttributeError):
        return None
    return request if is_valid else None


def _is_properties(value: Any) -> bool:
    return value is None or type(value) is dict


def _from_model(evaluation: Evaluation) -> EvaluationRequest:
    subject, action, resource = evaluation.subject, evaluation.action, evaluation.resource
    return EvaluationRequest(
        subject.type,
        subject.id,
        action.name,
        action.properties,
        resource.type,
        resource.id,
        resource.properties,
        evaluation.context,
    )


def _validate(model: type[Model], value: Any, *, is_body: bool = False) -> Model:
    """Validate a body as FastAPI does, or a part of it.

    Raises:
        RequestValidationError: with paths from the body.
    """
    try:
        return model.model_validate(value, from_attributes=is_body)
    except ValidationError as error:
        details = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
        raise RequestValidationError(details) from None
