"""Where to begin reading."""

import pytest

from headrace.base.errors import UsageError
from headrace.cli.start import BEGINNING, END, Start, parse_start

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", BEGINNING),
        ("Earliest", BEGINNING),
        ("end", END),
        ("latest", END),
        ("0", Start(0, is_offset=True)),
        ("4711", Start(4711, is_offset=True)),
        ("15m", Start(NOW_MS - 900_000, is_offset=False)),
        ("2h", Start(NOW_MS - 7_200_000, is_offset=False)),
        ("7d", Start(NOW_MS - 604_800_000, is_offset=False)),
        ("1500ms", Start(NOW_MS - 1_500, is_offset=False)),
        ("99999d", Start(0, is_offset=False)),
        ("2023-11-14T22:13:20Z", Start(1_700_000_000_000, is_offset=False)),
        ("2023-11-14T23:13:20+01:00", Start(1_700_000_000_000, is_offset=False)),
        ("2023-11-14 22:13:20", Start(1_700_000_000_000, is_offset=False)),
        ("2023-11-14", Start(1_699_920_000_000, is_offset=False)),
    ],
)
def test_forms(text: str, expected: Start) -> None:
    assert parse_start(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "-1", "soon", "5x", "2023-13-01", "1.5h"])
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(UsageError, match="not a place to start"):
        parse_start(text, NOW_MS)
