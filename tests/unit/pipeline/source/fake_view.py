"""A log that is only its numbers, for planning."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.base.ids import uuid_text
from headrace.client.cluster import Partition, Topic

TopicPartition = tuple[str, int]


@dataclass
class FakeView:
    """`bounds` are the first offset and the end of each partition; `times` are of records."""

    bounds: dict[TopicPartition, tuple[int, int]]
    ids: dict[str, bytes] = field(default_factory=dict)
    times: dict[TopicPartition, list[int]] = field(default_factory=dict)
    epoch: int = 3
    ended: dict[int, int] = field(default_factory=dict)
    """Where the epochs of earlier leaders ended."""
    asked: list[dict[TopicPartition, int]] = field(default_factory=list)

    def id_of(self, topic: str) -> bytes:
        return self.ids.get(topic, topic.encode().ljust(16, b"-"))

    def id_text(self, topic: str) -> str:
        return uuid_text(self.id_of(topic))

    def topics_matching(
        self, subscribe: Iterable[str] | None = None, pattern: str | None = None
    ) -> list[str]:
        names = sorted({topic for topic, _ in self.bounds})
        if subscribe is not None:
            return [name for name in names if name in set(subscribe)]
        return [name for name in names if re.fullmatch(pattern or "", name)]

    def topics(self, names: Iterable[str] | None) -> dict[str, Topic]:
        wanted = self.topics_matching(names) if names is not None else []
        return {
            name: Topic(
                name,
                self.id_of(name),
                False,
                tuple(
                    Partition(index, 1, 0, (1,), (1,), 0)
                    for topic, index in sorted(self.bounds)
                    if topic == name
                ),
            )
            for name in wanted
        }

    def topic_ids(self, names: Iterable[str] | None = None) -> dict[str, str]:
        return {name: uuid_text(topic.topic_id) for name, topic in self.topics(names).items()}

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self.bounds[where][0] for where in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self.bounds[where][1] for where in partitions}

    def latest_and_epochs(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, tuple[int, int]]:
        return {where: (end, self.epoch) for where, end in self.latest(partitions).items()}

    def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        self.asked.append(dict(epochs))
        return {where: self.ended[epoch] for where, epoch in epochs.items()}

    def offsets_for_times(
        self, timestamps_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        found = {}
        for where, timestamp in timestamps_ms.items():
            later = [i for i, time in enumerate(self.times[where]) if time >= timestamp]
            found[where] = self.bounds[where][0] + later[0] if later else -1
        return found
