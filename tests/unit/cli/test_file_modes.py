"""Permissions as people write them."""

import pytest

from headrace.base.errors import UsageError
from headrace.cli.file_modes import file_mode, octal_mode


@pytest.mark.parametrize(
    ("text", "before", "file", "directory"),
    [
        ("640", 0o777, 0o640, 0o640),
        ("1777", 0o700, 0o1777, 0o1777),
        ("u+x", 0o644, 0o744, 0o744),
        ("go-w", 0o666, 0o644, 0o644),
        ("u+x,go-r", 0o644, 0o700, 0o700),
        ("a=r", 0o750, 0o444, 0o444),
        ("=", 0o750, 0, 0),
        ("o=", 0o757, 0o750, 0o750),
        ("+x", 0o644, 0o755, 0o755),
        ("a+X", 0o644, 0o644, 0o755),
        ("go+X", 0o744, 0o755, 0o755),
        ("+t", 0o777, 0o1777, 0o1777),
        ("-t", 0o1777, 0o777, 0o777),
        ("g=rx", 0o1707, 0o1757, 0o1757),
        ("ug+r-w", 0o222, 0o442, 0o442),
    ],
)
def test_what_a_file_and_a_directory_get(text: str, before: int, file: int, directory: int) -> None:
    mode = file_mode(text)
    assert mode.of(before, is_directory=False) == file
    assert mode.of(before, is_directory=True) == directory


@pytest.mark.parametrize("text", ["", "9", "2777", "u", "u+q", "+x,", "x+u", "u+s", "0o644", "-1"])
def test_what_is_no_permission(text: str) -> None:
    with pytest.raises(UsageError, match="octal"):
        file_mode(text)
    with pytest.raises(UsageError, match="octal"):
        octal_mode(text)
