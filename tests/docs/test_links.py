"""Links and pictures of README.md and docs/*.md lead to files and headings of the repository."""

from functools import cache
from urllib.parse import unquote

import pytest

from tests.docs.pages import PAGES, README, ROOT, Page

page_at = cache(Page)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_relative_link_leads_to_a_heading_and_a_picture_has_a_text(page: Page) -> None:
    broken = []
    for link in page.links:
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        exists = target.is_relative_to(ROOT) and target.exists()
        if not exists or (anchor and anchor not in page_at(target).anchors):
            broken.append(link)
    assert broken == []
    pictures = [child for token in page.tokens for child in token.children or () if child.type == "image"]
    assert [picture.attrs["src"] for picture in pictures if not picture.content] == []


def test_the_readme_links_to_every_document() -> None:
    linked = {link.partition("#")[0] for link in README.links}
    assert {str(page) for page in PAGES[1:]} <= linked
