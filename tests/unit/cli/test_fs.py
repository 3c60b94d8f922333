"""How files are shown."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli.fs import mode_text


@pytest.mark.parametrize(
    ("permission", "is_directory", "text"),
    [
        (0o1777, True, "drwxrwxrwt"),
        (0o1770, True, "drwxrwx--T"),
        (0o755, True, "drwxr-xr-x"),
        (0o640, False, "-rw-r-----"),
        (0, False, "----------"),
    ],
)
def test_modes_are_shown_as_ls_shows_them(permission: int, is_directory: bool, text: str) -> None:
    status: Any = SimpleNamespace(permission=permission, isdir=is_directory)
    assert mode_text(status) == text
