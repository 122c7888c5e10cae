"""The application in this process, without a server: for tests that count its statements."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import event

from service.app import create_app
from service.authn import secret_format
from service.context import Platform
from service.db import tables
from service.db.engine import Database
from service.db.loop_reads import READER
from service.settings import from_arguments
from tests.service import demo_world, factories
from tests.service.queries import listening

READ_ONLY = {"sqlite": "PRAGMA query_only=ON", "postgresql": "SET default_transaction_read_only=on"}


@contextmanager
def every_connection(database: Database, statement: dict[str, str]) -> Iterator[None]:
    """Said on each connection before it is used."""

    def say(driver_connection: Any, *_: object) -> None:
        cursor = driver_connection.cursor()
        cursor.execute(statement[database.kind])
        cursor.close()
        if database.kind == "postgresql":
            driver_connection.commit()

    with listening(database, say, "checkout"):
        yield


class Inside:
    """An application on a database; `statements` are those of the requests since the last `forget()`."""

    def __init__(self, folder: Path, database_url: str | None, world: str) -> None:
        if world == "demo":
            demo_world.copy_into(folder, database_url)
        database = ["--database", database_url] if database_url else []
        arguments = ["--data-dir", str(folder), *database, "--world", world]
        self.app = create_app(from_arguments(arguments, {}))
        self.platform: Platform = self.app.state.platform
        self.statements: list[str] = []
        event.listen(self.platform.database.engine, "before_cursor_execute", self._note)
        self._run_on_loop = self.platform.database.loop_reads.run
        self.platform.database.loop_reads.run = self._run_noting  # type: ignore[method-assign]

    async def _run_noting(self, function: Callable[[], Any]) -> Any:
        def noting() -> Any:
            reader = READER.get()
            assert reader is not None
            fetch = reader.fetch

            def note(text: str, values: list[Any]) -> Any:
                self._note(None, None, text, values)
                return fetch(text, values)

            reader.fetch = note  # type: ignore[method-assign]
            try:
                return function()
            finally:
                del reader.fetch

        return await self._run_on_loop(noting)

    def _note(self, *noted: Any) -> None:
        statement, parameters = noted[2:4]
        # To bind a member of an enumeration, SQLAlchemy searches its optional packages, which may be importing.
        assert "<Audit" not in repr(parameters)
        assert "<Permission" not in repr(parameters)
        if not statement.startswith("BEGIN"):
            self.statements.append(statement)

    def forget(self) -> None:
        """Forget the statements and the cached reads of the event loop."""
        self.statements.clear()
        self.platform.database.loop_reads.forget()

    def without_leases(self) -> list[str]:
        """Return the statements except those of rate limits, which depend on the time."""
        return [statement for statement in self.statements if "rate_limits" not in statement]

    def get(self, path: str, headers: dict[str, str]) -> httpx.Response:
        return self.ask("GET", path, headers)

    def ask(self, method: str, path: str, headers: dict[str, str], body: Any = None) -> httpx.Response:
        return self._send(method, path, headers=headers, json=body)

    def form(self, path: str, **fields: str) -> Any:
        return self._send("POST", path, data=fields).json()

    def _send(self, *arguments: Any, **options: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=("uid:0", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                return await client.request(*arguments, **options)

        return asyncio.run(send())

    def stored_key(self, tenant: str = "t", **members: Any) -> str:
        """The secret of a key put straight into an empty world, with its person and its tenant."""
        secret, now = secret_format.mint(), datetime.now(UTC)
        digests = {
            "key_prefix": secret_format.lookup_prefix(secret),
            "key_hash": secret_format.digest(self.platform.secret, secret),
        }
        rows = {
            tables.users: factories.user(at=now),
            tables.organizations: factories.organization(at=now),
            tables.tenants: factories.tenant(tenant, now),
            tables.api_keys: factories.api_key(at=now, tenant_id=tenant, rate_limit=1, **digests) | members,
        }
        with self.platform.database.write() as connection:
            factories.add(connection, rows)
        return secret

    def keep_leases(self) -> None:
        """Stop the clock of rate limits, so that a lease does not end however slow the machine is."""
        self.platform.request_limits._clock = lambda: 0

    def close(self) -> None:
        self.platform.writer.stop()
        self.platform.refusals.close()
        self.platform.sealer.stop()
        self.platform.database.close()
