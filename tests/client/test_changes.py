"""Differences between two policy documents, in words."""

from client.texts.effects import changes


def test_conditional_changes_are_listed_apart_and_counted() -> None:
    result = changes(
        {
            **{"gained": ["a:b:c", "a:b:d"], "nowUnconditional": ["a:b:d"]},
            **{"lost": ["a:b:e", "a:b:f"], "nowConditional": ["a:b:e"]},
            **{"conditionalGained": ["a:b:g"], "conditionalLost": ["a:b:h"], "conditionsChanged": ["a:b:i"]},
        }
    )
    assert result.gained == {"a:b:c": "", "a:b:d": "was conditional"}
    assert result.lost == {"a:b:e": "now conditional", "a:b:f": ""}
    conditional = {"a:b:i": "changed conditions", "a:b:g": "new, conditional", "a:b:h": "lost, was conditional"}
    assert result.under == conditional
    assert result.conditional == "3 conditional changes"
    assert changes({"conditionalGained": ["a:b:g", "a:b:h"]}).conditional == "2 new conditional"
    assert changes({"conditionalLost": ["a:b:h"]}).conditional == "1 conditional lost"
    assert changes({"gained": ["a:b:h"]}).conditional == changes({}).conditional == ""
    assert changes({"gained": [], "lost": []}) == ({}, {}, {})
