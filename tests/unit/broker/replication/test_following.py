"""A follower behind a leader: fetches, cuts and appends over real logs, without sockets."""

from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest

from headrace.base.events import EventLog
from headrace.base.topic_config import TopicConfig
from headrace.broker.partition import Partition
from headrace.broker.replication.fetcher import Fetcher, FetcherSettings
from headrace.broker.replication.following import Following, sound_bytes
from headrace.broker.replication.throttle import ReplicationThrottle
from headrace.log.config import LogConfig
from headrace.log.file_budget import FileBudget
from headrace.log.partition_log import OffsetOutOfRange, PartitionLog
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headrace.wire.kafka.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from headrace.wire.kafka.records import build_batch, read_batches

TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000


def partition(clock: SimulatedClock | None = None) -> Partition:
    disk = SimulatedDisk()
    log = PartitionLog.open(
        disk,
        "/t-0",
        "t",
        0,
        LogConfig(segment_bytes=2_000),
        clock or SimulatedClock(),
        topic_id=TOPIC_ID,
        files=FileBudget(disk),
    )
    return Partition("t", 0, TOPIC_ID, log, TopicConfig(), 0)


def write(log: PartitionLog, value: bytes, epoch: int) -> None:
    log.append(build_batch([(None, value, (), NOW_MS)]), epoch, NOW_MS)


def contents(log: PartitionLog) -> list[tuple[int, int, bytes]]:
    """Offset, epoch and bytes of every batch."""
    found: list[tuple[int, int, bytes]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        region = log.read(offset, 1 << 20, log.log_end_offset).region
        assert region is not None
        data = region.file.read(region.position, region.length)
        for header, batch in read_batches(data):
            found.append((header.base_offset, header.partition_leader_epoch, bytes(batch)))
            offset = header.next_offset
    return found


class Leader:
    """Answers fetches from one log, as a broker does; `damage` may change what it sends."""

    def __init__(self, led: Partition, epoch: int) -> None:
        self.led = led
        self.epoch = epoch
        self.high_watermark = 0
        self.requests: list[FetchRequest] = []
        self.damage: Callable[[PartitionData], None] | None = None
        self.is_up = True
        self._session: FetchPartition | None = None
        self._waiting: list[Callable[[], None]] = []

    def send(
        self, target_id: int, request: Message, on_answer: Callable[[Message | None, bool], None]
    ) -> None:
        assert target_id == 1
        self._waiting.append(lambda: on_answer(*self._answer(request)))

    def serve(self) -> bool:
        """Answer what was asked; False if nothing was."""
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer()
        return bool(waiting)

    def _answer(self, request: Message) -> tuple[Message | None, bool]:
        if not self.is_up:
            return None, True
        if isinstance(request, ListOffsetsRequest):
            asked = request.topics[0].partitions[0]
            log = self.led.log
            offset = log.log_start_offset if asked.timestamp == -2 else log.log_end_offset
            row = ListOffsetsPartitionResponse(partition_index=0, offset=offset)
            return (
                ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[row])]),
                False,
            )
        assert isinstance(request, FetchRequest)
        self.requests.append(request)
        assert request.replica_state.replica_id == 2
        if request.topics:
            self._session = request.topics[0].partitions[0]
        if self._session is None:
            return FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)), False
        data = self._fetch(self._session)
        if self.damage is not None:
            self.damage(data)
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
        return FetchResponse(session_id=7, responses=[topic]), False

    def _fetch(self, asked: FetchPartition) -> PartitionData:
        if asked.current_leader_epoch != self.epoch:
            stale = asked.current_leader_epoch < self.epoch
            error = ErrorCode.FENCED_LEADER_EPOCH if stale else ErrorCode.UNKNOWN_LEADER_EPOCH
            return PartitionData(error_code=int(error))
        log = self.led.log
        if asked.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(asked.last_fetched_epoch)
            if epoch >= 0 and (epoch != asked.last_fetched_epoch or asked.fetch_offset > end):
                return PartitionData(diverging_epoch=EpochEndOffset(epoch=epoch, end_offset=end))
        try:
            region = log.read(asked.fetch_offset, 300, log.log_end_offset).region
        except OffsetOutOfRange:
            return PartitionData(error_code=int(ErrorCode.OFFSET_OUT_OF_RANGE))
        records = b"" if region is None else region.file.read(region.position, region.length)
        return PartitionData(
            high_watermark=self.high_watermark,
            log_start_offset=log.log_start_offset,
            records=records,
        )


class Stage:
    def __init__(self) -> None:
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.follower = partition(self.clock)
        self.throttle = ReplicationThrottle(2, 1_000, 11)

    def follow(self, leader: Leader) -> Fetcher:
        self.follower.follow(leader.epoch)
        fetcher = Fetcher(
            1,
            2,
            lambda: 5,
            leader,
            FetcherSettings(backoff_ms=100),
            self.clock,
            self.timers,
            EventLog(lambda _line: None, self.clock),
            self.throttle,
        )
        fetcher.add(Following(self.follower, leader.epoch))
        return fetcher

    def settle(self, leader: Leader, rounds: int = 60) -> None:
        for _ in range(rounds):
            leader.serve()
            self.timers.advance(50)


def test_a_follower_gets_all_that_the_leader_has() -> None:
    leader, stage = Leader(partition(), 3), Stage()
    for number in range(40):
        write(leader.led.log, b"%d" % number, 3)
    leader.high_watermark = 25
    stage.follow(leader)
    stage.settle(leader)
    assert contents(stage.follower.log) == contents(leader.led.log)
    assert stage.follower.high_watermark == 25
    assert stage.follower.log.epochs.entries == [(3, 0)]


def throttled_stage(replicas: tuple[str, ...]) -> tuple[Leader, Stage]:
    """40 batches of 71 bytes to follow, 200 bytes a second allowed."""
    leader, stage = Leader(partition(), 0), Stage()
    for number in range(40):
        write(leader.led.log, b"%02d" % number, 0)
    leader.high_watermark = 40
    stage.throttle.set(200)
    stage.follower.config = TopicConfig(follower_replication_throttled_replicas=replicas)
    return leader, stage


def test_a_throttled_replica_that_is_out_of_sync_is_fetched_no_faster_than_its_rate() -> None:
    leader, stage = throttled_stage(("0:2",))
    stage.follow(leader)
    stage.settle(leader, rounds=100)  # five seconds
    taken = stage.throttle.byte_count
    assert 200 * 4 <= taken <= 200 * 5 + 300, "one answer of 300 bytes may go over"
    assert stage.throttle.held_count
    assert stage.follower.log.log_end_offset < 40
    stage.throttle.set(2**63 - 1)
    stage.settle(leader, rounds=40)
    assert contents(stage.follower.log) == contents(leader.led.log)


@pytest.mark.parametrize("replicas", [(), ("1:2",), ("0:3",)])
def test_who_is_not_named_is_not_throttled(replicas: tuple[str, ...]) -> None:
    leader, stage = throttled_stage(replicas)
    stage.follow(leader)
    stage.settle(leader, rounds=40)
    assert stage.follower.log.log_end_offset == 40
    assert stage.throttle.byte_count == 0


def test_a_replica_in_sync_is_counted_and_not_held_back() -> None:
    leader, stage = throttled_stage(("*",))
    stage.throttle.set(1_000_000)
    fetcher = stage.follow(leader)
    stage.settle(leader, rounds=40)
    assert stage.follower.log.log_end_offset == 40
    stage.throttle.set(1)  # exceeded by far
    write(leader.led.log, b"new", 0)
    leader.high_watermark = 40
    stage.settle(leader, rounds=10)
    assert stage.follower.log.log_end_offset == 41
    assert fetcher.failure_count == 0


def test_an_incremental_fetch_names_what_changed_alone() -> None:
    leader, stage = Leader(partition(), 0), Stage()
    write(leader.led.log, b"a", 0)
    stage.follow(leader)
    stage.settle(leader, rounds=5)
    first, second, *later = leader.requests
    assert (first.session_epoch, second.session_epoch) == (0, 1)
    assert second.topics[0].partitions[0].fetch_offset == 1
    assert later
    assert not any(request.topics for request in later)


def test_a_damaged_batch_is_asked_for_again() -> None:
    """KAFKA-4384: it is not stored, and does not stop the follower for good."""
    leader, stage = Leader(partition(), 0), Stage()
    write(leader.led.log, b"abc", 0)

    def flip(data: PartitionData) -> None:
        if data.records:
            damaged = bytearray(data.records)
            damaged[-2] ^= 1
            data.records = bytes(damaged)

    leader.damage = flip
    stage.follow(leader)
    stage.settle(leader, rounds=10)
    assert stage.follower.log.log_end_offset == 0
    assert not stage.follower.error
    leader.damage = None
    stage.settle(leader, rounds=10)
    assert contents(stage.follower.log) == contents(leader.led.log)


def test_a_leader_that_is_away_is_asked_again() -> None:
    leader, stage = Leader(partition(), 0), Stage()
    write(leader.led.log, b"a", 0)
    leader.is_up = False
    fetcher = stage.follow(leader)
    stage.settle(leader, rounds=5)
    assert fetcher.failure_count
    leader.is_up = True
    stage.settle(leader, rounds=10)
    assert stage.follower.log.log_end_offset == 1


def test_a_follower_of_an_older_epoch_stops() -> None:
    leader, stage = Leader(partition(), 4), Stage()
    fetcher = stage.follow(leader)
    leader.epoch = 5
    stage.settle(leader, rounds=3)
    assert not len(fetcher)


def test_a_follower_whose_log_is_too_old_starts_over() -> None:
    leader, stage = Leader(partition(), 1), Stage()
    for number in range(50):
        write(leader.led.log, b"%d" % number, 1)
    leader.led.log.delete_records(30)
    write(stage.follower.log, b"0", 1)
    stage.follow(leader)
    stage.settle(leader)
    assert stage.follower.log.log_start_offset == 30
    assert stage.follower.log.log_end_offset == 50
    assert contents(stage.follower.log) == contents(leader.led.log)


def test_a_follower_that_is_longer_is_cut_where_the_epochs_part() -> None:
    """KIP-101: not at the high watermark, which is 1 here."""
    leader, stage = Leader(partition(), 2), Stage()
    for log in (leader.led.log, stage.follower.log):
        write(log, b"both", 0)
        write(log, b"both too", 0)
    write(stage.follower.log, b"lost", 1)
    write(leader.led.log, b"new", 2)
    leader.high_watermark = 1
    stage.follower.high_watermark = 1
    stage.follow(leader)
    stage.settle(leader)
    assert contents(stage.follower.log) == contents(leader.led.log)
    assert stage.follower.log.epochs.entries == [(0, 0), (2, 2)]


@pytest.mark.parametrize("seed", range(40))
def test_replicas_agree_after_any_history(seed: int) -> None:
    """Leaders come and go, each with what it had; who follows the last one has the same bytes."""
    random = Random(seed)
    stage = Stage()
    replicas = [stage.follower, partition(stage.clock), partition(stage.clock)]
    epoch = 0
    for _ in range(12):
        epoch += random.randrange(1, 3)
        led = random.choice(replicas)
        if led.log.log_end_offset:
            led.log.assign_epoch(epoch, led.log.log_end_offset)
        for _ in range(random.randrange(4)):
            write(led.log, random.randbytes(random.randrange(1, 90)), epoch)
        for other in random.sample(replicas, random.randrange(len(replicas) + 1)):
            if other is not led:
                stage.follower = other
                leader = Leader(led, epoch)
                stage.follow(leader)
                stage.settle(leader, rounds=random.choice((1, 2, 60)))
    epoch += 1
    leader = Leader(led, epoch)
    if led.log.log_end_offset:
        led.log.assign_epoch(epoch, led.log.log_end_offset)
    for other in replicas:
        if other is not led:
            stage.follower = other
            stage.follow(leader)
            stage.settle(leader, rounds=80)
            leader = Leader(led, epoch)
            assert contents(other.log) == contents(led.log)
            assert not other.error


def test_only_whole_and_undamaged_batches_count() -> None:
    one = bytes(build_batch([(None, b"a", (), NOW_MS)], base_offset=0))
    two = bytes(build_batch([(None, b"b", (), NOW_MS)], base_offset=1))
    both = memoryview(one + two)
    assert sound_bytes(both, 0) == len(both)
    assert sound_bytes(both[:-1], 0) == len(one)
    assert sound_bytes(both, 1) == 0, "the first is there already"
    assert sound_bytes(memoryview(b"\0" * 100), 0) == 0


def test_a_late_answer_about_offsets_does_not_cut_what_came_meanwhile() -> None:
    """Two searches for the leader's end: the second tells of a moment before the first repair."""
    leader, stage = Leader(partition(), 1), Stage()
    for number in range(5):
        write(leader.led.log, b"%d" % number, 1)
    fetcher = stage.follow(leader)
    stage.settle(leader, rounds=10)
    following = fetcher._followed[TOPIC_ID, 0]
    old_end = leader.led.log.log_end_offset
    asked: list[Callable[[int], None]] = []
    fetcher._list_offset = lambda _f, _at, on_offset: asked.append(on_offset)  # type: ignore[method-assign]
    fetcher._find_offsets(following)
    asked.pop()(0)
    write(leader.led.log, b"news", 1)
    stage.settle(leader, rounds=20)
    assert stage.follower.log.log_end_offset == old_end + 1
    asked.pop()(old_end)
    assert stage.follower.log.log_end_offset == old_end + 1


def test_a_mistake_over_one_answer_does_not_end_the_fetching() -> None:
    leader, stage = Leader(partition(), 3), Stage()
    write(leader.led.log, b"value", 3)
    fetcher = stage.follow(leader)

    def spoil(data: PartitionData) -> None:
        data.records = "not bytes"  # type: ignore[assignment]
        leader.damage = None

    leader.damage = spoil
    stage.settle(leader)
    assert fetcher.failure_count == 1
    assert contents(stage.follower.log) == contents(leader.led.log)


def test_pauses_begin_short_and_grow_to_the_configured_one() -> None:
    """A leader that is behind with the metadata is asked again before a writer misses it."""
    leader, stage = Leader(partition(), 3), Stage()
    write(leader.led.log, b"a", 3)
    is_behind = True

    def refuse(data: PartitionData) -> None:
        if is_behind:
            data.error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            data.records = None

    leader.damage = refuse
    stage.follow(leader)
    asked_ms: list[int] = []
    for _ in range(500):
        if leader.serve():
            asked_ms.append(stage.clock.monotonic_ms())
        stage.timers.advance(1)
    pauses_ms = [after - before for before, after in pairwise(asked_ms)]
    assert pauses_ms[:3] == [20, 40, 80]
    assert set(pauses_ms[3:]) == {100}
    is_behind = False
    stage.settle(leader)
    assert stage.follower.log.log_end_offset == 1
    is_behind = True
    assert leader.serve()
    begun_ms = stage.clock.monotonic_ms()
    while not leader.serve():
        stage.timers.advance(1)
    assert stage.clock.monotonic_ms() - begun_ms <= 21, "a good answer ends the row"


def test_the_lag_is_what_is_committed_and_not_here() -> None:
    leader, stage = Leader(partition(), 3), Stage()
    for number in range(40):
        write(leader.led.log, b"%d" % number, 3)
    leader.high_watermark = 30
    fetcher = stage.follow(leader)
    assert fetcher.lags() == [], "nothing was told yet"
    leader.damage = lambda data: setattr(data, "records", (data.records or b"")[:10])
    leader.serve()
    assert fetcher.lags() == [(30, stage.follower)], "an answer that was of no use tells it, too"
    leader.damage = None
    stage.settle(leader)
    assert fetcher.lags() == []
    assert fetcher.fetch_count > 1
