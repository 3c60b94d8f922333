"""Where a query starts and stops, how much one trigger takes, and what is lost.

Owns: those decisions, as functions of options and of what `LogView` (the cluster's answers) says.
Must not know: Spark, time, connections. Each loss is a `DataLost`, or with failOnDataLoss=false a
warning and the nearest offset that is there.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Protocol

from headrace.base.errors import UsageError
from headrace.base.ids import uuid_text
from headrace.client.cluster import Topic, UnknownTopic
from headrace.pipeline.errors import DataLost, created_anew, cut_and_regrown
from headrace.pipeline.ranges import OffsetRange, split
from headrace.pipeline.source.positions import Offsets, Positions, TopicPartition
from headrace.pipeline.source.source_options import (
    EARLIEST,
    LATEST,
    Bound,
    Selection,
    SourceOptions,
)

logger = logging.getLogger(__name__)


class LogView(Protocol):
    """What planning asks; `log_client.LogClient` answers."""

    def topics_matching(
        self, subscribe: Iterable[str] | None = None, pattern: str | None = None
    ) -> list[str]: ...
    def topic_ids(self, names: Iterable[str] | None = None) -> dict[str, str]: ...
    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]: ...
    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets: ...
    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets: ...
    def latest_and_epochs(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]: ...
    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> Offsets: ...
    def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets: ...


def selected(
    log: LogView, selection: Selection, *, must_exist: bool = True
) -> tuple[list[TopicPartition], dict[str, str]]:
    """The partitions that are there now, and the ids of their topics."""
    if selection.pattern:
        names = log.topics_matching(pattern=selection.pattern)
    else:
        wanted = set(selection.subscribe) | {topic for topic, _ in selection.assign}
        names = log.topics_matching(sorted(wanted))
        if must_exist:
            for missing in sorted(wanted - set(names)):
                raise UnknownTopic(missing)
    topics = log.topics(names)
    ids = {name: uuid_text(topic.topic_id) for name, topic in topics.items()}
    found = [
        (name, partition.index) for name in sorted(topics) for partition in topics[name].partitions
    ]
    if not selection.assign:
        return found, ids
    absent = sorted(set(selection.assign) - set(found))
    if absent and must_exist:
        topic, partition = absent[0]
        raise UsageError(f"option assign: topic {topic} has no partition {partition}")
    return [where for where in selection.assign if where in set(found)], ids


def resolve(log: LogView, bound: Bound, partitions: list[TopicPartition], option: str) -> Offsets:
    """The offset of each partition that `bound` means."""
    if bound.timestamp_ms is not None:
        times = dict.fromkeys(partitions, bound.timestamp_ms)
        return _by_time(log, times, bound, option)
    if bound.timestamps_ms is not None:
        _must_cover(bound.timestamps_ms, partitions, f"{option}OffsetsByTimestamp")
        return _by_time(log, {w: bound.timestamps_ms[w] for w in partitions}, bound, option)
    if bound.offsets is not None:
        _must_cover(bound.offsets, partitions, f"{option}Offsets")
        wanted = {where: bound.offsets[where] for where in partitions}
    else:
        wanted = dict.fromkeys(partitions, bound.everywhere)
    first = log.earliest([where for where in partitions if wanted[where] == EARLIEST])
    last = log.latest([where for where in partitions if wanted[where] == LATEST])
    return wanted | first | last


def _must_cover(
    given: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str
) -> None:
    if set(given) != set(partitions):
        raise UsageError(
            f"option {option} must name each partition that is read, and no other: "
            f"it has {_names(given)}, there are {_names(partitions)}; "
            "-2 is earliest, -1 is latest"
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}-{partition}" for topic, partition in sorted(partitions)) or "none"


def _by_time(
    log: LogView, times: Mapping[TopicPartition, int], bound: Bound, option: str
) -> Offsets:
    found = log.offsets_for_times(times)
    late = [where for where, offset in found.items() if offset < 0]
    if late and not bound.is_late_time_latest:
        topic, partition = late[0]
        raise UsageError(
            f"no record of {topic}-{partition} is at or after {times[late[0]]}, where the "
            f"{option} timestamp is; startingOffsetsByTimestampStrategy=latest takes the end then"
        )
    return found | log.latest(late)


class Loss:
    """What happens when data is lost: an error, or a warning."""

    def __init__(self, *, is_fatal: bool) -> None:
        self.is_fatal = is_fatal

    def of(self, where: TopicPartition, wanted: int, available: int, reason: str) -> None:
        error = DataLost(where[0], where[1], wanted, available, reason)
        if self.is_fatal:
            raise error
        logger.warning("%s; failOnDataLoss is false: going on", error)


def continued(start: Positions, ids: Mapping[str, str], loss: Loss) -> Offsets:
    """Where `start` goes on in the topics of now: without those that are gone or are others."""
    kept: Offsets = {}
    gone: dict[str, str] = {}
    for topic, topic_id in start.topic_ids.items():
        if topic not in ids:
            gone[topic] = "the topic is no longer there, or no longer asked for"
        elif topic_id and ids[topic] != topic_id:
            gone[topic] = created_anew(topic_id, ids[topic])
    for where, offset in start.offsets.items():
        if where[0] in gone:
            loss.of(where, offset, -1, gone[where[0]])
        else:
            kept[where] = offset
    return kept


def next_end(
    log: LogView,
    options: SourceOptions,
    start: Positions,
    *,
    ceiling: Positions | None,
    rows_max: int | None,
    rows_min: int | None,
) -> Positions | None:
    """The end of the next batch; None if fewer than `rows_min` rows are there.

    `ceiling` is the end of a query that stops there (Trigger.AvailableNow): what was not there
    when it started is left for the next one.
    """
    loss = Loss(is_fatal=options.fail_on_data_loss)
    partitions, ids = selected(log, options.selection, must_exist=False)
    begins = continued(start, ids, loss)
    if ceiling is not None:
        partitions = [where for where in partitions if where in ceiling.offsets or where in begins]
    absent = [where for where in begins if where not in set(partitions)]
    for where in absent:
        loss.of(where, begins.pop(where), -1, "the partition is no longer there")
    begins |= _new_begins(log, [where for where in partitions if where not in begins], loss)
    listed = log.latest_and_epochs(partitions)
    ends = {where: end for where, (end, _) in listed.items()}
    for where, begin in begins.items():
        if ceiling is not None:
            ends[where] = min(ends[where], max(ceiling.offsets.get(where, begin), begin))
        if ends[where] < begin:
            loss.of(where, begin, ends[where], f"the log ends at {ends[where]}: it was truncated")
    uncut = {where for where, begin in begins.items() if ends[where] >= begin}
    _check_epochs(log, start, {where: listed[where][1] for where in uncut}, loss)
    available = sum(max(0, ends[where] - begin) for where, begin in begins.items())
    if rows_min is not None and available < rows_min:
        return None
    if rows_max is not None and available > rows_max:
        ends = admitted(begins, ends, rows_max)
    topics = {topic for topic, _ in ends}
    first = dict(start.offsets) if start.is_initial else None
    epochs = {
        # An end that stays keeps its leader: Spark compares offsets as text.
        where: listed[where][1] if end > begins.get(where, -1) else start.epochs.get(where, -1)
        for where, end in ends.items()
    }
    known = {where: epoch for where, epoch in epochs.items() if epoch >= 0}
    return Positions(ends, {topic: ids[topic] for topic in sorted(topics)}, first, epochs=known)


def _check_epochs(log: LogView, start: Positions, now: Offsets, loss: Loss) -> None:
    """Logs that were cut below `start` and reach beyond it again. Only a new leader cuts a log."""
    asked = {
        where: start.epochs[where]
        for where, epoch in now.items()
        if epoch >= 0 and where in start.epochs and start.epochs[where] != epoch
    }
    for where, end in log.epoch_ends(asked).items() if asked else ():
        position = start.offsets[where]
        if end < position:
            loss.of(where, position, end, cut_and_regrown(position, asked[where], end))


def _new_begins(log: LogView, new: list[TopicPartition], loss: Loss) -> Offsets:
    """A partition that appears while a query runs is read from its first record."""
    earliest = log.earliest(new)
    for where, offset in earliest.items():
        if offset > 0:
            loss.of(where, 0, offset, f"the new partition begins at {offset}: records are deleted")
    return earliest


def admitted(begins: Offsets, ends: Offsets, rows_max: int) -> Offsets:
    """Ends so that at most `rows_max` offsets are taken, of each partition its share.

    A partition with anything to read gets at least one while there is room, so that none starves
    behind a large neighbour.
    """
    sizes = {where: ends[where] - begin for where, begin in begins.items() if ends[where] > begin}
    total = sum(sizes.values())
    if total <= rows_max:
        return ends
    given = {where: max(1, size * rows_max // total) for where, size in sizes.items()}
    spare = rows_max - sum(given.values())
    # Largest first: they give when the small ones' minimum was too much, and take what is left.
    order = sorted(sizes, key=lambda where: (-sizes[where], where))
    while spare != 0:
        before = spare
        for where in order:
            if spare > 0 and given[where] < sizes[where]:
                given[where] += 1
                spare -= 1
            elif spare < 0 and given[where] > (1 if len(order) <= rows_max else 0):
                given[where] -= 1
                spare += 1
        if spare == before:
            break
    return ends | {where: begins[where] + count for where, count in given.items()}


def ranges_between(
    log: LogView, options: SourceOptions, start: Positions, end: Positions
) -> list[OffsetRange]:
    """What the tasks of the batch from `start` to `end` read."""
    loss = Loss(is_fatal=options.fail_on_data_loss)
    begins = start.offsets
    if start.is_initial and end.first is not None:
        begins = end.first
    whole = []
    for where, stop in sorted(end.offsets.items()):
        begin = begins.get(where, 0)
        if start.topic_ids.get(where[0], "") not in ("", end.topic_ids.get(where[0], "")):
            begin = 0
        whole.append(OffsetRange(*where, begin, stop, end.topic_ids.get(where[0], "")))
    return divided(options, checked(log, [each for each in whole if each.count], loss))


def checked(log: LogView, ranges: list[OffsetRange], loss: Loss) -> list[OffsetRange]:
    """The ranges, cut to what their logs still have; before any task starts, and with reason."""
    there = log.topic_ids(sorted({each.topic for each in ranges})) if ranges else {}
    for each in ranges:
        if there.get(each.topic) != each.topic_id and each.topic_id:
            known = there.get(each.topic)
            reason = (
                "the topic is no longer there"
                if known is None
                else created_anew(each.topic_id, known)
            )
            loss.of(each.where, each.start, -1, reason)
    ranges = [
        each for each in ranges if not each.topic_id or there.get(each.topic) == each.topic_id
    ]
    earliest = log.earliest([each.where for each in ranges])
    cut = []
    for each in ranges:
        begin = earliest[each.where]
        if each.start < begin:
            reason = f"the log begins at {begin} now: retention passed the checkpoint"
            loss.of(each.where, each.start, begin, reason)
            each = replace(each, start=min(begin, each.end))
        cut.append(each)
    return [each for each in cut if each.count]


def divided(options: SourceOptions, ranges: list[OffsetRange]) -> list[OffsetRange]:
    """As many tasks as minPartitions and maxRecordsPerPartition ask for."""
    wanted = max(options.min_partitions, len(ranges))
    if options.records_per_partition_max:
        total = sum(each.count for each in ranges)
        wanted = max(wanted, -(-total // options.records_per_partition_max))
    return split(ranges, wanted)
