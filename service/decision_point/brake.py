"""What a request that makes many decisions costs its key: several requests of its rate limit. hostile D03"""

from service.access import ratelimit
from service.access.caller import Caller
from service.db.engine import forgone
from service.decision_point import store
from service.platform import Platform

MOST_EVALUATIONS = 200
EVALUATIONS_A_REQUEST = 10
SEARCH = 5


def of_evaluations(count: int) -> int:
    """How many requests so many evaluations in one are."""
    return -(-count // EVALUATIONS_A_REQUEST)


def charge(platform: Platform, caller: Caller, requests: int) -> None:
    """Count a request as so many; the first of them was counted when it came in.

    Raises:
        Refusal: 429 when the key has not so many left.
    """
    if requests <= 1:
        return
    wait, key_id = None, str(caller.key_id)
    with forgone("a request of an API key could not be counted"), platform.database.write() as connection:
        wait = ratelimit.take(connection, key_id, store.rate_limit(connection, key_id), requests - 1)
    if wait is not None:
        raise ratelimit.too_many(wait)
