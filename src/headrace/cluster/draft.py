"""A decision in the making: its records, and the partitions as they will be after them.

Owns: `Draft`. A request may name a partition twice; the second time is decided on what the first
left, as if they had come one after the other.
"""

from headrace.cluster.decision import Records
from headrace.cluster.image import ClusterImage, PartitionImage
from headrace.cluster.registrations import partition_after
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord


class Draft:
    def __init__(self, image: ClusterImage) -> None:
        self.records: Records = []
        self._image = image
        self._changed: dict[tuple[bytes, int], PartitionImage] = {}

    def partition(self, topic_id: bytes, index: int) -> PartitionImage | None:
        changed = self._changed.get((topic_id, index))
        return self._image.partition(topic_id, index) if changed is None else changed

    def add(self, before: PartitionImage, record: PartitionChangeRecord | None) -> PartitionImage:
        """The partition after the record, which may be none."""
        if record is None:
            return before
        after = partition_after(before, record)
        self._changed[bytes(record.topic_id), before.index] = after
        self.records.append(record)
        return after
