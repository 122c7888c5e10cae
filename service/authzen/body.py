"""Bodies of evaluation requests, read without FastAPI, which takes longer than the decision."""

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request

from service import json_request
from service.api.request_body import read_body, require_few_values, require_json

MAX_BYTES_ON_EVENT_LOOP = 16 * 1024
"""Enough for 50 evaluations; takes a tenth of a millisecond."""


async def read_json(request: Request) -> tuple[Any, bool]:
    """Return the JSON value of a body, and whether the body is short and plain. Others are read in worker threads.

    Raises:
        ApiError: as `read_body`.
    """
    require_json(request)
    try:
        return read_short_json(await request.body()), True
    except json_request.NotPlain:
        await read_body(request)
        return await request.json(), False


def read_short_json(content: bytes) -> Any:
    """Return the JSON value of a short and plain body.

    Raises:
        NotPlain: the body is another.
        ApiError: 400 for too many values.
    """
    if len(content) > MAX_BYTES_ON_EVENT_LOOP:
        raise json_request.NotPlain
    value = json_request.loads_plain(content)
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
