"""Read the data files of the catalogue and of the seeds."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CATALOGUE = Path(__file__).with_name("data")


def document(path: Path) -> Any:
    """Return the value of a YAML file."""
    # Most starts read none of them.
    import yaml

    # libyaml reads ten times faster than the Python loader; the first start waits for it.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text("utf-8"), Loader=loader)  # noqa: S506 - both loaders are safe


def table(path: Path) -> Iterator[dict[str, str]]:
    """Yield the lines of a table by the names in its first line: `.csv`, or `.tsv` without any quoting."""
    with path.open(encoding="utf-8", newline="") as lines:
        if path.suffix == ".tsv":
            yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            yield from csv.DictReader(lines)
