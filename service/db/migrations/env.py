"""How alembic runs here: on the connection, and in the transaction, that `service.db.migrate` hands over."""

from alembic import context

from service.db.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
)
context.run_migrations()
