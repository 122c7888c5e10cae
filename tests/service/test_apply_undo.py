"""What an undo rests on is kept until it is over: the last ten runs can be taken back."""

from datetime import timedelta

from sqlalchemy import update

from service.db.engine import Database
from service.db.tables import operations
from tests.service.tagged import BEFORE, DEFAULTS, Tagged


def test_what_is_being_taken_back_is_not_forgotten_by_the_run_before(database: Database) -> None:
    """The oldest of ten runs is undone in the instant in which the newest has ended and not tidied up yet."""
    tagged = Tagged(database, size=2)
    runs = []
    for number in range(10):
        tagged.many(5)
        runs.append(planned_at(tagged, number))
        tagged.carried(runs[-1])
    undo = planned_at(tagged, 10, undoes=runs[0])
    tagged.applying.prune_undo_log(runs[-1])
    assert len(tagged.remembered(runs[0])) == 5
    assert tagged.carried(undo)["counts"]["summary"]["updated"] == 5
    assert tagged.remembered(runs[0]) == {}


def planned_at(tagged: Tagged, number: int, undoes: str | None = None) -> str:
    run_id = tagged.planned(DEFAULTS, undoes)
    with tagged.database.write() as connection:
        at = BEFORE + timedelta(minutes=number)
        connection.execute(update(operations).where(operations.c.run_id == run_id).values(created_at=at))
    return run_id
