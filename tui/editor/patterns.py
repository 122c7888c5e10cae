"""Operation patterns, as a draft uses them. policy language: The document."""


def matches(pattern: str, operation: str) -> bool:
    """Whether a pattern names an operation `service:resource:action`; a shorter one ends in `*`."""
    wanted, parts = pattern.split(":"), operation.split(":")
    if len(wanted) < len(parts):
        if wanted[-1] != "*":
            return False
        wanted += ["*"] * (len(parts) - len(wanted))
    return len(wanted) == len(parts) and all(one in ("*", part) for one, part in zip(wanted, parts, strict=True))
