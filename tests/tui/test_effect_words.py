"""The effect of a change in a question."""

from client.texts.effects import Effect
from tests.tui.alone import asked
from tui.iam.effects import EffectConfirm, _operations

OPERATION = "compute:instances:read"


def principal(side: str) -> dict[str, object]:
    return {"type": "api_key", "id": "k", "name": "deploy", side: [OPERATION], f"{side}Count": 1}


def test_conditional_changes_are_neither_gained_nor_lost() -> None:
    for side, summary, line in (
        ("conditionalGained", "~1 new conditional", f"~ {OPERATION}  new, conditional"),
        ("conditionalLost", "~1 conditional lost", f"~ {OPERATION}  lost, was conditional"),
        ("gained", "+1 gained", None),
    ):
        assert Effect([principal(side)]).summary == f"1 key or identity: {summary}"
        assert line is None or str(_operations(principal(side))) == line
        assert Effect([principal(side)]).takes == (side == "conditionalLost")
    assert Effect([principal("lost")]).takes
    assert not Effect([principal("narrowed")]).takes


def long_named(number: int, **members: object) -> dict[str, object]:
    name = f"platform/release-automation-{number:02}"
    return {"type": "workload_identity", "id": str(number), "name": name, "status": "active", **members}


async def shown(effect: Effect) -> str:
    dialog = EffectConfirm("Attach policy?", [("Policy", "zones"), ("Tenant", "Staging")], effect, yes="y")
    async with asked(dialog) as (app, _pilot):
        return app.text


async def test_changed_conditions_have_a_column_on_a_small_screen() -> None:
    counts = {"gainedCount": 24, "lostCount": 112, "narrowedCount": 24, "inert": True}
    text = await shown(Effect([long_named(number, **counts) for number in range(3)]))
    row = next(line for line in text.splitlines() if "automation…" in line)
    assert row.split("automation…")[1].split() == ["identity", "+24", "−112", "~24", "active", "inert", "│"], text


async def test_only_keys_that_do_something_are_named() -> None:
    for principals, keys in (
        ([], ""),
        ([long_named(1)], ""),
        ([long_named(1), long_named(2)], " · ↑ ↓ principal"),
        ([long_named(1, gained=["a:b:c"] * 9, gainedCount=9)], " · PgDn more operations"),
    ):
        assert f"n or Esc No{keys} " in await shown(Effect(principals))
