"""Nothing above the high watermark is ever read, whatever is appended, rolled and cut meanwhile.

No. 12 of the regression scenarios of replication (KAFKA-9835, KAFKA-9196, KAFKA-727): a read that
was bounded by a stale place in the log reached past the high watermark. What is read here is looked
at later, as an answer leaves a broker later: its bytes are those that were committed then.
"""

from random import Random
from typing import NamedTuple

import pytest
from tests.unit.broker.replication.test_leading import NOW_MS, lead, partition

from headrace.base.storage import FileRegion
from headrace.broker.partition import Partition
from headrace.wire.kafka.records import build_batch, read_batches

STEPS = 3_000
FOLLOWER = 2
HELD_MAX = 20


class Read(NamedTuple):
    offset: int
    high_watermark: int
    region: FileRegion


class Hammer:
    """One leader with one follower in sync, segments of a few batches, and readers everywhere."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.led: Partition = partition(segment_bytes=400)
        self.in_sync = lead(self.led, (1, FOLLOWER))
        self.fetched = 0
        self.held: list[Read] = []
        self.looked_at = 0
        self.now_ms = 0

    def append(self) -> None:
        values = self.chance.randint(1, 3)
        self.led.append(build_batch([(None, b"value", (), NOW_MS)] * values), NOW_MS)

    def replicate(self) -> None:
        """The follower has some more, or all of it, and the leader hears of it."""
        end = self.led.log.log_end_offset
        self.fetched = self.chance.choice((end, self.chance.randint(self.fetched, end)))
        self.now_ms += 1
        self.in_sync.on_fetch(FOLLOWER, 20, self.fetched, 0, end, self.now_ms)
        self.led.advance_high_watermark()

    def read(self) -> None:
        high_watermark = self.led.high_watermark
        offset = self.chance.randint(self.led.log.log_start_offset, high_watermark)
        if offset == high_watermark:
            return  # nothing to read: a fetch would wait
        found = self.led.log.read(offset, self.chance.choice((1, 150, 1 << 20)), high_watermark)
        if found.region is not None:
            self.held.append(Read(offset, high_watermark, found.region))

    def look(self) -> None:
        """An answer leaves: after all that has happened since it was made."""
        if not self.held:
            return
        read = self.held.pop(self.chance.randrange(len(self.held)))
        data = read.region.file.read(read.region.position, read.region.length)
        headers = [header for header, _ in read_batches(data)]
        assert headers, "an empty answer"
        assert headers[0].base_offset <= read.offset <= headers[0].last_offset
        assert headers[-1].last_offset < read.high_watermark, f"{read} holds {headers[-1]}"
        assert sum(header.size_bytes for header in headers) == len(data), "a torn batch"
        self.looked_at += 1

    def run(self) -> None:
        actions = (self.append, self.append, self.replicate, self.read, self.read, self.look)
        for _ in range(STEPS):
            self.chance.choice(actions)()
            assert self.led.high_watermark <= max(self.fetched, 0)
            while len(self.held) > HELD_MAX:
                self.look()


@pytest.mark.parametrize("seed", range(4))
def test_6_1_no_12_appends_fetches_and_rolls_expose_nothing(seed: int) -> None:
    hammer = Hammer(seed)
    hammer.run()
    assert len(hammer.led.log.segments) > 50, "too few rolls"
    assert hammer.looked_at > 500, "too few reads"
    assert hammer.led.high_watermark > 500


@pytest.mark.sources
def test_6_1_no_12_fails_where_a_read_goes_to_the_end_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headrace.log.partition_log import PartitionLog

    bounded = PartitionLog.read

    def unbounded(log: PartitionLog, offset: int, max_bytes: int, _end: int) -> object:
        return bounded(log, offset, max_bytes, log.log_end_offset)

    monkeypatch.setattr(PartitionLog, "read", unbounded)
    with pytest.raises(AssertionError, match="holds"):
        Hammer(1).run()
