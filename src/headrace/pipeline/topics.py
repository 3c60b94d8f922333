"""Which topics and partitions a pipeline follows, and where they begin and end.

Owns: the choice by name or pattern, the look for new partitions, and the estimate of how many
records fill a file. Must not know: Spark, when a batch starts.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.base.errors import HeadraceError
from headrace.base.ids import uuid_text
from headrace.pipeline.admission import records_per_file
from headrace.pipeline.errors import DataLost, made_again, regrown
from headrace.pipeline.log_client import LogClient
from headrace.pipeline.options import LogOptions
from headrace.pipeline.plan import (
    Positions,
    TopicPartition,
    positions_from_json,
    positions_to_json,
)

LOOK_INTERVAL_S = 10.0
"""How often new partitions and topics are looked for."""
SIZE_INTERVAL_S = 10.0
"""How often the size of records is estimated anew."""
SHORT_PATIENCE_S = 15.0
"""So long a log may seem to end before what was flushed of it, as behind a new leader."""
SHORT_POLL_S = 0.5
EARLIEST, LATEST = "earliest", "latest"


class MissingTopic(HeadraceError):
    """A topic that was named does not exist, or none fits the pattern."""


@dataclass(frozen=True, slots=True)
class TopicWatchOptions:
    log: LogOptions
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    starting: str = EARLIEST
    longest_wait_s: float = 60.0
    file_bytes: int = 128 * 1024 * 1024
    known: Positions = field(default_factory=dict)
    """Where earlier batches ended: there the pipeline goes on."""
    topic_ids: dict[str, str] = field(default_factory=dict)
    """Of the topics that earlier batches read."""
    bytes_per_record: dict[str, float] = field(default_factory=dict)
    """Of files written before, by topic."""
    leader_epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """Under which earlier batches ended, as far as it is known."""

    def to_json(self) -> str:
        content: dict[str, Any] = asdict(self)
        content["known"] = positions_to_json(self.known)
        content["leader_epochs"] = positions_to_json(self.leader_epochs)
        return json.dumps(content)

    @classmethod
    def from_json(cls, text: str) -> "TopicWatchOptions":
        content = json.loads(text)
        content["log"] = LogOptions(**content["log"])
        content["topics"] = tuple(content["topics"])
        content["known"] = positions_from_json(content["known"])
        content["leader_epochs"] = positions_from_json(content["leader_epochs"])
        return cls(**content)


class TopicWatch:
    def __init__(self, options: TopicWatchOptions) -> None:
        self._options = options
        self._client = LogClient(options.log)
        self._starts: Positions = {}
        self._ids: dict[str, str] = {}
        self._known_ids: dict[str, str] = dict(options.topic_ids)
        self._looked_s: float | None = None
        self._sizes: dict[str, float] = dict(options.bytes_per_record)
        self._sized_s: dict[str, float] = {}
        self._short_since_s: dict[tuple[str, int], float] = {}
        self._listed: dict[TopicPartition, tuple[int, int]] = {}
        """Ends and leader epochs, as last heard."""
        self._marks: dict[TopicPartition, tuple[int, int]] = {
            where: (options.known[where], epoch)
            for where, epoch in options.leader_epochs.items()
            if where in options.known
        }
        """Up to where was read under which epoch."""
        self._trusted: dict[TopicPartition, int] = {}
        """The leader epochs under which the marks were found to stand."""

    def close(self) -> None:
        self._client.close()

    def topic_ids(self) -> dict[str, str]:
        self._maybe_look()
        return self._ids

    def starts(self) -> Positions:
        """Where each partition begins for this pipeline."""
        self._maybe_look()
        return self._starts

    def latest(self) -> Positions:
        """The ends that may be read, of all partitions followed."""
        self._maybe_look()
        return self._list(sorted(self._starts))

    def _list(self, partitions: Sequence[TopicPartition]) -> Positions:
        found = self._client.latest_and_epochs(partitions)
        self._listed |= found
        return {where: end for where, (end, _) in found.items()}

    def check_not_cut(self, starts: Positions, latest: Positions) -> list[TopicPartition]:
        """Raises DataLost where a log ends before what was flushed of it, or did and grew again.

        A new leader may seem to for a moment, until its high watermark has come back: such
        partitions are returned.
        """
        short = []
        for where, end in latest.items():
            flushed = max(starts.get(where, 0), self._options.known.get(where, 0))
            if end < flushed:
                short.append(where)
                reason = "the log ends before what was flushed of it: it was truncated"
                self._raise_if_it_stays(DataLost(*where, flushed, end, reason))
        short += self._check_epochs([where for where in latest if where not in short])
        for where in latest.keys() - set(short):
            self._short_since_s.pop(where, None)
        return short

    def _check_epochs(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Raises DataLost where a log was cut below its mark; those that can't tell are returned.

        Only a new leader cuts a log: where the epoch is the one that was last found right there is
        nothing to ask.
        """
        asked: dict[TopicPartition, int] = {}
        for where in partitions:
            _, epoch = self._listed.get(where, (-1, -1))
            if where in self._marks and epoch >= 0:
                marked = self._marks[where][1]
                if epoch not in (marked, self._trusted.get(where)):
                    asked[where] = marked
        unknown = []
        for where, end in self._client.epoch_ends(asked).items() if asked else ():
            position, epoch = self._marks[where]
            if end < 0:
                # A leader of before that does not know of its successor yet, or an older disk.
                unknown.append(where)
                self._raise_if_it_stays(regrown(*where, position, epoch, end))
            elif end < position:
                raise regrown(*where, position, epoch, end)
            else:
                self._trusted[where] = self._listed[where][1]
        return unknown

    def _raise_if_it_stays(self, loss: DataLost) -> None:
        now_s = time.monotonic()
        since_s = self._short_since_s.setdefault((loss.topic, loss.partition), now_s)
        if now_s - since_s >= SHORT_PATIENCE_S:
            raise loss

    def not_cut(self, starts: Positions, latest: Positions) -> Positions:
        """`latest`, once no log ends before what was flushed of it; raises DataLost if one stays.

        For who looks only once: it could not tell a moment from a loss.
        """
        while short := self.check_not_cut(starts, latest):
            time.sleep(SHORT_POLL_S)
            latest = {**latest, **self._list(short)}
        return latest

    def mark(self, ends: Positions) -> None:
        """These ends are the next batch's: the leader that named them vouches for them."""
        for where, end in ends.items():
            if where not in self._marks or end > self._marks[where][0]:
                self._trusted.pop(where, None)
                heard, epoch = self._listed.get(where, (-1, -1))
                if epoch >= 0 and end <= heard:
                    self._marks[where] = (end, epoch)
                else:
                    self._marks.pop(where, None)

    def epochs_at(self, starts: Positions, ends: Positions) -> dict[TopicPartition, int]:
        """The leader epochs of marks at `ends`; those of a batch that is repeated are made now."""
        if not self._listed:
            self.not_cut(starts, self.latest())
            self.mark(ends)
        return {
            where: self._marks[where][1]
            for where, end in ends.items()
            if where in self._marks and self._marks[where][0] == end
        }

    def records_per_file(self, starts: Positions, ends: Positions) -> dict[str, int]:
        """By topic: how many records make a file of the size wanted."""
        rooms: dict[str, int] = {}
        for topic in sorted({topic for topic, _ in ends}):
            size = self._size_of(topic, starts, ends)
            if size is not None:
                rooms[topic] = records_per_file(self._options.file_bytes, size)
        return rooms

    def _size_of(self, topic: str, starts: Positions, ends: Positions) -> float | None:
        """Bytes a record in files if some were written, else in the log."""
        if topic in self._options.bytes_per_record:
            return self._options.bytes_per_record[topic]
        now_s = time.monotonic()
        if now_s - self._sized_s.get(topic, -SIZE_INTERVAL_S) < SIZE_INTERVAL_S:
            return self._sizes.get(topic)
        counts = {
            tp: end - starts.get(tp, 0)
            for tp, end in ends.items()
            if tp[0] == topic and end > starts.get(tp, 0)
        }
        if not counts:
            return self._sizes.get(topic)
        widest = max(counts, key=lambda tp: counts[tp])
        size_bytes = self._client.size_hint(widest, starts.get(widest, 0), ends[widest])
        if size_bytes:
            self._sizes[topic] = size_bytes / counts[widest]
            self._sized_s[topic] = now_s
        return self._sizes.get(topic)

    def _maybe_look(self) -> None:
        now_s = time.monotonic()
        if self._looked_s is not None and now_s - self._looked_s < LOOK_INTERVAL_S:
            return
        found = self._client.topics(self._topics())
        missing = [name for name in self._options.topics if name not in found]
        if missing:
            raise MissingTopic(f"topic {missing[0]} does not exist")
        self._ids.update({name: uuid_text(topic.topic_id) for name, topic in found.items()})
        self._check_ids()
        new = [
            (name, partition.index)
            for name, topic in sorted(found.items())
            for partition in topic.partitions
            if (name, partition.index) not in self._starts
        ]
        self._starts.update(self._starts_of(new))
        self._looked_s = now_s

    def _check_ids(self) -> None:
        """Offsets of a topic that was made again are of other records."""
        for topic, topic_id in self._ids.items():
            known = self._known_ids.setdefault(topic, topic_id)
            if known != topic_id:
                raise made_again(topic, known, topic_id, self._options.known | self._starts)

    def _topics(self) -> list[str]:
        options = self._options
        if options.pattern is None:
            return list(options.topics)
        found = list(self._client.topics_matching(pattern=options.pattern))
        if not found and self._looked_s is None:
            raise MissingTopic(f"no topic fits the pattern {options.pattern!r}")
        return found

    def _starts_of(self, new: list[tuple[str, int]]) -> Positions:
        known = self._options.known
        fresh = [tp for tp in new if tp not in known]
        # A partition that appears later has nothing before it: latest is only for the first look.
        is_first = self._looked_s is None and not known
        starts: Mapping[tuple[str, int], int] = {}
        if fresh and is_first and self._options.starting == LATEST:
            starts = self._client.latest(fresh)
        elif fresh:
            starts = self._client.earliest(fresh)
        return {tp: known[tp] if tp in known else starts[tp] for tp in new}
