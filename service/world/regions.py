"""The regions of the platform."""

REGIONS = ("se-sto-1", "fi-hel-1", "de-fra-1")
"""The most used first: examples name the first one that fits."""
