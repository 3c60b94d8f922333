"""What is to be compiled is there, and tests that need its sources are run on them."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LISTED: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["headrace"][
    "compiled"
]


def test_the_listed_modules_are_there_each_once_and_in_order() -> None:
    assert sorted(set(LISTED)) == LISTED
    assert [path for path in LISTED if not (ROOT / path).is_file()] == []


def folders_by_sources() -> list[str]:
    """Where `make test` runs tests on the sources."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    found = re.search(r"^SOURCES := (.*)$", makefile, re.MULTILINE)
    assert found is not None
    return found[1].split()


def test_tests_of_sources_are_where_make_test_runs_sources() -> None:
    folders = folders_by_sources()
    assert [folder for folder in folders if not (ROOT / folder).is_dir()] == []
    marked = [
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("test_*.py")
        if "pytest.mark.sources" in path.read_text() and path != Path(__file__)
    ]
    assert marked
    for path in marked:
        assert any(path.is_relative_to(folder) for folder in folders), path


def test_rooms_with_compiled_modules_are_tested_by_their_sources() -> None:
    rooms = {path.split("/")[2] for path in LISTED} - {"node"}  # one small file, tested by all
    assert {f"tests/unit/{room}" for room in rooms} <= set(folders_by_sources())
