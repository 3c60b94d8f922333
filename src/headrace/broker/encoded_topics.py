"""Topics as Metadata answers show them, encoded once and sent until something changes.

Owns: the encoded bytes, by version and listener, and whether they still hold.
Must not know: requests, connections, records.

Nobody has to say what changed: an entry holds if the topic and its partitions are the very
objects that it was made of (they are frozen and changed by replacement), and all entries of a
view hold as long as the brokers are the same and the same are reachable. To look costs about a
tenth of a microsecond for each partition; to encode it anew ten times as much, so that is done in
steps where there is much of it.

Invariant: what is given out is what encoding it anew would give.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.cluster.image import (
    NO_LEADER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.hot_metadata import LAST_TOPIC_LAYOUT, TopicLayout

_VIEWS_MAX = 16
"""Versions and listeners that are remembered; of others the least used is forgotten."""
_ROWS_KEPT_MIN = 64
"""In a topic with so many partitions a change of one does not encode the others anew."""
_LEFTOVERS_MAX = 1_000
"""Entries of deleted topics before they are looked for."""
_STEP_PARTITIONS = 2_000
"""Partitions that are encoded in one turn of the loop."""
_LISTENER_ERROR_SINCE = 6

_Placement = tuple[tuple[int, ...], tuple[bytes, ...]]


class _Entry(NamedTuple):
    topic: TopicImage
    partitions: Sequence[PartitionImage]
    rows: list[bytes] | None
    encoded: bytes


class TopicView:
    """How clients of one listener see topics in one version."""

    def __init__(self, version: int) -> None:
        self.layout = TopicLayout(version)
        self._image = ClusterImage()
        # Older clients do not know the listener's error and take the other for it.
        known = version >= _LISTENER_ERROR_SINCE
        self._unreachable = int(
            ErrorCode.LISTENER_NOT_FOUND if known else ErrorCode.LEADER_NOT_AVAILABLE
        )
        self._entries: dict[bytes, _Entry] = {}
        self._reachable: frozenset[int] = frozenset()
        self._brokers: dict[int, BrokerImage] = {}
        self._offline: dict[_Placement, list[int]] = {}
        """Replicas out of service, by where replicas lie: few answers for many partitions."""

    def follow(self, image: ClusterImage, reachable: frozenset[int]) -> None:
        """Forget what no longer holds because brokers came, went or changed."""
        self._image = image
        if reachable != self._reachable or image.brokers != self._brokers:
            self._entries.clear()
            self._offline.clear()
            self._reachable, self._brokers = reachable, dict(image.brokers)
        elif len(self._entries) > len(image.topics_by_id) + _LEFTOVERS_MAX:
            known = image.topics_by_id
            self._entries = {key: e for key, e in self._entries.items() if key in known}
            self._offline.clear()

    def encoding(self, image: ClusterImage) -> Iterator[None]:
        """Encode what is not, or no longer, in bounded steps. The image may change meanwhile."""
        left = _STEP_PARTITIONS
        for topic in list(image.topics_by_name.values()):
            entry = self._entries.get(topic.topic_id)
            if entry is None or not _holds(entry, topic):
                self.encoded(topic)
                left -= len(topic.partitions) + 1
                if left <= 0:
                    yield
                    left = _STEP_PARTITIONS

    def encoded(self, topic: TopicImage) -> bytes:
        """The topic without its end."""
        entry = self._entries.get(topic.topic_id)
        if entry is None or not _holds(entry, topic):
            entry = self._entries[topic.topic_id] = self._encode(topic, entry)
        return entry.encoded

    def _encode(self, topic: TopicImage, before: _Entry | None) -> _Entry:
        partitions = topic.partitions[:]
        if before is not None and before.rows is not None:
            known = {id(p): row for p, row in zip(before.partitions, before.rows, strict=True)}
            rows = [known.get(id(p)) or self._row(p) for p in partitions]
        else:
            rows = [self._row(partition) for partition in partitions]
        start = self.layout.topic_start(
            0, topic.name, topic.topic_id, topic.is_internal, len(partitions)
        )
        kept = rows if len(rows) >= _ROWS_KEPT_MIN else None
        return _Entry(topic, partitions, kept, start + b"".join(rows))

    def _row(self, partition: PartitionImage) -> bytes:
        leader = partition.leader
        error = 0
        if leader == NO_LEADER:
            error = int(ErrorCode.LEADER_NOT_AVAILABLE)
        elif leader not in self._reachable:
            error, leader = self._unreachable, NO_LEADER
        placement = (partition.replicas, partition.directories)
        offline = self._offline.get(placement)
        if offline is None:
            offline = self._offline[placement] = self._image.offline_replicas(partition)
        return self.layout.partition(
            error,
            partition.index,
            leader,
            partition.leader_epoch,
            partition.replicas,
            partition.isr,
            offline,
        )


def _holds(entry: _Entry, topic: TopicImage) -> bool:
    # Lists compare their items by identity first: this is fast where nothing changed.
    return entry.topic is topic and entry.partitions == topic.partitions


class EncodedTopics:
    def __init__(self) -> None:
        self._views: OrderedDict[tuple[int, str], TopicView] = OrderedDict()

    def view(
        self, image: ClusterImage, version: int, listener_name: str, reachable: frozenset[int]
    ) -> TopicView:
        """`reachable`: the brokers that clients of this listener are told of."""
        key = (min(version, LAST_TOPIC_LAYOUT), listener_name)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = TopicView(key[0])
            if len(self._views) > _VIEWS_MAX:
                self._views.popitem(last=False)
        else:
            self._views.move_to_end(key)
        view.follow(image, reachable)
        return view
