"""The share-partitions that this broker leads, and the sessions of their members.

Owns: which share-partitions are hosted, when they come and go, what happens when a session ends.
Must not know: requests (`fetching`, `acknowledging`), transitions (`partition`).

A share-partition is made by the first fetch that wants it, and forgotten when this broker leads
its partition no more, in another epoch, when the topic is gone, or with the group's last session
here: an empty group may be reset or deleted by its coordinator, of which nobody tells us.
"""

from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.broker.share.hosted import HostedSharePartition
from headrace.broker.share.metrics import ShareMetrics
from headrace.broker.share.persister import SharePartitionKey
from headrace.broker.share.sessions import PartitionKey, SessionKey, ShareSessions
from headrace.broker.share.settings import ShareSettings
from headrace.cluster.image import RESOURCE_GROUP
from headrace.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.share.fetching import ShareFetch


class ShareDelivery:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.metrics = ShareMetrics()
        self.sessions = ShareSessions(int(broker.config["group.share.max.share.sessions"]))
        self._hosted: dict[PartitionKey, dict[str, HostedSharePartition]] = {}
        self._settings: dict[str, ShareSettings] = {}
        self.waiting: dict[ShareFetch, None] = {}
        """Fetches that were not answered yet, the longest waiting first."""

    def settings(self, group_id: str) -> ShareSettings:
        settings = self._settings.get(group_id)
        if settings is None:
            broker = self._broker
            overrides = broker.image.configs.get((RESOURCE_GROUP, group_id), {})
            settings = ShareSettings.of_group(broker.config, overrides)
            if self.sessions.has_group(group_id):  # as many as there are groups here
                self._settings[group_id] = settings
        return settings

    def on_configs_changed(self) -> None:
        """The broker's or a group's."""
        self._settings.clear()

    # -- share-partitions --------------------------------------------------------------------

    def all(self) -> list[HostedSharePartition]:
        return [hosted for groups in self._hosted.values() for hosted in groups.values()]

    def find(self, group_id: str, partition: Partition) -> HostedSharePartition | None:
        """One that is current; None if nobody fetched of it since we lead."""
        groups = self._hosted.get((partition.topic_id, partition.index))
        hosted = None if groups is None else groups.get(group_id)
        if hosted is not None and not hosted.is_current:
            hosted.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return None
        return hosted

    def find_or_load(self, group_id: str, partition: Partition) -> HostedSharePartition:
        hosted = self.find(group_id, partition)
        if hosted is not None:
            hosted.closes_when_kept = False
            return hosted
        broker = self._broker
        hosted = HostedSharePartition(
            SharePartitionKey(group_id, partition.topic_id, partition.index),
            partition,
            lambda: self.settings(group_id),
            broker.share_persister,
            broker.clock,
            broker.timers,
            self.metrics,
            self._forget,
        )
        groups = self._hosted.setdefault((partition.topic_id, partition.index), {})
        groups[group_id] = hosted
        hosted.load()
        return hosted

    def _forget(self, hosted: HostedSharePartition) -> None:
        key = (hosted.key.topic_id, hosted.key.partition)
        groups = self._hosted.get(key, {})
        if groups.get(hosted.key.group_id) is hosted:
            del groups[hosted.key.group_id]
            if not groups:
                del self._hosted[key]

    def on_role(self, partition: Partition) -> None:
        """The partition is led by another broker, or by us in another epoch."""
        groups = self._hosted.get((partition.topic_id, partition.index), {})
        for hosted in list(groups.values()):
            hosted.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def on_topics_deleted(self) -> None:
        topics = self._broker.image.topics_by_id
        for hosted in self.all():
            if hosted.key.topic_id not in topics:
                hosted.close(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    # -- the ends of sessions ------------------------------------------------------------------

    def end_session(self, key: SessionKey) -> None:
        """What the member holds may be had by others."""
        self.sessions.remove(key)
        group_id, member_id = key
        is_last = not self.sessions.has_group(group_id)
        if is_last:
            self._settings.pop(group_id, None)
        for groups in list(self._hosted.values()):
            hosted = groups.get(group_id)
            if hosted is not None:
                hosted.release_member(member_id)
                if is_last:
                    hosted.close_when_kept()

    def on_member_left(self, group_id: str, member_id: str) -> None:
        """Its group's coordinator says so: it left, or was silent for too long."""
        self.end_session((group_id, member_id))

    def on_disconnected(self, connection_id: int) -> None:
        for fetch in [each for each in self.waiting if each.connection_id == connection_id]:
            fetch.cancel()
        for key in self.sessions.of_connection(connection_id):
            self.end_session(key)

    def shutdown(self) -> None:
        """Waiting fetches are answered with what there is: nothing."""
        for fetch in list(self.waiting):
            fetch.complete_now()
        for hosted in self.all():
            hosted.close(ErrorCode.NOT_LEADER_OR_FOLLOWER)
