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
    assert found.gained == {"a:b:c": "", "a:b:d": "was conditional"}
    assert found.lost == {"a:b:e": "now conditional", "a:b:f": ""}
    assert found.under == {
        "a:b:i": "changed conditions",
        "a:b:g": "new, conditional",
        "a:b:h": "lost, was conditional",
    }
    assert found.conditional == "3 conditional changes"


def test_new_and_gone_conditional_permissions_are_counted() -> None:
    assert changes({"conditionalGained": ["a:b:g", "a:b:h"]}).conditional == "2 new under conditions"
    assert changes({"conditionalLost": ["a:b:h"]}).conditional == "1 gone that had conditions"
    assert changes({"gained": ["a:b:h"]}).conditional == ""


def test_unchanged_permissions_are_not_listed() -> None:
    assert changes({"gained": [], "lost": []}) == ({}, {}, {})
    assert changes({}).conditional == ""
