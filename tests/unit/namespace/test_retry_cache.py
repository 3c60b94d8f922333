"""What is remembered comes back as it was; when it goes is told by `test_retries`."""

import pytest

from headrace.namespace.edits import RetryEntry
from headrace.namespace.retry_cache import RetryCache


@pytest.mark.parametrize("call_id", [0, 1, -1, 300, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("client_id", [b"", b"c" * 16, b"d" * 200])
def test_entries_come_back_as_they_were(client_id: bytes, call_id: int) -> None:
    cache = RetryCache(10, 1_000)
    entries = [
        RetryEntry("", 0, b""),
        RetryEntry("Create /ä", 2**40, b"16386"),
        RetryEntry("Delete /" + "x" * 600, 7, b"\x00\xff"),
    ]
    for entry in entries:
        cache.put((client_id, call_id), entry)
        assert cache.find(client_id, call_id) == entry
        assert list(cache.items()) == [((client_id, call_id), entry)]
    assert len(cache) == 1
    assert cache.find(client_id, call_id ^ 1) is None
    assert cache.find(client_id + b"x", call_id) is None


def test_a_client_id_does_not_run_into_a_call_id() -> None:
    cache = RetryCache(10, 1_000)
    cache.put((b"ab", 1), RetryEntry("Delete /a", 5, b"\x01"))
    cache.put((b"ab\x00", 1), RetryEntry("Delete /b", 6, b"\x00"))
    assert [key for key, _ in cache.items()] == [(b"ab", 1), (b"ab\x00", 1)]


def test_an_entry_that_comes_again_is_the_latest() -> None:
    cache = RetryCache(2, 1_000)
    for number, call_id in enumerate((1, 2, 1, 3)):
        cache.remember((b"c" * 16, call_id), RetryEntry("Delete /a", number, b""))
    assert [(key[1], entry.time_ms) for key, entry in cache.items()] == [(1, 2), (3, 3)]
