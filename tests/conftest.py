"""What all tests share: where test code is imported from, and when a test may say NOT RUN.

Test modules import each other's tools as `tests.…`, from the project's root.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = str(Path(__file__).resolve().parents[1])
if ROOT not in sys.path:
    sys.path.insert(0, ROOT)


def not_run(reason: str) -> NoReturn:
    """A test whose tool is missing: told as NOT RUN, and a failure where CI promised the tool."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"NOT RUN: {reason}", pytrace=False)
    pytest.skip(f"NOT RUN: {reason}")
