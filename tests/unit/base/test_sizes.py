"""Numbers of bytes as people write and read them."""

import pytest

from headrace.base.errors import UsageError
from headrace.base.sizes import size_bytes, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("9223372036854775807", 2**63 - 1),
        ("100b", 100),
        ("2KiB", 2 << 10),
        ("1m", 1 << 20),
        ("1MB", 1 << 20),
        ("1.5 MiB", 3 << 19),
        ("10G", 10 << 30),
        ("3t", 3 << 40),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "m", "-1", "1x", "1 m m", "0x10", "1.m"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1.0 KiB"),
        (1_288_490_189, "1.2 GiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (5 << 60, "5.0 EiB"),
        (5000 << 60, "5000.0 EiB"),
    ],
)
def test_sizes_are_shown(size: int, text: str) -> None:
    assert size_text(size) == text
