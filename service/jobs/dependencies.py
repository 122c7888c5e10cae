"""The worker as a FastAPI dependency."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from service.jobs.worker import Worker


async def get_worker(request: Request) -> Worker:
    """Return the worker of this process."""
    worker: Worker = request.app.state.worker
    return worker


WorkerDep = Annotated[Worker, Depends(get_worker)]
