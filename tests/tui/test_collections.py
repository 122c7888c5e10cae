"""The lists of a tenant apart from any screen: pages, late answers, failures, what is kept.

The platform here is a clock one can turn: pages come when the test lets them (a fake for time only).
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from client.errors import Exit, FrostError
from client.tables.columns import Record
from client.tables.iam import GROUP, POLICY
from tests.tui.tasks import Tasks
from tui.state import loaders
from tui.state.list_store import KEPT, Collections, Rows
from tui.state.refresh import lists_of

ONE, OTHER = "tenant-1", "tenant-2"
LOST = FrostError("no answer", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)


class Slow(Tasks):
    """Pages by tenant, each handed over when `let` is called for its tenant."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, list[Sequence[Record] | Exception]] = {}
        self.begun = 0
        self.gates: dict[str, asyncio.Semaphore] = {}
        self.told: list[str] = []
        self.lists = Collections(self, lambda: None, self.spawn, self.told.append)

    async def read(self, _requests: object, tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
        self.begun += 1
        for page in self.pages[tenant]:
            await self.gates.setdefault(tenant, asyncio.Semaphore(0)).acquire()
            if isinstance(page, Exception):
                raise page
            yield page

    async def let(self, tenant: str, pages: int = 1) -> None:
        for _ in range(pages):
            self.gates.setdefault(tenant, asyncio.Semaphore(0)).release()
        for _ in range(20):
            await asyncio.sleep(0)

    async def read_pages(self, *pages: Sequence[Record] | Exception, let: int, quiet: bool = False) -> Rows:
        """Read a list of the first tenant that has these pages, and let some of them come."""
        self.pages[ONE] = list(pages)
        rows = self.lists.read("groups", ONE, quiet=quiet)
        await self.let(ONE, let)
        return rows

    async def settle(self, tenant: str, ids: list[str]) -> None:
        """Let pages come until the list holds these records."""
        async with asyncio.timeout(60):
            while [row["id"] for row in self.lists.rows("groups", tenant).records] != ids:
                await self.let(tenant)
                await asyncio.sleep(0.01)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setitem(loaders.LOADERS, "groups", slow.read)
    return slow


def names(slow: Slow, tenant: str) -> list[str]:
    return [str(row["id"]) for row in slow.lists.rows("groups", tenant).records]


async def test_a_first_read_shows_rows_page_by_page(slow: Slow) -> None:
    slow.pages[ONE] = [[{"id": "a"}], [{"id": "b"}]]
    rows = slow.lists.read("groups", ONE)
    assert rows.words == "refreshing"
    await slow.let(ONE)
    assert names(slow, ONE) == ["a"]
    assert (rows.known, rows.words) == (False, "refreshing")
    await slow.let(ONE, 2)
    assert names(slow, ONE) == ["a", "b"]
    assert (rows.known, rows.words) == (True, "")


async def test_a_first_read_begun_again_keeps_its_rows(slow: Slow) -> None:
    await slow.read_pages([{"id": "a"}], [{"id": "b"}], [{"id": "c"}], let=2)
    slow.lists.read("groups", ONE)
    shown = []
    for _ in range(3):
        await slow.let(ONE)
        shown.append(names(slow, ONE))
    assert shown == [["a", "b", "c"]] * 3


async def test_a_list_that_is_cut_shows_its_total(slow: Slow) -> None:
    rows = await slow.read_pages(loaders.First([{"id": "a"}, {"id": "b"}], 1_234), let=2)
    assert (names(slow, ONE), rows.words) == (["a", "b"], "the first of 1,234")
    await slow.read_pages(loaders.First([{"id": "a"}], 1), let=2)
    assert rows.words == ""


async def test_a_later_read_keeps_the_old_rows_until_the_last_page(slow: Slow) -> None:
    await slow.read_pages([{"id": "a"}], [{"id": "b"}], let=2)
    await slow.read_pages([{"id": "c"}], [{"id": "d"}], let=1)
    assert names(slow, ONE) == ["a", "b"]
    await slow.let(ONE, 2)
    assert names(slow, ONE) == ["c", "d"]


async def test_a_late_response_for_another_tenant_is_dropped(slow: Slow) -> None:
    slow.pages[ONE], slow.pages[OTHER] = [[{"id": "theirs"}]], [[{"id": "ours"}]]
    slow.lists.read("groups", ONE)
    slow.lists.read("groups", OTHER)
    await slow.let(OTHER, 2)
    await slow.let(ONE, 2)
    assert names(slow, OTHER) == ["ours"]


async def test_the_later_of_two_reads_counts(slow: Slow) -> None:
    await slow.read_pages([{"id": "old"}], let=0)
    await slow.read_pages([{"id": "new"}], let=3)
    assert names(slow, ONE) == ["new"]


async def test_a_failed_read_keeps_the_rows_until_the_next(slow: Slow) -> None:
    await slow.read_pages([{"id": "a"}], let=2)
    rows = await slow.read_pages(LOST, let=2, quiet=True)
    assert names(slow, ONE) == ["a"]
    assert (rows.words, rows.error) == ("not refreshed, r to retry", LOST)
    await slow.read_pages([{"id": "b"}], let=2, quiet=True)
    assert (names(slow, ONE), rows.words, rows.error) == (["b"], "", None)


async def test_a_list_left_before_its_read_is_read_on_return(slow: Slow) -> None:
    slow.pages[ONE] = [[{"id": "a"}]]
    first = slow.lists.read("groups", ONE, "first", rest=0.001)
    second = slow.lists.read("groups", ONE, "second", rest=0.001)
    assert (first.state, second.state) == ("unread", "reading")
    assert slow.lists.read("groups", ONE, "first", rest=0.001) is first
    await asyncio.sleep(0.01)
    await slow.let(ONE, 2)
    assert (first.state, second.state) == ("fresh", "unread")


async def test_a_list_left_during_its_read_is_unread(slow: Slow) -> None:
    slow.pages[ONE], slow.pages[OTHER] = [[{"id": "theirs"}]], [[{"id": "ours"}]]
    left = slow.lists.read("groups", ONE)
    slow.lists.read("groups", OTHER)
    assert left.state == "unread"


async def test_leaving_the_context_drops_lists_and_reads(slow: Slow) -> None:
    await slow.read_pages([{"id": "a"}], let=0)
    slow.lists.drop()
    await slow.let(ONE, 2)
    assert names(slow, ONE) == []


async def test_only_the_latest_lists_are_kept(slow: Slow) -> None:
    for number in range(KEPT + 20):
        slow.lists.put("groups", f"tenant {number}", {"id": "a"})
    assert names(slow, "tenant 0") == []
    assert names(slow, f"tenant {KEPT + 19}") == ["a"]


async def test_a_list_is_updated_while_refreshes_come_faster_than_it_is_read(slow: Slow) -> None:
    rows = await slow.read_pages([{"id": "a", "name": "old"}], [{"id": "b"}], [{"id": "c"}], let=4)
    slow.pages[ONE][0] = [{"id": "a", "name": "new"}]
    for _ in range(3):  # one refresh before each page
        slow.lists.read("groups", ONE, quiet=True)
        await slow.let(ONE)
    assert rows.records[0]["name"] == "new"
    assert rows.words == ""


async def test_refreshes_during_a_read_cause_one_more_read_after_it(slow: Slow) -> None:
    await slow.read_pages([{"id": "a"}], let=0)
    for _ in range(5):
        slow.lists.read("groups", ONE, quiet=True)
    slow.pages[ONE] = [[{"id": "b"}]]
    await slow.let(ONE)
    assert names(slow, ONE) == ["a"]
    await slow.settle(ONE, ["b"])
    assert slow.begun == 2


async def test_a_requested_read_does_not_return_an_earlier_one(slow: Slow) -> None:
    await slow.read_pages([{"id": "old"}], let=0)
    asked = asyncio.ensure_future(slow.lists.anew("groups", ONE))
    slow.pages[ONE] = [[{"id": "new"}]]
    await slow.let(ONE)
    assert not asked.done()
    await slow.settle(ONE, ["new"])
    async with asyncio.timeout(60):
        rows = await asked
    assert (rows.state, names(slow, ONE)) == ("fresh", ["new"])


async def test_a_read_begun_before_a_change_keeps_the_change(slow: Slow) -> None:
    rows = await slow.read_pages([{"id": "a", "name": "old"}], let=1)
    slow.lists.read("groups", ONE, quiet=True)
    await slow.let(ONE, 0)
    slow.lists.put("groups", ONE, {"id": "a", "name": "new"})
    slow.pages[ONE] = [[{"id": "a", "name": "new"}]]
    seen = []
    for _ in range(2):
        await slow.let(ONE)
        seen.append(rows.records[0]["name"])
    assert seen == ["new", "new"]
    assert slow.begun == 3


async def test_an_unexpected_exception_ends_the_read_as_failed(slow: Slow) -> None:
    slow.pages[ONE] = [KeyError("id")]
    asked = asyncio.ensure_future(slow.lists.anew("groups", ONE))
    await slow.let(ONE, 2)
    async with asyncio.timeout(60):
        rows = await asked
    assert rows.words == "not refreshed, r to retry"
    assert rows.error.message == "the response could not be read: KeyError: 'id'"
    with pytest.raises(KeyError):  # the application shows it
        await slow.tasks["read groups "]
    await slow.read_pages([{"id": "a"}], let=2, quiet=True)
    assert (names(slow, ONE), rows.words) == (["a"], "")


COUNTED_TYPES = {
    ("groups", "memberCount"): {"group", "api_key", "workload_identity"},
    ("groups", "policyCount"): {"group", "policy"},
    ("policies", "attachmentCount"): {"policy", "group", "api_key", "workload_identity"},
}
"""Resource types whose changes change a column with a count."""


def test_a_list_with_a_count_is_read_after_each_change_of_the_count() -> None:
    counts = {
        (name, column.key)
        for name, kind in (("groups", GROUP), ("policies", POLICY))
        for column in kind.columns
        if column.key.endswith("Count")
    }
    assert counts == set(COUNTED_TYPES)
    missing = {
        (name, resource_type)
        for (name, _), types in COUNTED_TYPES.items()
        for resource_type in types
        if name not in lists_of(resource_type)
    }
    assert not missing
