"""Comparison of digests with those from outside: files, requests, and rows that others may have written."""

import hmac


def are_equal(own: str, received: object) -> bool:
    """Compare texts in constant time; other values are not equal.

    `hmac.compare_digest` raises TypeError for a text that is not ASCII. SQLite stores any value in any column.
    """
    return isinstance(received, str) and hmac.compare_digest(own.encode(), received.encode("utf-8", "surrogatepass"))
