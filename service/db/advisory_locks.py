"""The ids of PostgreSQL advisory locks. Each purpose has its own; nothing else on the server may use them."""

MIGRATION = 0x66726F7374
"""Held while a database is migrated. Earlier releases hold it as well."""
RECOVERY = 0x66726F7375
"""Held by the process that takes over the operations of dead ones."""
