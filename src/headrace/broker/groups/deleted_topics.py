"""Offsets go with their topics.

Owns: which committed offsets are of topics that there are no more. Must not know: how offsets are
kept and forgotten (`commits`), ages.

Three ways in which a deletion is learnt:
1. it is told while the group's shard is here: the offsets go at once;
2. it is told while the shard is being loaded: they go once it is loaded, for a tombstone must not
   overtake the load;
3. nobody was here to be told, the coordinator was down or on its way: the offsets name the id of a
   topic that the image does not have. They go when that is so at two looks in a row, and never by
   an image that knows less than one before it: read anew, it is short of topics for a while.
"""

from collections.abc import Callable, Iterable

from headrace.base.promise import Promise
from headrace.broker.groups.commits import Commits, sum_of
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.groups.shards import HostedGroup, Shard, Shards
from headrace.cluster.image import ClusterImage

Place = tuple[str, str, int]
"""Group id, topic and partition."""


class DeletedTopics:
    def __init__(
        self, shards: Shards, commits: Commits, image_source: Callable[[], ClusterImage]
    ) -> None:
        self._shards = shards
        self._commits = commits
        self._image_source = image_source
        self._vanished: dict[Place, bytes] = {}
        """Offsets whose topic was gone at the last look, with its id."""
        self._image_offset = -1
        """Up to where the image went at the last look."""

    def on_deleted(self, names: Iterable[str]) -> Promise[int]:
        """A promise of how many offsets were forgotten; it does not wait for what is loaded."""
        gone = frozenset(names)
        for shard in self._shards.loading():
            self._forget_once_loaded(shard, gone)
        return self._forget(self._shards.hosted(), gone)

    def _forget_once_loaded(self, shard: Shard, gone: frozenset[str]) -> None:
        def on_loaded(loaded: Promise[int]) -> None:
            if loaded.error is None:
                self._forget(list(shard.groups.values()), gone)

        shard.loaded.then(on_loaded)

    def _forget(self, among: Iterable[HostedGroup], gone: frozenset[str]) -> Promise[int]:
        deletions = []
        for hosted in among:
            keys = [key for key in hosted.offsets.keys() if key[0] in gone]  # noqa: SIM118
            if keys and not hosted.group.is_dead:
                deletions.append(self._commits.forget(hosted, keys))
        return sum_of(deletions)

    def look(self) -> Promise[int]:
        """Now and then; a promise of how many offsets were forgotten."""
        image = self._image_source()
        if image.last_offset < self._image_offset:
            return Promise.resolved(0)
        self._image_offset = image.last_offset
        before, self._vanished = self._vanished, {}
        deletions = []
        for hosted in self._shards.hosted():
            gone = self._look_at(hosted, image, before)
            keys = [key for key in gone if not _is_changing(hosted, key)]
            if keys and not hosted.group.is_dead:
                deletions.append(self._commits.forget(hosted, keys))
        return sum_of(deletions)

    def _look_at(
        self, hosted: HostedGroup, image: ClusterImage, before: dict[Place, bytes]
    ) -> list[TopicPartition]:
        """What is gone now as it was before."""
        found = []
        for key, committed in hosted.offsets:
            topic_id = committed.topic_id
            if not any(topic_id) or topic_id in image.topics_by_id:
                continue
            place = (hosted.group.group_id, *key)
            self._vanished[place] = topic_id
            if before.get(place) == topic_id:
                found.append(key)
        return found


def _is_changing(hosted: HostedGroup, key: TopicPartition) -> bool:
    return hosted.offsets.has_in_flight(*key) or hosted.offsets.has_pending(*key)
