"""What changes between two documents, in words."""

from client.texts.effects import changes


def test_what_is_certain_and_what_is_under_conditions_are_told_apart() -> None:
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


def test_what_is_only_new_or_only_gone_under_conditions_has_not_changed() -> None:
    assert changes({"conditionalGained": ["a:b:g", "a:b:h"]}).conditional == "2 new conditional"
    assert changes({"conditionalLost": ["a:b:h"]}).conditional == "1 conditional lost"
    assert changes({"gained": ["a:b:h"]}).conditional == ""


def test_of_what_did_not_change_nothing_is_said() -> None:
    assert changes({"gained": [], "lost": []}) == ({}, {}, {})
    assert changes({}).conditional == ""
