"""Differences between two policy documents, in words."""

from client.texts.effects import changes


def test_conditional_changes_are_listed_apart() -> None:
    found = changes(
        {
            "gained": ["a:b:c", "a:b:d"],
            "nowUnconditional": ["a:b:d"],
            "lost": ["a:b:e", "a:b:f"],
            "nowConditional": ["a:b:e"],
            "conditionalGained": ["a:b:g"],
            "conditionalLost": ["a:b:h"],
            "conditionsChanged": ["a:b:i"],
        }
    )
    assert found.gained == {"a:b:c": "", "a:b:d": "was under conditions"}
    assert found.lost == {"a:b:e": "now under conditions", "a:b:f": ""}
    assert found.under == {
        "a:b:i": "other conditions",
        "a:b:g": "new, under conditions",
        "a:b:h": "gone, was under conditions",
    }
    assert found.conditional == "3 under conditions changed"


def test_new_and_gone_conditional_permissions_are_counted() -> None:
    assert changes({"conditionalGained": ["a:b:g", "a:b:h"]}).conditional == "2 new under conditions"
    assert changes({"conditionalLost": ["a:b:h"]}).conditional == "1 gone that had conditions"
    assert changes({"gained": ["a:b:h"]}).conditional == ""


def test_unchanged_permissions_are_not_listed() -> None:
    assert changes({"gained": [], "lost": []}) == ({}, {}, {})
    assert changes({}).conditional == ""
