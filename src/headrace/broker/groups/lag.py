"""How far groups are behind, for metrics: in records, and in time.

Owns: what was learned of partitions and share groups that other brokers know, and the times of
records that groups stand at. Must not know: metrics, connections (`EndOffsets`).

A partition whose log is here is looked at as it is asked for. Leaders elsewhere and share
coordinators are asked when somebody looks, one round at a time, and what they say is told from
the next look on: nobody who doesn't look costs anything. The time of a record is read once; a
group that stands still costs nothing more.

Invariant: what is told of a partition elsewhere was true at one moment: the end and the group's
offset are of the same round.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.base.errors import StorageError
from headrace.base.promise import Promise
from headrace.broker.groups.shards import Shards
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.lag import Ends
from headrace.broker.groups.share.member import Refused
from headrace.broker.groups.share.offset_requests import ShareOffset, ShareOffsets
from headrace.broker.partition import Partition

FindPartition = Callable[[str, int], Partition | None]

TIMES_PER_ROUND_MAX = 100
"""Records whose time is asked for elsewhere in one round: each costs its batch."""

Place = tuple[str, str, int]
"""Group, topic, partition."""
RecordAt = tuple[str, int, int]
"""Topic, partition, offset."""


@dataclass(frozen=True, slots=True)
class GroupLag:
    group_id: str
    topic: str
    partition: int
    records: int
    seconds: float | None
    """The age of the oldest record that the group has not read; None if nobody knows yet."""


@dataclass(frozen=True, slots=True)
class _Behind:
    offset: int
    records: int


class GroupLags:
    def __init__(self, shards: Shards, shares: ShareOffsets) -> None:
        self._shards = shards
        self._shares = shares
        self._elsewhere: dict[Place, _Behind] = {}
        self._shared: dict[str, list[ShareOffset]] = {}
        self._times: dict[RecordAt, int] = {}
        self._is_asking = False
        self._is_reading: set[str] = set()
        """Share groups whose offsets are being read."""

    def look(self, partition_of: FindPartition, now_ms: int, limit: int) -> list[GroupLag]:
        """At most `limit` of them."""
        here: list[tuple[Place, _Behind]] = []
        elsewhere: dict[Place, int] = {}
        for hosted in self._shards.hosted():
            group = hosted.group
            if isinstance(group, ShareGroup):
                self._maybe_read(group.group_id)
                here += self._read_of(group.group_id)
            for (topic, index), committed in hosted.offsets:
                if len(here) + len(elsewhere) >= limit:
                    break
                partition = partition_of(topic, index)
                place = (group.group_id, topic, index)
                if partition is None:
                    elsewhere[place] = committed.offset
                    continue
                records = max(partition.high_watermark - committed.offset, 0)
                here.append((place, _Behind(committed.offset, records)))
        self._forget(elsewhere)
        self._maybe_ask(elsewhere)
        known = [(place, self._elsewhere[place]) for place in elsewhere if place in self._elsewhere]
        return self._told([*here, *known][:limit], partition_of, now_ms)

    def _told(
        self, places: Iterable[tuple[Place, _Behind]], partition_of: FindPartition, now_ms: int
    ) -> list[GroupLag]:
        told: list[GroupLag] = []
        used: dict[RecordAt, int] = {}
        unknown: list[RecordAt] = []
        for (group_id, topic, index), behind in places:
            seconds: float | None = 0.0
            if behind.records:
                at = (topic, index, behind.offset)
                since_ms = self._times.get(at)
                if since_ms is None:
                    since_ms = _time_here(partition_of(topic, index), behind.offset)
                if since_ms is None:
                    unknown.append(at)
                    seconds = None
                else:
                    used[at] = since_ms
                    seconds = max(now_ms - since_ms, 0) / 1000 if since_ms >= 0 else None
            told.append(GroupLag(group_id, topic, index, behind.records, seconds))
        self._times = used
        self._ask_times(unknown)
        return told

    # -- partitions elsewhere ------------------------------------------------------------

    def _forget(self, elsewhere: dict[Place, int]) -> None:
        for place in [place for place in self._elsewhere if place not in elsewhere]:
            del self._elsewhere[place]

    def _maybe_ask(self, elsewhere: dict[Place, int]) -> None:
        ends = self._shares.ends
        if not elsewhere or self._is_asking or ends is None:
            return
        self._is_asking = True

        def on_ends(settled: Promise[Ends]) -> None:
            self._is_asking = False
            found = settled.value()
            self._elsewhere = {}
            for (group_id, topic, index), offset in elsewhere.items():
                end = found.get((topic, index))
                if type(end) is int:  # not an error code
                    behind = _Behind(offset, max(end - offset, 0))
                    self._elsewhere[group_id, topic, index] = behind

        ends.latest({(topic, index) for _, topic, index in elsewhere}).then(on_ends)

    def _ask_times(self, unknown: list[RecordAt]) -> None:
        ends = self._shares.ends
        if ends is None:
            return

        def on_time(at: RecordAt, settled: Promise[int | None]) -> None:
            time_ms = settled.value()
            if time_ms is not None:
                self._times[at] = time_ms

        for at in unknown[:TIMES_PER_ROUND_MAX]:
            ends.time_of(*at).then(lambda settled, at=at: on_time(at, settled))  # type: ignore[misc]

    # -- share groups --------------------------------------------------------------------

    def _maybe_read(self, group_id: str) -> None:
        if group_id in self._is_reading or self._shares.ends is None:
            return
        self._is_reading.add(group_id)

        def on_read(settled: Promise[list[ShareOffset] | Refused]) -> None:
            self._is_reading.discard(group_id)
            read = settled.value()
            self._shared[group_id] = [] if isinstance(read, Refused) else read

        self._shares.describe(group_id, None).then(on_read)

    def _read_of(self, group_id: str) -> list[tuple[Place, _Behind]]:
        return [
            ((group_id, each.topic, each.partition), _Behind(each.start_offset, each.lag))
            for each in self._shared.get(group_id, ())
            if not each.error and each.start_offset >= 0 and each.lag >= 0
        ]


def _time_here(partition: Partition | None, offset: int) -> int | None:
    """None if the record is not here."""
    if partition is None or offset >= partition.log.log_end_offset:
        return None
    try:
        return partition.log.time_near(offset)
    except StorageError:
        return None  # whoever reads there is told; this only counts
