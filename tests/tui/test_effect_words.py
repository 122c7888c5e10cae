"""The effect of a change in a question."""

import pytest
from textual.app import App

from client.texts.effects import Effect
from tests.tui.screens import listened
from tui.iam.effects import EffectConfirm, _operations

OPERATION = "compute:instances:read"


def principal(side: str) -> dict[str, object]:
    return {"type": "api_key", "id": "k", "name": "deploy", side: [OPERATION], f"{side}Count": 1}


def test_conditional_changes_are_neither_gained_nor_lost() -> None:
    given, taken = principal("conditionalGained"), principal("conditionalLost")
    assert Effect([given]).summary == "1 key or identity: ~1 new conditional"
    assert str(_operations(given)) == f"~ {OPERATION}  new, conditional"
    assert Effect([taken]).summary == "1 key or identity: ~1 conditional lost"
    assert str(_operations(taken)) == f"~ {OPERATION}  lost, was conditional"
    assert Effect([principal("gained")]).summary == "1 key or identity: +1 gained"
    assert Effect([principal("conditionalLost")]).takes
    assert Effect([principal("lost")]).takes
    assert not Effect([principal("conditionalGained"), principal("narrowed"), principal("gained")]).takes


def long_named(number: int, **members: object) -> dict[str, object]:
    name = f"platform/release-automation-{number:02}"
    return {"type": "workload_identity", "id": str(number), "name": name, "status": "active", **members}


async def shown(effect: Effect) -> str:
    app: App[None] = App()
    async with app.run_test(size=(80, 24)) as pilot:
        app.push_screen(EffectConfirm("Attach policy?", [("Policy", "zones"), ("Tenant", "Staging")], effect, yes="y"))
        await listened(pilot)
        strips = app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


async def test_changed_conditions_have_a_column_on_a_small_screen() -> None:
    counts = {"gainedCount": 24, "lostCount": 112, "narrowedCount": 24, "inert": True}
    text = await shown(Effect([long_named(number, **counts) for number in range(3)]))
    row = next(line for line in text.splitlines() if "automation…" in line)
    assert row.split("automation…")[1].split() == ["identity", "+24", "−112", "~24", "active", "inert", "│"], text


@pytest.mark.parametrize(
    ("effect", "keys"),
    [
        (Effect(), ""),
        (Effect([long_named(1)]), ""),
        (Effect([long_named(1), long_named(2)]), " · ↑ ↓ principal"),
        (Effect([long_named(1, gained=["a:b:c"] * 9, gainedCount=9)]), " · PgDn more operations"),
    ],
)
async def test_only_keys_that_do_something_are_named(effect: Effect, keys: str) -> None:
    assert f"n or Esc No{keys} " in await shown(effect)
