"""What a question says of a change's effect: what is certain is counted apart from what some fact decides."""

from tui.effects import Effect
from tui.widgets.effect import _operations

OPERATION = "compute:instances:read"


def principal(side: str) -> dict[str, object]:
    return {"type": "api_key", "id": "k", "name": "deploy", side: [OPERATION], f"{side}Count": 1}


def test_what_comes_or_goes_under_conditions_is_not_gained_and_not_lost() -> None:
    given, taken = principal("conditionalGained"), principal("conditionalLost")
    assert Effect([given]).words == "1 key or identity: ~1 under conditions changed"
    assert str(_operations(given)) == f"~ {OPERATION}  new, under conditions"
    assert Effect([taken]).words == "1 key or identity: ~1 under conditions changed"
    assert str(_operations(taken)) == f"~ {OPERATION}  gone, was under conditions"
    assert Effect([principal("gained")]).words == "1 key or identity: +1 gained"


def test_a_change_takes_something_where_it_takes_what_was_under_conditions() -> None:
    assert Effect([principal("conditionalLost")]).takes
    assert Effect([principal("lost")]).takes
    assert not Effect([principal("conditionalGained"), principal("narrowed"), principal("gained")]).takes
