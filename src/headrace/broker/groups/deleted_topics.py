"""What groups keep of a topic goes with it: committed offsets, and the states of share groups.

Owns: when that is. Must not know: how offsets (`commits`) and states (`share`) are kept and
forgotten, ages.

Three ways in which a deletion is learnt:
1. it is told while the group's shard is here: at once;
2. it is told while the shard is being loaded: once it is loaded, for a tombstone must not overtake
   the load;
3. nobody was here to be told: `vanished_topics`, now and then.
"""

from collections.abc import Callable, Collection, Iterable

from headrace.base.promise import Promise
from headrace.broker.groups.commits import Commits, sum_of
from headrace.broker.groups.offsets import TopicPartition
from headrace.broker.groups.shards import HostedGroup, Shard, Shards
from headrace.broker.groups.share.coordination import ShareGroups
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.vanished_topics import VanishedTopics
from headrace.cluster.image import ClusterImage


class DeletedTopics:
    def __init__(
        self,
        shards: Shards,
        commits: Commits,
        share: ShareGroups,
        image_source: Callable[[], ClusterImage],
    ) -> None:
        self._shards = shards
        self._commits = commits
        self._share = share
        self._vanished = VanishedTopics(image_source)

    def on_deleted(self, names: Iterable[str], topic_ids: Collection[bytes]) -> Promise[int]:
        """A promise of how many offsets were forgotten; it does not wait for what is loaded."""
        gone = frozenset(names)
        for shard in self._shards.loading_shards():
            self._forget_once_loaded(shard, gone, topic_ids)
        return self._forget_named(list(self._shards.hosted()), gone, topic_ids)

    def _forget_once_loaded(
        self, shard: Shard, gone: frozenset[str], topic_ids: Collection[bytes]
    ) -> None:
        def on_loaded(loaded: Promise[int]) -> None:
            if loaded.error is None:
                self._forget_named(list(shard.groups.values()), gone, topic_ids)

        shard.loaded.then(on_loaded)

    def _forget_named(
        self, among: list[HostedGroup], gone: frozenset[str], topic_ids: Collection[bytes]
    ) -> Promise[int]:
        def keys_of(hosted: HostedGroup) -> list[TopicPartition]:
            return [key for key in hosted.offsets.keys() if key[0] in gone]  # noqa: SIM118

        return self._forget(among, topic_ids, keys_of)

    def look(self) -> Promise[int]:
        """Now and then; a promise of how many offsets were forgotten."""
        among = list(self._shards.hosted())
        gone = self._vanished.look(topic_id for hosted in among for topic_id in _topics_of(hosted))

        def keys_of(hosted: HostedGroup) -> list[TopicPartition]:
            return [
                key
                for key, committed in hosted.offsets
                if committed.topic_id in gone and not _is_changing(hosted, key)
            ]

        return self._forget(among, gone, keys_of) if gone else Promise.resolved(0)

    def _forget(
        self,
        among: list[HostedGroup],
        topic_ids: Collection[bytes],
        keys_of: Callable[[HostedGroup], list[TopicPartition]],
    ) -> Promise[int]:
        self._share.forget_topics(among, topic_ids)
        deletions = []
        for hosted in among:
            keys = keys_of(hosted)
            if keys and not hosted.group.is_dead:
                deletions.append(self._commits.forget(hosted, keys))
        return sum_of(deletions)


def _topics_of(hosted: HostedGroup) -> Iterable[bytes]:
    """The ids of topics of which a group keeps something."""
    yield from {committed.topic_id for _, committed in hosted.offsets}
    if isinstance(hosted.group, ShareGroup):
        states = hosted.group.states
        yield from {**states.initializing, **states.initialized, **states.deleting}


def _is_changing(hosted: HostedGroup, key: TopicPartition) -> bool:
    return hosted.offsets.has_in_flight(*key) or hosted.offsets.has_pending(*key)
