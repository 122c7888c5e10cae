"""Read the YAML and table files of the catalogue and the seeds."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA_DIR = Path(__file__).with_name("data")


def load_yaml(path: Path) -> Any:
    """Return the value of a YAML file."""
    # Imported here because most starts read no YAML file.
    import yaml

    # libyaml is ten times faster than the Python loader.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text("utf-8"), Loader=loader)  # noqa: S506 - both loaders are safe


def read_table(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a `.csv` or `.tsv` file, with the names of its first line. TSV files have no quoting."""
    with path.open(encoding="utf-8", newline="") as lines:
        if path.suffix == ".tsv":
            yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        else:
            yield from csv.DictReader(lines)
