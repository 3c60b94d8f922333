"""The documents' links lead somewhere, and the page of the architecture names every room."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors_of(page: Path) -> set[str]:
    """The anchors that a forge gives to headings: lower case, no punctuation, dashes."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(without_code(page.read_text())):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors_of(target), f"{page.name} links to {link}"


def test_the_architecture_names_every_room_that_stands_and_no_other() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    house = text.partition("src/headrace/\n")[2].partition("\ntests/")[0]
    named = {line.split("/")[0].strip() for line in house.splitlines()}
    standing = {path.parent.name for path in (ROOT / "src/headrace").glob("*/__init__.py")}
    assert named == standing
