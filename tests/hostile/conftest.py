"""The databases and platforms of the service's tests, for the attacks on it."""

from tests.service.conftest import (  # noqa: F401 - fixtures are found by their names here
    cluster,
    cluster_pair,
    database_url,
    inside,
    migrated_file,
    new_database_url,
    own,
)
