"""The targets that people, documents and CI rely on exist and do not need anything else first."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = ["setup", "demo", "test", "test-long", "check", "bench-kafka", "docs", "clean"]


@pytest.mark.parametrize("target", TARGETS)
def test_target_exists_with_its_one_line_of_help(target: str) -> None:
    assert re.search(rf"^{target}:.*## \S", MAKEFILE, re.MULTILINE)
    assert target in re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split()


@pytest.mark.parametrize("target", ["demo", "test", "test-long", "check", "bench-kafka", "docs"])
def test_target_sets_itself_up(target: str) -> None:
    assert re.search(rf"^{target}: setup\b", MAKEFILE, re.MULTILINE)


def test_ci_runs_the_same_targets() -> None:
    run = ROOT / ".ci" / "run"
    assert os.access(run, os.X_OK)
    text = run.read_text()
    assert "set -euo pipefail" in text
    assert text.rstrip().endswith("make check test")


def test_each_target_in_the_documents_exists() -> None:
    known = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    for page in pages:
        named = set(re.findall(r"`make ([a-z][a-z-]*)", page.read_text()))
        assert named <= known, f"{page.name}: {named - known}"
