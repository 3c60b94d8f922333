"""A share group in its place: found, and changed only by what the log keeps.

Owns: the way from a group id to its share group, and `accept`: a decision's records are appended
and replayed at once, so that the next decision sees them; its answer waits until they are kept, as
in consumer groups (`consumer.coordination`). Must not know: what is decided, the persister.
"""

from collections.abc import Callable
from typing import TypeVar

from headrace.base.promise import Promise
from headrace.broker.groups.consumer.topics import ImageTopics
from headrace.broker.groups.group import Group
from headrace.broker.groups.shards import HostedGroup, Shards
from headrace.broker.groups.share.group import ShareGroup
from headrace.broker.groups.share.heartbeat import ShareDecision, ShareWorld
from headrace.broker.groups.share.member import Refused
from headrace.broker.groups.share.partitions import StatePartitions
from headrace.broker.groups.share.records import encode, state_record
from headrace.broker.groups.store import group_error
from headrace.cluster.image import RESOURCE_GROUP, ClusterImage
from headrace.wire.kafka.errors import ErrorCode

A = TypeVar("A")


class ShareHosting:
    def __init__(self, shards: Shards, image_source: Callable[[], ClusterImage]) -> None:
        self.shards = shards
        self.image_source = image_source

    def world(self, group_id: str) -> ShareWorld:
        image = self.image_source()
        settings = self.shards.settings.share
        overrides = image.configs.get((RESOURCE_GROUP, group_id))
        if overrides:
            settings = settings.of_group(overrides)
        return ShareWorld(ImageTopics(image), settings)

    def group_of(
        self, group_id: str, *, is_joining: bool = False
    ) -> tuple[HostedGroup, ShareGroup]:
        """The share group that is there, or a new one that a member brings. Raises `Refused`."""
        find = self.shards.find_or_create if is_joining else self.shards.find
        hosted = find(group_id)
        if isinstance(hosted, ErrorCode):
            if hosted is ErrorCode.GROUP_ID_NOT_FOUND:
                raise Refused(hosted, f"Share group {group_id} not found.")
            raise Refused(hosted, hosted.message)
        group = hosted.group
        if isinstance(group, ShareGroup):
            if group.is_dead:
                raise Refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The group is being deleted.")
            return hosted, group
        if is_joining and isinstance(group, Group) and _is_unused(hosted, group):
            return hosted, ShareGroup(group_id)
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")

    def accept(
        self,
        hosted: HostedGroup,
        group: ShareGroup,
        decision: ShareDecision[A],
        on_accepted: Callable[[], None] = lambda: None,
    ) -> Promise[ErrorCode]:
        """Write a decision: from here on the group is what it says, and once kept it is told."""
        appended = hosted.last_write
        if decision.records:
            records = [encode(record) for record in decision.records]
            appended = self.shards.append(hosted.shard, records)
            if appended.settled and appended.value():
                self.shards.forget_if_unused(hosted)
                return Promise.resolved(group_error(appended.value()))
        for record in decision.records:
            group.replay(record)
        hosted.group = group
        if decision.is_refreshed:
            group.is_refresh_due = False
        on_accepted()
        if decision.records:
            hosted.last_write = appended
            self._reload_if_lost(hosted, appended)
        self.shards.arm(hosted)
        return appended.map(group_error)

    def _reload_if_lost(self, hosted: HostedGroup, appended: Promise[int]) -> None:
        def on_appended(settled: Promise[int]) -> None:
            if settled.value():
                self.shards.reload(hosted.shard)

        appended.then(on_appended)

    def accept_states(
        self, hosted: HostedGroup, group: ShareGroup, states: StatePartitions
    ) -> Promise[ErrorCode]:
        """The same for a change of nothing but what has a state."""
        records = [] if states == group.states else [state_record(group.group_id, states)]
        return self.accept(hosted, group, ShareDecision(None, records))


def _is_unused(hosted: HostedGroup, group: Group) -> bool:
    """Made for whoever asked just now: no classic group that somebody uses."""
    return group.is_forgotten and hosted.offsets.is_empty
