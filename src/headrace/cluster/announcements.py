"""What the controller's log says of decisions that matter to the people who run the cluster.

Owns: which records are news, and their words. Must not know: when they are committed (whoever
announces).

An unclean election is a warning of its own: it may have lost records that were acknowledged.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headrace.base.events import EventLog
from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.cluster.partition_change import is_unclean
from headrace.wire.kafka.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

UNCLEAN_ELECTION = "unclean_leader_election"
LEADERS_ELECTED = "leaders_elected"


class Elections(NamedTuple):
    """What was announced, counted."""

    leaders: int = 0
    """Partitions that got another leader."""
    unclean: int = 0
    """Those among them whose leader was not in sync."""


class Announcement(NamedTuple):
    event: str
    fields: dict[str, object]
    is_warning: bool = False


def announcements_of(image: ClusterImage, records: Iterable[Any]) -> Iterator[Announcement]:
    """The news in records that are about to be replayed into `image`."""
    moved = offline = 0
    for record in records:
        if isinstance(record, PartitionChangeRecord):
            moved += _moves_leader(image, record)
            offline += record.leader == NO_LEADER
            unclean = _unclean_election(image, record)
            if unclean is not None:
                yield unclean
        else:
            yield from _of_node(record)
    if moved:
        yield Announcement(LEADERS_ELECTED, {"partitions": moved})
    if offline:
        yield Announcement("partitions_offline", {"partitions": offline}, is_warning=True)


def _moves_leader(image: ClusterImage, record: PartitionChangeRecord) -> bool:
    """A leader that stays may begin a new epoch: that is no election."""
    if record.leader < 0:
        return False
    before = image.partition(bytes(record.topic_id), record.partition_id)
    return before is None or before.leader != record.leader


def _unclean_election(image: ClusterImage, record: PartitionChangeRecord) -> Announcement | None:
    topic = image.topics_by_id.get(bytes(record.topic_id))
    before = image.partition(bytes(record.topic_id), record.partition_id)
    if topic is None or before is None or not is_unclean(before, record):
        return None
    return Announcement(
        UNCLEAN_ELECTION,
        {
            "topic": topic.name,
            "partition": record.partition_id,
            "leader": record.leader,
            "isr_before": ",".join(map(str, before.isr)),
            "leader_epoch": before.leader_epoch + 1,
            "note": "acknowledged records may be lost",
        },
        is_warning=True,
    )


def _of_node(record: Any) -> Iterator[Announcement]:
    match record:
        case RegisterBrokerRecord():
            yield Announcement(
                "broker_registered",
                {"broker": record.broker_id, "broker_epoch": record.broker_epoch},
            )
        case UnregisterBrokerRecord():
            yield Announcement("broker_unregistered", {"broker": record.broker_id})
        case RegisterControllerRecord():
            yield Announcement("controller_registered", {"controller": record.controller_id})
        case FeatureLevelRecord():
            yield Announcement(
                "feature_finalized", {"feature": record.name, "level": record.feature_level}
            )
        case BrokerRegistrationChangeRecord():
            yield from _of_broker_change(record)


def _of_broker_change(record: BrokerRegistrationChangeRecord) -> Iterator[Announcement]:
    fields: dict[str, object] = {"broker": record.broker_id, "broker_epoch": record.broker_epoch}
    if record.fenced > 0:
        yield Announcement("broker_fenced", fields, is_warning=True)
    elif record.fenced < 0:
        yield Announcement("broker_unfenced", fields)
    if record.in_controlled_shutdown:
        yield Announcement("broker_shutting_down", fields)
    if record.log_dirs:
        yield Announcement("broker_lost_directory", fields, is_warning=True)


def announce(events: EventLog, news: Iterable[Announcement]) -> Elections:
    """Say them; the elections among them."""
    leaders = unclean = 0
    for announcement in news:
        unclean += announcement.event == UNCLEAN_ELECTION
        if announcement.event == LEADERS_ELECTED:
            leaders += int(str(announcement.fields["partitions"]))
        say = events.warning if announcement.is_warning else events.info
        say(announcement.event, **announcement.fields)
    return Elections(leaders, unclean)
