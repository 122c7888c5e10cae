"""What a new policy begins with: small documents that are good as they stand."""

from typing import NamedTuple


class Template(NamedTuple):
    """A document to begin with."""

    name: str
    title: str
    note: str
    text: str


TEMPLATES = (
    Template(
        "read",
        "Read one service",
        "Everything that reads in compute",
        """\
{
  "schemaVersion": "1",
  "rules": [
    {
      "name": "read-compute",
      "access": "allow",
      "operations": ["compute:*:read", "compute:*:list"],
      "targets": ["*"]
    }
  ]
}
""",
    ),
    Template(
        "operate",
        "Operate what is tagged",
        "Start and stop instances tagged env=dev, from one network",
        """\
{
  "schemaVersion": "1",
  "rules": [
    {
      "name": "operate-dev",
      "access": "allow",
      "operations": ["compute:instances:start", "compute:instances:stop"],
      "targets": ["frn:compute:*:*:instances/*"],
      "constraints": {
        "equals": { "frn:resourceTag/env": "dev" },
        "ipInRange": { "frn:sourceIp": ["203.0.113.0/24"] }
      }
    }
  ]
}
""",
    ),
    Template(
        "guard",
        "Guard against deletion",
        "Whatever else is allowed, nothing tagged env=prod is deleted",
        """\
{
  "schemaVersion": "1",
  "rules": [
    {
      "name": "keep-production",
      "access": "deny",
      "operations": ["*:*:delete"],
      "targets": ["*"],
      "constraints": {
        "equals": { "frn:resourceTag/env": "prod" }
      }
    }
  ]
}
""",
    ),
)
