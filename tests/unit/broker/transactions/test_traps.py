"""What went wrong with transactions elsewhere, as tests: the numbers are those of the incidents.

17 aborted data visible · 18 producer state expired, lost or damaged · 19 hanging transactions and
a delayed EndTxn · 20 the end of the epochs · 21 duplicates behind deleted segments and lost
transactions · 22 sequences after a failed verification, epochs bumped in memory alone · 23 offsets
that expire or are lost while a transaction or a load is under way.

What is no transaction's own is told where it happens: cleaning past the high watermark and a
cleaner that is held up (17) in `tests/unit/broker/test_cleaner.py` and `tests/sim/log`;
the window of five batches and duplicates after retention (21) in `tests/unit/log`; offsets that
expire while a group rebalances or right after a load, and loads that tombstones could overtake (23)
in `tests/unit/broker/groups`. Requests that are held up on their way (19) also between real clients
and a broker: `tests/interop/test_confluent_transactions.py`, `test_java_transactions.py`.
"""

from dataclasses import replace

import pytest
from tests.unit.broker.dialogue import Client, delete_records
from tests.unit.broker.transactor import (
    Transactor,
    committed_offset,
    committed_values,
    transactional_broker,
)

from headrace.base.promise import Promise
from headrace.broker.cleaner import LogCleaner
from headrace.broker.transactions.metadata import (
    EPOCH_HANDED_OUT_MAX,
    EPOCH_MAX,
    TransactionMetadata,
)
from headrace.broker.transactions.states import TransactionState
from headrace.testing.broker import SimulatedBroker
from headrace.testing.cleaner import SimulatedCleaner
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

BOTH = pytest.mark.parametrize("bumps", [False, True], ids=["old protocol", "v2"])


def only_metadata(broker: SimulatedBroker, transactional_id: str = "id") -> TransactionMetadata:
    found = broker.broker.transactions.describe(transactional_id)
    assert not isinstance(found, ErrorCode), found
    return found


def at_epoch(one: Transactor, epoch: int) -> None:
    """As if the id had been used that often."""
    broker = one.broker.broker
    shards = broker.transactions._shards
    hosted = shards.find(one.transactional_id)
    assert not isinstance(hosted, ErrorCode)
    shards.transit(
        hosted, replace(hosted.metadata, producer_epoch=epoch, previous_producer_id=-1)
    ).value()
    one.take(one.producer_id, epoch)


@BOTH
@pytest.mark.parametrize("end", ["kill", "stop", "crash"])
def test_17_what_was_aborted_stays_invisible_over_restarts(bumps: bool, end: str) -> None:
    broker = transactional_broker("t", log_flush_interval_messages="1")
    one = Transactor(broker, bumps=bumps)
    assert one.init() == 0
    for number in range(6):
        one.begin("t", 0)
        assert one.write("t", 0, f"{number}") == 0
        assert one.end(commit=number % 3 == 0) == 0
    assert committed_values(one, "t") == ["0", "3"]
    getattr(broker, end)()
    broker.start()
    assert committed_values(Client(broker), "t") == ["0", "3"]


@pytest.mark.parametrize("seed", range(20))  # of what the power cut leaves of unsynced files
def test_17_an_abort_in_a_sealed_segment_survives_a_power_cut(seed: int) -> None:
    broker = transactional_broker("t", seed=seed)
    one = Transactor(broker)
    one.init()
    assert one.write("t", 0, "gone") == 0
    assert one.end(commit=False) == 0
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    partition.log.roll()
    broker.settle()
    assert partition.log.recovery_point == partition.log.log_end_offset
    broker.broker.partitions.checkpoint()
    broker.crash()
    broker.start()
    client = Client(broker)
    # What was synced is there; the coordinator may have forgotten that its marker is written.
    assert client.fetch("t", 0, 0).high_watermark in (2, 3)
    assert committed_values(client, "t") == []


@BOTH
def test_17_an_abort_supersedes_nothing_and_stays_invisible_after_a_cleaning(bumps: bool) -> None:
    """KAFKA-13727, KAFKA-14055: all records have one key, and the newest was aborted."""
    broker = transactional_broker("t")
    broker.create_topic("c", 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    one = Transactor(broker, bumps=bumps)
    one.init()
    for value, commit in (("old", True), ("kept", True), ("gone", False)):
        one.begin("c", 0)
        assert one.write("c", 0, value) == 0
        assert one.end(commit=commit) == 0
    partition = broker.broker.partitions.find("c", 0)
    assert partition is not None
    partition.log.roll()
    partition.log.flush_now()
    parts = broker.broker.partitions, broker.config, broker.clock, broker.broker.log
    cleaner = LogCleaner(*parts, SimulatedCleaner(broker.disk))
    cleaner.tick()
    broker.settle()
    assert cleaner.cleanings == 1
    assert committed_values(one, "c") == ["kept"]
    broker.kill()
    broker.start()
    assert committed_values(Client(broker), "c") == ["kept"]


@BOTH
def test_18_an_open_transaction_outlives_its_producer_s_expiry(bumps: bool) -> None:
    broker = transactional_broker("t", producer_id_expiration_ms="1000")
    one = Transactor(broker, bumps=bumps)
    one.init(timeout_ms=600_000)
    one.begin("t", 0)
    assert one.write("t", 0, "a") == 0
    broker.advance(5_000)
    broker.broker.partitions.retain()
    assert one.write("t", 0, "b") == 0
    assert one.end(commit=True) == 0
    assert committed_values(one, "t") == ["a", "b"]


@BOTH
@pytest.mark.parametrize("damage", [b"", b"\x00", b"\x00\x01garbage" * 4])
def test_18_a_damaged_snapshot_is_rebuilt_from_the_log(bumps: bool, damage: bytes) -> None:
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=bumps)
    one.init()
    one.begin("t", 0)
    assert one.write("t", 0, "a") == 0
    broker.stop()
    folder = next(path for path in ("/data/t-0", "/data/log/t-0") if broker.disk.exists(path))
    snapshots = [name for name in broker.disk.list(folder) if name.endswith(".snapshot")]
    assert snapshots
    for name in snapshots:
        broker.disk.replace_file(f"{folder}/{name}", damage, sync=True)
    broker.start()
    again = Transactor(broker, bumps=bumps)
    again.take(one.producer_id, one.producer_epoch)
    repeated = again.produce_batch("t", 0, again.batch("a", sequence=0))
    assert (repeated.error_code, repeated.base_offset) == (0, 0), "the duplicate is known"
    assert again.fetch("t", 0, 0).last_stable_offset == 0, "the transaction is still open"


def test_18_a_producer_s_state_lives_on_from_its_marker() -> None:
    """KAFKA-9144: forgotten by the age of its data alone, a coordinator of the past could end the
    next transaction."""
    broker = transactional_broker("t", producer_id_expiration_ms="1000")
    one = Transactor(broker)
    one.init(timeout_ms=600_000)
    assert one.write("t", 0, "a") == 0
    broker.advance(900)
    assert marked(one, coordinator_epoch=5) == 0
    broker.advance(900)
    broker.broker.partitions.retain()
    assert marked(one, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    broker.stop()
    broker.start()
    again = Transactor(broker)
    again.take(one.producer_id, one.producer_epoch)
    assert marked(again, coordinator_epoch=4) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    broker.advance(2_000)
    broker.broker.partitions.retain()
    assert marked(again, coordinator_epoch=4) == 0, "nobody knows it any more"


def test_19_a_write_after_the_abort_opens_nothing() -> None:
    """KIP-890: the batch was held up, the transaction aborted meanwhile; old protocol."""
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=False)
    one.init()
    one.begin("t", 0)
    late = one.batch("late", sequence=0)
    assert one.end(commit=False) == 0
    refused = one.produce_batch("t", 0, late)
    assert refused.error_code == ErrorCode.INVALID_TXN_STATE
    # The next transaction without that partition does not let it in, either.
    one.begin("t", 1)
    assert one.produce_batch("t", 0, late).error_code == ErrorCode.INVALID_TXN_STATE
    assert one.produce_batch("t", 0, late, version=11).error_code == ErrorCode.TRANSACTION_ABORTABLE
    assert one.write("t", 1, "right") == 0
    assert one.end(commit=True) == 0
    end = one.fetch("t", 0, 0)
    assert (end.last_stable_offset, end.high_watermark) == (1, 1), "the abort's marker alone"


def test_19_a_write_of_the_last_epoch_is_refused_in_v2() -> None:
    broker = transactional_broker("t")
    one = Transactor(broker)
    one.init()
    assert one.write("t", 0, "first") == 0
    late = one.batch("late", sequence=1)
    assert one.end(commit=False) == 0
    assert one.produce_batch("t", 0, late).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert one.fetch("t", 0, 0).last_stable_offset == one.fetch("t", 0, 0).high_watermark


def test_19_a_delayed_end_does_not_end_the_next_transaction() -> None:
    """KAFKA-17754: the EndTxn of the first transaction arrives in the midst of the second."""
    broker = transactional_broker("t")
    one = Transactor(broker)
    one.init()
    assert one.write("t", 0, "first") == 0
    delayed = one.end_request(commit=True)
    assert one.end(commit=True) == 0
    assert one.write("t", 0, "second") == 0
    assert one.ask(delayed, 5).error_code == ErrorCode.PRODUCER_FENCED
    # Versions that do not know that word are told the older one.
    assert one.ask(delayed, 1).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert only_metadata(broker).state is TransactionState.ONGOING
    assert one.end(commit=False) == 0
    assert committed_values(one, "t") == ["first"]


@BOTH
def test_19_an_end_after_the_coordinator_gave_up_ends_nothing(bumps: bool) -> None:
    """The transaction timed out, its id was initialised anew, and then EndTxn arrives."""
    interval = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "100"}
    broker = transactional_broker("t", **interval)
    one = Transactor(broker, bumps=bumps)
    one.init(timeout_ms=1_000)
    one.begin("t", 0)
    assert one.write("t", 0, "first") == 0
    delayed, version = one.end_request(commit=True), 5 if bumps else 1
    broker.advance(2_000)
    assert only_metadata(broker).state is TransactionState.COMPLETE_ABORT
    # In v2 an epoch one behind may be a repetition, but not of a commit: it was an abort.
    told = ErrorCode.INVALID_TXN_STATE if bumps else ErrorCode.INVALID_PRODUCER_EPOCH
    assert one.ask(delayed, version).error_code == told
    heir = Transactor(broker, bumps=bumps)
    assert heir.init() == 0
    heir.begin("t", 0)
    assert heir.write("t", 0, "next") == 0
    late = ErrorCode.PRODUCER_FENCED if bumps else ErrorCode.INVALID_PRODUCER_EPOCH
    assert one.ask(delayed, version).error_code == late
    assert only_metadata(broker).state is TransactionState.ONGOING
    assert heir.end(commit=False) == 0
    assert committed_values(heir, "t") == []


def test_20_the_last_epoch_rotates_the_producer_id() -> None:
    broker = transactional_broker("t")
    one = Transactor(broker)
    one.init()
    at_epoch(one, EPOCH_HANDED_OUT_MAX)
    before = one.producer_id
    assert one.write("t", 0, "at the edge") == 0
    request = one.end_request(commit=True)
    assert one.end(commit=True) == 0
    assert (one.producer_id != before, one.producer_epoch) == (True, 0)
    # The answer may get lost: the same question has the same answer.
    again = one.ask(request, 5)
    assert again.error_code == 0
    assert (again.producer_id, again.producer_epoch) == (one.producer_id, 0)
    assert one.write("t", 0, "beyond") == 0
    assert one.end(commit=True) == 0
    assert committed_values(one, "t") == ["at the edge", "beyond"]


@BOTH
def test_20_fencing_at_the_last_epoch_bumps_once_and_ends(bumps: bool) -> None:
    """KAFKA-19367 and KAFKA-20090: one bump to 32767, an abort that completes, a new id."""
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=bumps)
    one.init()
    at_epoch(one, EPOCH_HANDED_OUT_MAX)
    one.begin("t", 0)
    assert one.write("t", 0, "zombie") == 0
    heir = Transactor(broker, bumps=bumps)
    assert heir.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    found = only_metadata(broker)
    assert (found.state, found.producer_epoch) == (TransactionState.COMPLETE_ABORT, EPOCH_MAX)
    assert heir.init() == 0
    assert heir.producer_id != one.producer_id
    assert heir.producer_epoch == 0
    assert one.write("t", 0, "late") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    heir.begin("t", 0)
    assert heir.write("t", 0, "heir") == 0
    assert heir.end(commit=True) == 0
    assert committed_values(heir, "t") == ["heir"]


@BOTH
def test_21_a_duplicate_is_known_after_its_segment_was_deleted(bumps: bool) -> None:
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=bumps)
    one.init()
    one.begin("t", 0)
    first = one.batch("a", "b", sequence=0)
    assert one.produce_batch("t", 0, first).base_offset == 0
    delete_records(one, "t", 0, 2)
    repeated = one.produce_batch("t", 0, first)
    assert (repeated.error_code, repeated.base_offset) == (0, 0)
    assert one.fetch("t", 0, 2).last_stable_offset == 2, "not before the start of the log"
    assert one.end(commit=True) == 0


@BOTH
def test_21_a_transaction_is_not_lost_when_its_coordinator_is(bumps: bool) -> None:
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=bumps)
    one.init()
    one.begin("t", 0)
    assert one.write("t", 0, "before") == 0
    broker.kill()
    broker.start()
    same = Transactor(broker, bumps=bumps)
    same.take(one.producer_id, one.producer_epoch)
    same.sequences = {("t", 0): 1}
    assert same.write("t", 0, "after") == 0
    assert same.end(commit=True) == 0
    assert committed_values(same, "t") == ["before", "after"]


@BOTH
@pytest.mark.parametrize("is_commit", [True, False])
def test_21_a_groups_first_offset_is_not_lost_when_its_coordinator_is(
    bumps: bool, is_commit: bool
) -> None:
    """All that the group has is pending when the next coordinator reads its log."""
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=bumps)
    one.init()
    if not bumps:
        assert one.add_offsets("g") == 0
    assert one.commit_offset("g", "t", 0, 5) == 0
    broker.kill()
    broker.start()
    same = Transactor(broker, bumps=bumps)
    same.take(one.producer_id, one.producer_epoch)
    assert committed_offset(same, "g", "t", 0) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert same.end(commit=is_commit) == 0
    assert committed_offset(same, "g", "t", 0) == (0, 5 if is_commit else -1)


def test_22_a_batch_behind_one_that_must_come_again_waits_for_it() -> None:
    """KAFKA-14920: sequence 0 is told to come again; 1 must not be written before it."""
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=False)
    one.init()
    one.begin("t", 0)
    answers = [
        Promise.resolved({("t", 0): ErrorCode.NOT_COORDINATOR}),
        Promise.resolved({("t", 0): ErrorCode.NONE}),
        Promise.resolved({("t", 0): ErrorCode.NONE}),
    ]
    broker.broker.verifier = Scripted(answers)
    first, second = one.batch("0", sequence=0), one.batch("1", sequence=1)
    assert one.produce_batch("t", 0, first).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert one.produce_batch("t", 0, second).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert one.produce_batch("t", 0, first).error_code == 0
    assert one.produce_batch("t", 0, second).error_code == 0


def test_22_a_yes_of_the_past_lets_nothing_in() -> None:
    """1. verified; 2. aborted, marker and all; 3. the batch comes with its old yes."""
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=False)
    one.init()
    one.begin("t", 0)
    slow: Promise[dict[tuple[str, int], ErrorCode]] = Promise()
    local = broker.broker.verifier
    broker.broker.verifier = Scripted([slow])
    request = one.produce_request("t", {0: one.batch("late")}, version=10)
    request.transactional_id = one.transactional_id
    one.transport.feed(one.frame(request, 10))
    broker.settle()
    assert one.transport.take() == []
    broker.broker.verifier = local
    other = Transactor(broker, bumps=False)
    other.take(one.producer_id, one.producer_epoch)
    assert other.end(commit=False) == 0
    slow.resolve({("t", 0): ErrorCode.NONE})
    broker.settle()
    (answer,) = one.answers(type(request), 10)
    (row,) = answer.responses[0].partition_responses
    assert row.error_code == ErrorCode.INVALID_TXN_STATE
    assert one.fetch("t", 0, 0).last_stable_offset == 1, "the abort's marker alone"


def test_22_a_batch_that_nobody_waits_for_is_written_once_it_is_verified() -> None:
    """acks=0, and the coordinator is another broker: its answer comes after the read."""
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=False)
    one.init()
    one.begin("t", 0)
    slow: Promise[dict[tuple[str, int], ErrorCode]] = Promise()
    local = broker.broker.verifier
    broker.broker.verifier = Scripted([slow])
    request = one.produce_request("t", {0: one.batch("silent")}, version=10)
    request.transactional_id, request.acks = one.transactional_id, 0
    one.transport.feed(one.frame(request, 10))
    broker.broker.verifier = local
    slow.resolve({("t", 0): ErrorCode.NONE})
    broker.settle()
    assert one.end(commit=True) == 0
    assert committed_values(one, "t") == ["silent"]


@BOTH
def test_22_an_epoch_is_bumped_in_the_log_or_not_at_all(bumps: bool) -> None:
    """KAFKA-9666: the append of the bump fails; what is in memory stays what the log says."""
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=bumps)
    one.init()
    one.begin("t", 0)
    assert one.write("t", 0, "a") == 0
    before = only_metadata(broker)
    log = broker.broker.transactions._log
    append = log.append
    log.append = lambda *_a, **_k: Promise.resolved(int(ErrorCode.NOT_ENOUGH_REPLICAS))
    heir = Transactor(broker, bumps=bumps)
    assert heir.init() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert one.end(commit=True) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert only_metadata(broker) == before
    log.append = append
    assert one.end(commit=True) == 0
    assert committed_values(one, "t") == ["a"]


@BOTH
def test_23_a_pending_offset_does_not_expire(bumps: bool) -> None:
    broker = transactional_broker("t", offsets_retention_minutes="1")
    one = Transactor(broker, bumps=bumps)
    one.init(timeout_ms=900_000)
    if not bumps:
        assert one.add_offsets("g") == 0
    assert one.commit_offset("g", "t", 0, 7) == 0
    assert committed_offset(one, "g", "t", 0) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    broker.advance(300_000)
    broker.broker.groups.commits.expire()
    broker.settle()
    assert one.end(commit=True) == 0
    assert committed_offset(one, "g", "t", 0) == (0, 7)


@BOTH
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_23_pending_offsets_survive_a_load_in_either_outcome(
    bumps: bool, commit: bool, end: str
) -> None:
    broker = transactional_broker("t")
    one = Transactor(broker, bumps=bumps)
    one.init()
    if not bumps:
        assert one.add_offsets("g") == 0
    assert one.commit_offset("g", "t", 0, 3) == 0
    assert one.end(commit=True) == 0
    if not bumps:
        assert one.add_offsets("g") == 0
    assert one.commit_offset("g", "t", 0, 7) == 0
    getattr(broker, end)()
    broker.start()
    same = Transactor(broker, bumps=bumps)
    same.take(one.producer_id, one.producer_epoch)
    assert committed_offset(same, "g", "t", 0) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert committed_offset(same, "g", "t", 0, require_stable=False) == (0, 3)
    assert same.end(commit=commit) == 0
    assert committed_offset(same, "g", "t", 0) == (0, 7 if commit else 3)
    getattr(broker, end)()
    broker.start()
    assert committed_offset(Transactor(broker), "g", "t", 0) == (0, 7 if commit else 3)


def marked(one: Transactor, *, coordinator_epoch: int) -> int:
    """An abort marker as a coordinator of that epoch would send it; its error code."""
    marker = WritableTxnMarker(
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
        coordinator_epoch=coordinator_epoch,
    )
    response = one.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    return int(response.markers[0].topics[0].partitions[0].error_code)


class Scripted:
    """A `Verifier` that says what it is told to."""

    def __init__(self, answers: list[Promise[dict[tuple[str, int], ErrorCode]]]) -> None:
        self._answers = answers

    def ask(self, *_: object, **__: object) -> Promise[dict[tuple[str, int], ErrorCode]]:
        return self._answers.pop(0)
