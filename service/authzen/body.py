"""Bodies of evaluation requests, read without FastAPI, which takes longer than the decision."""

from typing import Any

from pydantic import BaseModel
from starlette.requests import Request

from service import json_bodies
from service.api.request_body import read_body, require_few_values, require_json

MAX_BYTES_ON_EVENT_LOOP = 16 * 1024
"""Enough for 50 evaluations; takes a tenth of a millisecond."""


async def read_json(request: Request) -> tuple[Any, bool]:
    """Return the JSON value of a body, and whether the body is short and plain. Others are read in worker threads.

    Raises:
        ApiError: as `read_body`.
    """
    require_json(request)
    body = await request.body()
    if len(body) <= MAX_BYTES_ON_EVENT_LOOP:
        try:
            value = json_bodies.loads_plain(body)
        except json_bodies.NotPlain:
            pass
        else:
            require_few_values(value, body)
            return value, True
    await read_body(request)
    return await request.json(), False


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
