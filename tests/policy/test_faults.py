"""Plants a fault of each kind in the engine, and checks that the comparisons of the other tests detect it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from client.policy import containment, coverage, engine, matching, model, request_space
from tests.policy.comparisons import cap_difference, decision_difference, disagreement, map_difference, trap

RUN, GRANTED = containment._Comparison.run, engine.GrantedRule
decisions, capped, maps, containments = (
    partial(decision_difference, 11, 600, 8),
    partial(cap_difference, 12, 300, 1),
    partial(map_difference, 13, 60),
    partial(disagreement, 0, 40),
)


@pytest.fixture(autouse=True)
def _no_cached_globs() -> Iterator[None]:
    matching._cached_glob.cache_clear()
    yield
    matching._cached_glob.cache_clear()


def unknown_counts_as(value: bool) -> Any:
    return lambda constraint: model._compile(constraint, value)


def in_any_letter_case(operator: str, value: str) -> Any:
    same = model.compile_glob(value.casefold()) if operator == "like" else value.casefold().__eq__
    return lambda text: same(text.casefold()) is not (operator == "notEquals")


def without_the_authors_denies(self: Any) -> None:
    self.author_denies = []
    RUN(self)


def without_a_cap(rule: Any, source: Any, cap: Any = None) -> Any:
    return GRANTED(rule, source, None)


FAULTS: dict[str, tuple[Callable[[], object], Any, str, Any]] = {
    "an unknown fact lets an allow grant": (decisions, model, "must_hold", unknown_counts_as(True)),
    "an unknown fact keeps a deny from firing": (decisions, model, "may_hold", unknown_counts_as(False)),
    "an open target is covered by any pattern": (decisions, engine, "must_cover", matching.may_cover),
    "letter case does not count": (decisions, model, "_text_test", in_any_letter_case),
    "the author's cap is left out": (capped, engine, "GrantedRule", without_a_cap),
    "the map covers an open target with any pattern": (maps, coverage, "must_cover", matching.may_cover),
    "the author's denies are forgotten": (containments, containment._Comparison, "run", without_the_authors_denies),
    "a tag is unknown on its own": (trap, request_space.Space, "subspaces", lambda self: [self.full]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    comparison, owner, name, replacement = FAULTS[fault]
    monkeypatch.setattr(owner, name, replacement)
    try:
        difference = comparison()
    except AssertionError as error:
        # The check passes its counterexamples to the engine, and raises if that disagrees.
        difference = error
    assert difference is not None
