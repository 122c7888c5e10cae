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


def page(tmp_path: Path) -> Page:
    path = tmp_path / "page.md"
    path.write_text(TEXT)
    return Page(path)


def test_links_and_pictures_are_found_outside_of_code(tmp_path: Path) -> None:
    assert page(tmp_path).links == ["other.md#part", "picture.png"]


def test_headings_have_the_anchors_that_github_gives_them(tmp_path: Path) -> None:
    assert page(tmp_path).anchors == {"a-title-twice", "a-title-twice-1", "the-frost-tenant-command"}


def test_commands_are_joined_over_lines_and_output_is_left_out(tmp_path: Path) -> None:
    assert [(command.text, command.complete) for command in page(tmp_path).command_lines] == [
        ("frost tenant list   --all   # joined", True),
        ("echo 'a\nb'", True),
        ("frost whoami", True),
        ("frost tenant", False),
        ("frost logout", False),
    ]
