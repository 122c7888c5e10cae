"""Alembic environment: runs in the transaction of `service.db.migrate`."""

from alembic import context

from service.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
)
context.run_migrations()
