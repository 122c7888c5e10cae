"""The lists of a tenant without a screen: pages, late answers, failures and former rows.

Pages come when a test delivers them (a fake for time only).
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence

import pytest

from client.errors import Exit, FrostError
from client.tables.columns import Record
from client.tables.iam import GROUP, POLICY
from tests.tui.tasks import Tasks
from tui.state import loaders
from tui.state.list_store import KEPT, Collections, RecordList
from tui.state.refresh import lists_of

ONE, OTHER = "tenant-1", "tenant-2"
LOST = FrostError("no answer", code="UNREACHABLE", exit_code=Exit.UNREACHABLE)
Page = Sequence[Record] | Exception


def page(identifier: str, **members: str) -> list[Record]:
    """A page with one record."""
    return [{"id": identifier, **members}]


class Slow(Tasks):
    """Pages by tenant; `let` delivers the next ones of a tenant."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, list[Sequence[Record] | Exception]] = {}
        self.begun = 0
        self.gates: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))
        self.lists = Collections(self, lambda: None, self.spawn, lambda _: None, newest=400)

    async def read(self, _requests: object, tenant: str, _subject: str) -> AsyncIterator[Sequence[Record]]:
        self.begun += 1
        for page in self.pages[tenant]:
            await self.gates[tenant].acquire()
            if isinstance(page, Exception):
                raise page
            yield page

    async def let(self, tenant: str = ONE, pages: int = 1) -> None:
        for _ in range(pages):
            self.gates[tenant].release()
        for _ in range(20):
            await asyncio.sleep(0)

    async def read_pages(self, *pages: Page, let: int, quiet: bool = False) -> RecordList:
        """Read a list of the first tenant that has these pages, and deliver some of them."""
        self.pages[ONE] = list(pages)
        rows = self.lists.read("groups", ONE, quiet=quiet)
        await self.let(pages=let)
        return rows

    def names(self, tenant: str = ONE) -> list[str]:
        return [str(row["id"]) for row in self.lists.get("groups", tenant).records]

    async def settle(self, *ids: str) -> None:
        """Deliver pages until the list of the first tenant has these records."""
        async with asyncio.timeout(60):
            while self.names() != list(ids):
                await self.let()
                await asyncio.sleep(0.01)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setitem(loaders.LOADERS, "groups", slow.read)
    return slow


async def test_a_first_read_shows_rows_page_by_page_and_keeps_them(slow: Slow) -> None:
    rows = await slow.read_pages(page("a"), page("b"), let=0)
    for pages, names, known, words in (
        (0, [], False, "refreshing"),
        (1, ["a"], False, "refreshing"),
        (2, ["a", "b"], True, ""),
    ):
        await slow.let(pages=pages)
        assert (slow.names(), rows.known, rows.words) == (names, known, words)


async def test_a_first_read_begun_again_keeps_its_rows(slow: Slow) -> None:
    await slow.read_pages(page("a"), page("b"), page("c"), let=2)
    slow.lists.read("groups", ONE)
    for _ in range(3):
        await slow.let()
        assert slow.names() == ["a", "b", "c"]


async def test_a_list_that_is_cut_shows_its_total(slow: Slow) -> None:
    rows = await slow.read_pages(loaders.First([{"id": "a"}, {"id": "b"}], 1_234), let=2)
    assert (slow.names(), rows.words) == (["a", "b"], "the first of 1,234")
    await slow.read_pages(loaders.First([{"id": "a"}], 1), let=2)
    assert rows.words == ""


async def test_a_later_read_keeps_the_old_rows_until_the_last_page(slow: Slow) -> None:
    await slow.read_pages(page("a"), page("b"), let=2)
    await slow.read_pages(page("c"), page("d"), let=1)
    assert slow.names() == ["a", "b"]
    await slow.let(pages=2)
    assert slow.names() == ["c", "d"]
    await slow.read_pages(page("old"), let=0)
    await slow.read_pages(page("new"), let=3)
    assert slow.names() == ["new"]


async def test_a_late_response_for_another_tenant_is_dropped(slow: Slow) -> None:
    slow.pages[ONE], slow.pages[OTHER] = [page("theirs")], [page("ours")]
    former = slow.lists.read("groups", ONE)
    slow.lists.read("groups", OTHER)
    assert former.state == "unread"
    await slow.let(OTHER, 2)
    await slow.let(ONE, 2)
    assert (slow.names(OTHER), slow.names(ONE)) == (["ours"], [])


async def test_a_failed_read_keeps_the_rows_until_the_next(slow: Slow) -> None:
    await slow.read_pages(page("a"), let=2)
    rows = await slow.read_pages(LOST, let=2, quiet=True)
    assert (slow.names(), rows.words, rows.error) == (["a"], "not refreshed", LOST)
    await slow.read_pages(page("b"), let=2, quiet=True)
    assert (slow.names(), rows.words, rows.error) == (["b"], "", None)


async def test_an_unexpected_exception_ends_the_read_as_failed(slow: Slow) -> None:
    slow.pages[ONE] = [KeyError("id")]
    requested = asyncio.ensure_future(slow.lists.reread("groups", ONE))
    await slow.let(pages=2)
    async with asyncio.timeout(60):
        rows = await requested
    assert rows.words == "not refreshed"
    assert rows.error.message == "the response could not be read: KeyError: 'id'"
    with pytest.raises(KeyError):  # the application shows it
        await slow.tasks["read groups "]
    await slow.read_pages(page("a"), let=2, quiet=True)
    assert (slow.names(), rows.words) == (["a"], "")


async def test_an_unexpected_exception_ends_a_requested_read_as_failed(slow: Slow) -> None:
    await slow.read_pages(KeyError("id"), let=0)
    requested = asyncio.ensure_future(slow.lists.reread("groups", ONE))
    await slow.let()
    with pytest.raises(KeyError):
        await slow.tasks["read groups "]
    async with asyncio.timeout(60):
        rows = await requested
    assert rows.words == "not refreshed"


async def test_a_list_left_before_its_read_is_read_on_return(slow: Slow) -> None:
    slow.pages[ONE] = [page("a")]
    first = slow.lists.read("groups", ONE, "first", rest=0.001)
    second = slow.lists.read("groups", ONE, "second", rest=0.001)
    assert (first.state, second.state) == ("unread", "reading")
    assert slow.lists.read("groups", ONE, "first", rest=0.001) is first
    await asyncio.sleep(0.01)
    await slow.let(pages=2)
    assert (first.state, second.state) == ("fresh", "unread")


async def test_leaving_the_context_and_too_many_lists_drop_lists(slow: Slow) -> None:
    await slow.read_pages(page("a"), let=0)
    slow.lists.drop()
    await slow.let(pages=2)
    assert slow.names() == []
    for number in range(KEPT + 20):
        slow.lists.put("groups", f"tenant {number}", {"id": "a"})
    assert (slow.names("tenant 0"), slow.names(f"tenant {KEPT + 19}")) == ([], ["a"])


async def test_a_list_is_updated_while_refreshes_come_faster_than_it_is_read(slow: Slow) -> None:
    rows = await slow.read_pages(page("a", name="old"), page("b"), page("c"), let=4)
    slow.pages[ONE][0] = page("a", name="new")
    for _ in range(3):  # one refresh before each page
        slow.lists.read("groups", ONE, quiet=True)
        await slow.let()
    assert (rows.records[0]["name"], rows.words) == ("new", "")


async def test_refreshes_during_a_read_cause_one_more_read_after_it(slow: Slow) -> None:
    await slow.read_pages(page("a"), let=0)
    for _ in range(5):
        slow.lists.read("groups", ONE, quiet=True)
    slow.pages[ONE] = [page("b")]
    await slow.let()
    assert slow.names() == ["a"]
    await slow.settle("b")
    assert slow.begun == 2


async def test_a_requested_read_does_not_return_an_earlier_one(slow: Slow) -> None:
    await slow.read_pages(page("old"), let=0)
    requested = asyncio.ensure_future(slow.lists.reread("groups", ONE))
    slow.pages[ONE] = [page("new")]
    await slow.let()
    assert not requested.done()
    await slow.settle("new")
    async with asyncio.timeout(60):
        rows = await requested
    assert (rows.state, slow.names()) == ("fresh", ["new"])


async def test_a_read_begun_before_a_change_keeps_the_change(slow: Slow) -> None:
    rows = await slow.read_pages(page("a", name="old"), let=1)
    slow.lists.read("groups", ONE, quiet=True)
    await slow.let(pages=0)
    slow.lists.put("groups", ONE, {"id": "a", "name": "new"})
    slow.pages[ONE] = [page("a", name="new")]
    for _ in range(2):
        await slow.let()
        assert rows.records[0]["name"] == "new"
    assert slow.begun == 3


COUNTED_TYPES = {
    ("groups", "memberCount"): {"group", "api_key", "workload_identity"},
    ("groups", "policyCount"): {"group", "policy"},
    ("policies", "attachmentCount"): {"policy", "group", "api_key", "workload_identity"},
}
"""Resource types whose changes change a column with a count."""


def test_a_list_with_a_count_is_read_after_each_change_of_the_count() -> None:
    kinds = (("groups", GROUP), ("policies", POLICY))
    columns = {(name, column.key) for name, kind in kinds for column in kind.columns if column.key.endswith("Count")}
    assert columns == set(COUNTED_TYPES)
    for (name, _), resource_types in COUNTED_TYPES.items():
        assert not {one for one in resource_types if name not in lists_of(one)}
