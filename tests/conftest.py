"""What all tests share: where test code is imported from, and when a test may say NOT RUN.

Test modules import each other's tools as `tests.…`, from the project's root.
"""

import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import pytest

from headrace.base.compiled import is_compiled
from headrace.testing.child import launched

ROOT = str(Path(__file__).resolve().parents[1])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Long tests run when asked for, by `-m` or by name; not because a folder holds some.

    Tests that change code run on the sources: `make test` runs their folders once more so.
    """
    if is_compiled():
        _leave_out("sources", config, items)
    if not config.option.markexpr and not any("::" in argument for argument in config.args):
        _leave_out("long", config, items)


def _leave_out(marker: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker(marker)]
    if marked:
        config.hook.pytest_deselected(items=marked)
        items[:] = [item for item in items if not item.get_closest_marker(marker)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the servers said is half of what there is to know of a failure."""
    report = yield
    if report.failed:
        for child in list(launched):
            tail = "\n".join(child.log_tail())
            if tail:
                report.sections.append((f"the {child.role}'s log, {child.data.name}", tail))
    return report


def not_run(reason: str) -> NoReturn:
    """A test whose tool is missing: told as NOT RUN, and a failure where CI promised the tool."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"NOT RUN: {reason}", pytrace=False)
    pytest.skip(f"NOT RUN: {reason}")
