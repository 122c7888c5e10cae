"""Reading the data files that lie beside this module."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def document(name: str) -> Any:
    """The value of a YAML file of this folder."""
    # Most starts read none of them.
    import yaml

    # libyaml reads ten times faster than the Python loader; the first start waits for it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load((FOLDER / name).read_text("utf-8"), Loader=loader)  # noqa: S506 - both loaders are safe


def table(name: str) -> Iterator[dict[str, str]]:
    """The lines of a table of this folder by the names in its first line: `.csv`, or `.tsv` without any quoting."""
    with (FOLDER / name).open(encoding="utf-8", newline="") as lines:
        if name.endswith(".tsv"):
            yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            yield from csv.DictReader(lines)
