"""What is remembered comes back as it was; when it goes is told by `test_retries`."""

import random
from collections import OrderedDict

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


@pytest.mark.parametrize("seed", range(40))
def test_it_is_a_dictionary_with_an_order(seed: int) -> None:
    """Small ones, so that the ring goes round and keys meet in the table."""
    dice = random.Random(seed)
    entries_max, expiry_ms = dice.choice((1, 2, 3, 5, 8, 30)), dice.choice((3, 20, 10_000))
    cache = RetryCache(entries_max, expiry_ms)
    model: OrderedDict[tuple[bytes, int], RetryEntry] = OrderedDict()
    time_ms = 0
    for step in range(600):
        key = (dice.choice((b"", b"a", b"b" * 16)), dice.randrange(3 * entries_max))
        time_ms += dice.choice((0, 1, 1, 5))
        entry = RetryEntry(f"Delete /{step}", time_ms, b"%d" % step)
        model.pop(key, None)
        model[key] = entry
        while len(model) > entries_max:
            model.popitem(last=False)
        if dice.random() < 0.8:
            cache.remember(key, entry)
            while next(iter(model.values())).time_ms + expiry_ms < time_ms:
                model.popitem(last=False)
        else:
            cache.put(key, entry)
        assert list(cache.items()) == list(model.items())
        assert len(cache) == len(model)
        for call_id in range(3 * entries_max):
            for client_id in (b"", b"a", b"b" * 16, b"c"):
                assert cache.find(client_id, call_id) == model.get((client_id, call_id))


def test_without_repetitions_it_holds_what_it_may() -> None:
    cache = RetryCache(100, 10**9)
    for number in range(1_000):
        cache.remember((b"c" * 16, number), RetryEntry("Delete /a", number, b""))
        assert len(cache) == min(number + 1, 100)
    assert [key[1] for key, _ in cache.items()] == list(range(900, 1_000))
