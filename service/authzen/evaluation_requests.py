"""Evaluations in request bodies, checked by hand: pydantic takes longer than the decision.

Bodies that fail the check are validated by the models of `schemas`, which have the error messages.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from service.authzen.schemas import AuthzenModel, Evaluation, Evaluations, Options, Semantic
from service.errors import invalid_input, validation_error

MAX_EVALUATIONS = 200
_TEXT_MEMBERS = ("type", "id", "name")

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
