"""The response class of all JSON answers."""

from typing import Any

import orjson
from starlette import responses

# Instants have one format, `clock.wire_time`.
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


class JSONResponse(responses.JSONResponse):
    """A JSON answer, encoded in a fifth of the time that the standard encoder takes."""

    def render(self, content: Any) -> bytes:
        try:
            return orjson.dumps(content, option=_OPTIONS)
        except TypeError:
            # The standard encoder accepts integers over 64 bits, and reports unsupported values better.
            return super().render(content)
