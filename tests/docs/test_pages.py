"""The reader of documents finds links, anchors and commands."""

from pathlib import Path

from tests.docs.pages import Page

TEXT = """
# A title, twice

[a](other.md#part) ![b](picture.png) `not [a](link)`

# A title, twice

## The `frost tenant` command

```sh
frost tenant list \\
  --all   # joined
echo 'a
b'
# a comment
```

```console
$ frost whoami
its output
```

```text
frost is not a command here
```

| head | head |
| --- | --- |
| `frost logout` | cell |
"""


def test_links_anchors_and_commands_are_found(tmp_path: Path) -> None:
    page = Page(tmp_path / "page.md")
    page.path.write_text(TEXT)
    assert page.links == ["other.md#part", "picture.png"]
    assert page.anchors == {"a-title-twice", "a-title-twice-1", "the-frost-tenant-command"}
    assert [(command.text, command.complete) for command in page.command_lines] == [
        ("frost tenant list   --all   # joined", True),
        ("echo 'a\nb'", True),
        ("frost whoami", True),
        ("frost tenant", False),
        ("frost logout", False),
    ]
