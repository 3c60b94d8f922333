from typing import Any

from headrace.log import txn_index
from headrace.log.config import LogConfig
from headrace.log.txn_index import AbortedTransaction
from headrace.wire.kafka.records import build_batch

PRODUCER = {"producer_epoch": 0, "is_transactional": True}


def marker(producer_id: int, *, commit: bool) -> bytearray:
    key = b"\x00\x00\x00" + (b"\x01" if commit else b"\x00")
    return build_batch(
        [(key, b"\x00\x00\x00\x00\x00\x07", [], 0)],
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def test_the_file_format() -> None:
    entry = AbortedTransaction(producer_id=5, first_offset=1, last_offset=9, last_stable_offset=10)
    content = txn_index.encode([entry])
    assert content == bytes.fromhex(
        "0000 0000000000000005 0000000000000001 0000000000000009 000000000000000a"
    )
    assert txn_index.decode(content) == [entry]
    assert txn_index.decode(content[:-1]) is None
    assert txn_index.decode(b"\x00\x01" + content[2:]) is None
    assert txn_index.decode(content + content) is None, "last offsets rise"


def test_a_range_touches_some() -> None:
    entries = [AbortedTransaction(1, 0, 9, 10), AbortedTransaction(2, 15, 19, 20)]
    assert txn_index.touching(entries, 5, 8) == (entries[:1], True)
    assert txn_index.touching(entries, 5, 16) == (entries, True)
    assert txn_index.touching(entries, 10, 15) == ([], True)
    assert txn_index.touching(entries, 18, 99) == (entries[1:], False)


def play(bench: Any) -> None:
    """Two interleaved transactions, one aborted, and one left open."""
    bench.append(2, producer_id=1, base_sequence=0, **PRODUCER)  # 0, 1
    bench.append(2, producer_id=2, base_sequence=0, **PRODUCER)  # 2, 3
    bench.log.append(marker(1, commit=False), 0, 0)  # 4
    assert bench.log.last_stable_offset(5) == 2
    bench.log.append(marker(2, commit=True), 0, 0)  # 5
    assert bench.log.last_stable_offset(6) == 6
    bench.append(1, producer_id=3, base_sequence=0, **PRODUCER)  # 6


def test_the_last_stable_offset_waits_for_the_oldest_transaction(bench: Any) -> None:
    log = bench.open()
    assert log.last_stable_offset(0) == 0
    play(bench)
    assert log.last_stable_offset(7) == 6
    assert log.last_stable_offset(3) == 3


def test_a_marker_above_the_high_watermark_does_not_count_yet(bench: Any) -> None:
    log = bench.open()
    bench.append(2, producer_id=1, base_sequence=0, **PRODUCER)
    log.append(marker(1, commit=True), 0, 0)
    assert log.last_stable_offset(2) == 0
    assert log.last_stable_offset(3) == 3


def test_aborted_transactions_are_found_and_rebuilt(bench: Any) -> None:
    aborted = [AbortedTransaction(1, 0, 4, 2)]
    bench.open(LogConfig(segment_bytes=200))
    play(bench)
    assert bench.log.aborted_transactions(0, 7) == aborted
    assert bench.log.aborted_transactions(5, 7) == []
    for clean in (True, False):
        if clean:
            bench.log.close()
        log = bench.reopen(clean=clean)
        assert log.aborted_transactions(0, 7) == aborted
        assert log.last_stable_offset(7) == 6
        assert log.producers.entries[1].coordinator_epoch == 7
    for name in bench.disk.list("/d/t-0"):
        if name.endswith((".txnindex", ".snapshot")):
            bench.disk.remove(f"/d/t-0/{name}")
    assert bench.reopen().aborted_transactions(0, 7) == aborted


def aborted_range(bench: Any, start: int, max_bytes: int = 1 << 20) -> list[tuple[int, int]]:
    end = bench.log.log_end_offset
    region = bench.log.read(start, max_bytes, end).region
    assert region is not None
    return bench.log.aborted_in(start, region, end)  # type: ignore[no-any-return]


def test_a_read_names_the_aborted_transactions_in_it_alone(bench: Any) -> None:
    bench.open()
    for number in range(4):
        bench.append(2, producer_id=number, base_sequence=0, **PRODUCER)
        bench.log.append(marker(number, commit=number % 2 == 0), 0, 0)
    assert aborted_range(bench, 0) == [(1, 3), (3, 9)]
    assert aborted_range(bench, 6) == [(3, 9)]
    assert aborted_range(bench, 0, max_bytes=1) == []
    assert aborted_range(bench, 3, max_bytes=1) == [(1, 3)]
    bench.log.roll()
    bench.append(1, producer_id=9, base_sequence=0, **PRODUCER)
    assert aborted_range(bench, 0) == [(1, 3), (3, 9)]
    assert aborted_range(bench, 12) == []


def test_a_log_without_aborts_is_asked_once(bench: Any) -> None:
    log = bench.open()
    bench.append(2)
    assert aborted_range(bench, 0) == []
    assert log.has_aborted is False
    bench.append(1, producer_id=1, base_sequence=0, **PRODUCER)
    log.append(marker(1, commit=False), 0, 0)
    assert log.has_aborted is True
    assert aborted_range(bench, 0) == [(1, 2)]


def test_a_cut_takes_the_aborts_behind_it(bench: Any) -> None:
    log = bench.open()
    bench.append(1, producer_id=1, base_sequence=0, **PRODUCER)  # 0
    log.append(marker(1, commit=False), 0, 0)  # 1
    log.save_producers()
    bench.append(1, producer_id=1, base_sequence=1, **PRODUCER)  # 2
    log.append(marker(1, commit=False), 0, 0)  # 3
    log.truncate_to(2)
    assert [t.last_offset for t in log.aborted_transactions(0, 99)] == [1]
    assert log.last_stable_offset(2) == 2
    bench.append(1, producer_id=1, base_sequence=1, **PRODUCER)
    log.append(marker(1, commit=True), 0, 0)
    assert aborted_range(bench, 0) == [(1, 0)]
    assert aborted_range(bench, 2) == []


def test_a_cut_opens_the_transaction_whose_marker_it_takes(bench: Any) -> None:
    log = bench.open()
    bench.append(1, producer_id=1, base_sequence=0, **PRODUCER)
    log.append(marker(1, commit=True), 0, 0)
    log.truncate_to(1)
    assert log.last_stable_offset(1) == 0
    assert log.producers.ongoing == {1: 0}


def test_the_last_stable_offset_is_not_before_the_start(bench: Any) -> None:
    log = bench.open()
    bench.append(3, producer_id=1, base_sequence=0, **PRODUCER)
    bench.append(2)
    assert log.last_stable_offset(5) == 0
    log.delete_records(4)
    assert log.last_stable_offset(5) == 4


def test_a_torn_index_of_aborted_transactions_is_not_appended_to(bench: Any) -> None:
    """1. The power fails while an entry is written; its marker is lost as well. 2. Recovery finds
    no aborted transaction. 3. The next abort's entry would stand behind half an entry."""
    log = bench.open()
    bench.append()
    path = log.active.stem + ".txnindex"
    bench.disk.open(path, create=True).write([b"\0\0torn"])
    log = bench.reopen()
    assert log.active.aborted() == []
    assert not bench.disk.exists(path) or bench.disk.read_file(path) == b""
