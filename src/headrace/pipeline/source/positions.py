"""Offsets of many partitions as one value, and how a checkpoint keeps them.

Owns: that JSON. Must not know: Spark, clients. Spark compares checkpointed offsets as text, so the
JSON is made in one order: topics by name, partitions by number.

    {"topics": {"orders": {"id": "…", "partitions": {"0": 12, "1": 7}, "epochs": {"0": 3}}},
     "first": {"orders": {"0": 10, "1": 7}},
     "initial": true}

`id` tells a recreated topic. `epochs`, where they are known, are of the leaders that said that
their logs reach these offsets: they tell a log that was cut and has grown again. `first` is in the
end of a query's first batch alone: where that batch starts. Spark asks for the initial offset
again when it repeats a first batch that did not end; "latest" is another place by then, and the
repetition must read the same rows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.base.errors import UsageError

TopicPartition = tuple[str, int]
Offsets = dict[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Positions:
    """An offset for each partition, and the id of each topic."""

    offsets: Offsets
    topic_ids: dict[str, str] = field(default_factory=dict)
    first: Offsets | None = None
    is_initial: bool = False
    epochs: Offsets = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        topics: dict[str, dict[str, Any]] = {
            topic: {"id": self.topic_ids.get(topic, ""), "partitions": partitions}
            for topic, partitions in _nested(self.offsets).items()
        }
        for topic, epochs in _nested(self.epochs).items():
            topics[topic]["epochs"] = epochs
        made: dict[str, Any] = {"topics": topics}
        if self.first is not None:
            made["first"] = _nested(self.first)
        if self.is_initial:
            made["initial"] = True
        return made

    @classmethod
    def from_json(cls, text: Mapping[str, Any]) -> "Positions":
        topics = text.get("topics")
        if topics is None:
            raise UsageError(
                "the checkpoint's offsets are not those of format('headrace'): "
                "start with a new checkpoint, and startingOffsets where the old one ended"
            )
        first = text.get("first")
        return cls(
            offsets=dict(_flat({name: each["partitions"] for name, each in topics.items()})),
            topic_ids={name: each["id"] for name, each in topics.items()},
            first=None if first is None else dict(_flat(first)),
            is_initial=bool(text.get("initial", False)),
            epochs=dict(_flat({name: each.get("epochs", {}) for name, each in topics.items()})),
        )


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        nested.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return nested


def _flat(nested: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[TopicPartition, int]]:
    for topic, partitions in nested.items():
        for partition, offset in partitions.items():
            yield (topic, int(partition)), int(offset)
