import pytest

from headrace.log import producer_snapshot
from headrace.log.producers import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    OK,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    SEQUENCE_MAX,
    TRANSACTION_COORDINATOR_FENCED,
    ProducerEntry,
    Producers,
    SequencedBatch,
)
from headrace.wire.kafka.record_batch import BatchHeader, read_header
from headrace.wire.kafka.records import build_batch


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 9, txn: bool = False
) -> BatchHeader:
    return read_header(
        build_batch(
            [(None, b"", [], 0)] * count,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=txn,
        )
    )


def written(*batches: tuple[int, int]) -> Producers:
    """Producers that saw batches of (sequence, count), from offset 0 on."""
    producers = Producers()
    offset = 0
    for sequence, count in batches:
        producers.update(header(sequence, count), offset, 1000)
        offset += count
    return producers


def test_an_unknown_producer_may_start_anywhere() -> None:
    assert Producers().check(header(0)) == OK
    assert Producers().check(header(4711)) == OK, "KIP-360"


def test_sequences_follow_each_other() -> None:
    producers = written((0, 3), (3, 2))
    assert producers.check(header(5)) == OK
    assert producers.check(header(6)) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(4)) == OUT_OF_ORDER_SEQUENCE_NUMBER


def test_each_of_the_last_five_batches_is_known_again() -> None:
    producers = written((0, 1), (1, 2), (3, 1), (4, 1), (5, 1), (6, 3))
    for first, count, base_offset in ((1, 2, 1), (3, 1, 3), (6, 3, 6)):
        found = producers.check(header(first, count))
        assert isinstance(found, SequencedBatch)
        assert found.base_offset == base_offset
        assert found.last_offset == base_offset + count - 1
    assert producers.check(header(0)) == OUT_OF_ORDER_SEQUENCE_NUMBER, "the sixth is forgotten"
    assert producers.check(header(6, 2)) == OUT_OF_ORDER_SEQUENCE_NUMBER, "not the same batch"


def test_sequences_wrap_around() -> None:
    producers = written((SEQUENCE_MAX - 1, 2))
    assert producers.check(header(0)) == OK
    producers = written((SEQUENCE_MAX, 3))
    assert producers.entries[9].last_sequence == 1
    assert producers.check(header(2)) == OK
    assert isinstance(producers.check(header(SEQUENCE_MAX, 3)), SequencedBatch)


def test_a_new_epoch_starts_at_zero_and_an_old_one_is_refused() -> None:
    producers = written((0, 3))
    assert producers.check(header(3, epoch=1)) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check(header(0, epoch=1)) == OK
    producers.update(header(0, epoch=1), 3, 1000)
    assert producers.check(header(3, epoch=0)) == INVALID_PRODUCER_EPOCH
    assert producers.check(header(1, epoch=1)) == OK


def test_silent_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    producers = Producers()
    producers.update(header(0, producer_id=1), 0, 1000)
    producers.update(header(0, producer_id=2), 1, 5000)
    producers.update(header(0, producer_id=3, txn=True), 2, 1000)
    assert producers.expire(now_ms=6000, expiration_ms=5000) == 1
    assert set(producers.entries) == {2, 3}


def test_the_first_unstable_offset_is_that_of_the_oldest_open_transaction() -> None:
    producers = Producers()
    assert producers.first_unstable_offset() is None
    producers.update(header(0, producer_id=1, txn=True), 10, 0)
    producers.update(header(0, producer_id=2, txn=True), 11, 0)
    producers.update(header(1, producer_id=1, txn=True), 12, 0)
    assert producers.first_unstable_offset() == 10
    assert producers.end_transaction(1, 0, 5, 0) == 10
    assert producers.first_unstable_offset() == 11
    assert producers.end_transaction(1, 0, 5, 0) == -1
    assert producers.end_transaction(2, 1, 5, 0) == 11
    assert producers.entries[2].epoch == 1
    assert producers.check(header(0, producer_id=2, epoch=1)) == OK


def test_a_snapshot_keeps_the_last_batch() -> None:
    producers = written((0, 3), (3, 2))
    producers.entries[9].transaction_first_offset = 3
    content = producer_snapshot.encode(producers.entries.values())
    assert len(content) == 10 + 46
    assert content[:2] == b"\x00\x01"
    (entry,) = producer_snapshot.decode(content) or []
    assert (entry.producer_id, entry.epoch, entry.last_sequence) == (9, 0, 4)
    assert list(entry.batches) == [SequencedBatch(3, 4, 3, 4, 1000)]
    assert entry.transaction_first_offset == 3
    assert not entry.window_complete


def test_a_producer_without_batches_survives_a_snapshot() -> None:
    (entry,) = producer_snapshot.decode(producer_snapshot.encode([ProducerEntry(5, 2)])) or []
    assert (entry.producer_id, entry.epoch, len(entry.batches)) == (5, 2, 0)


def test_every_flipped_bit_of_a_snapshot_is_seen() -> None:
    content = producer_snapshot.encode(written((0, 3)).entries.values())
    for place in range(len(content) * 8):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        assert producer_snapshot.decode(bytes(damaged)) is None


@pytest.mark.parametrize("size", range(56))
def test_a_snapshot_cut_short_is_seen(size: int) -> None:
    content = producer_snapshot.encode(written((0, 3)).entries.values())
    assert producer_snapshot.decode(content[:size]) is None


def header_of(
    producer_id: int = 1, epoch: int = 0, sequence: int = 0, *, is_transactional: bool = True
) -> BatchHeader:
    return read_header(
        build_batch(
            [(None, b"v", (), 0)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
    )


def test_a_transaction_opens_only_with_the_question_that_was_answered() -> None:
    producers = Producers()
    assert producers.check_verified(header_of(), None) == INVALID_TXN_STATE
    question = producers.begin_verification(1, 0, 0, 100)
    assert producers.begin_verification(1, 0, 3, 100) is question
    assert producers.check_verified(header_of(sequence=3), question) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert producers.check_verified(header_of(), question) == OK
    producers.update(header_of(), 0, 100)
    assert producers.verifications == {}
    assert producers.has_ongoing(1, 0)
    assert not producers.has_ongoing(1, 1)
    assert producers.check_verified(header_of(sequence=1), None) == OK, "it is open"
    producers.end_transaction(1, 0, 0, 100)
    assert producers.check_verified(header_of(sequence=1), question) == INVALID_TXN_STATE


def test_a_marker_ends_the_question_too() -> None:
    producers = Producers()
    question = producers.begin_verification(1, 0, 0, 100)
    producers.end_transaction(1, 0, 0, 100)
    assert producers.check_verified(header_of(), question) == INVALID_TXN_STATE


def test_a_new_epoch_has_its_own_lowest_sequence() -> None:
    producers = Producers()
    question = producers.begin_verification(1, 0, 5, 100)
    producers.begin_verification(1, 1, 2, 100)
    assert (question.epoch, question.lowest_sequence) == (1, 2)
    producers.begin_verification(1, 0, 0, 100)
    assert (question.epoch, question.lowest_sequence) == (1, 2)
    producers.begin_verification(1, 1, 0, 100)
    assert question.lowest_sequence == 0


def test_questions_expire() -> None:
    producers = Producers()
    producers.begin_verification(1, 0, 0, 100)
    producers.expire(1_099, 1_000)
    assert len(producers.verifications) == 1
    producers.expire(1_100, 1_000)
    assert producers.verifications == {}


def test_a_plain_batch_in_an_open_transaction() -> None:
    producers = Producers()
    producers.update(header_of(), 0, 100)
    assert producers.check(header_of(sequence=1, is_transactional=False)) == INVALID_TXN_STATE
    assert producers.check(header_of(sequence=1)) == OK


def test_batches_without_a_sequence_are_judged_by_their_epoch() -> None:
    producers = Producers()
    producers.update(header_of(epoch=3, sequence=-1), 0, 100)
    entry = producers.entries[1]
    assert (len(entry.batches), entry.transaction_first_offset) == (0, 0)
    assert producers.check(header_of(epoch=3, sequence=-1)) == OK
    assert producers.check(header_of(epoch=2, sequence=-1)) == INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "version", "verdict"),
    [
        (3, 5, 0, OK),
        (2, 5, 0, INVALID_PRODUCER_EPOCH),
        (3, 4, 0, TRANSACTION_COORDINATOR_FENCED),
        (4, 6, 0, OK),
        (3, 5, 2, INVALID_PRODUCER_EPOCH),
        (4, 5, 2, OK),
    ],
)
def test_markers_of_the_past(
    epoch: int, coordinator_epoch: int, version: int, verdict: int
) -> None:
    producers = Producers()
    assert producers.check_marker(1, 0, 0, version) == OK, "nobody is known yet"
    producers.end_transaction(1, 3, 5, 100)
    producers.update(header_of(epoch=3), 0, 100)
    assert producers.check_marker(1, epoch, coordinator_epoch, version) == verdict


def test_a_marker_of_v2_may_be_repeated_and_the_last_epoch_always_ends() -> None:
    producers = Producers()
    producers.end_transaction(1, 3, 5, 100)
    assert producers.check_marker(1, 3, 5, 2) == OK
    producers.update(header_of(epoch=32767), 0, 100)
    assert producers.check_marker(1, 32767, 5, 2) == OK
