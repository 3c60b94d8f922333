"""The topics of the cluster, as much of them as groups look at.

Owns: `Topics`, the view over an image, and the hash by which a group sees that its topics
have changed. Must not know: groups.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Protocol

from headrace.cluster.image import ClusterImage

NO_TOPICS_HASH = 0


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: bytes
    partition_count: int


class Topics(Protocol):
    def by_name(self, name: str) -> Topic | None: ...

    def name_of(self, topic_id: bytes) -> str | None: ...


class ImageTopics:
    """`Topics` over the committed metadata."""

    __slots__ = ("_image",)

    def __init__(self, image: ClusterImage) -> None:
        self._image = image

    def by_name(self, name: str) -> Topic | None:
        found = self._image.topics_by_name.get(name)
        if found is None:
            return None
        return Topic(name, found.topic_id, len(found.partitions))

    def name_of(self, topic_id: bytes) -> str | None:
        found = self._image.topics_by_id.get(topic_id)
        return None if found is None else found.name


def metadata_hash(topics: Topics, names: Iterable[str]) -> int:
    """A number that differs when one of the topics came, went, or grew; 64 bits with a sign."""
    found = [topic for name in sorted(names) if (topic := topics.by_name(name)) is not None]
    if not found:
        return NO_TOPICS_HASH
    digest = blake2b(digest_size=8)
    for topic in found:
        digest.update(topic.name.encode())
        digest.update(b"\0" + topic.topic_id + topic.partition_count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)
