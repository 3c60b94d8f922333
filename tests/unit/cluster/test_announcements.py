"""What the controller's log says of records."""

from typing import Any

import pytest
from tests.unit.cluster.images import TOPIC_ID, image_of

from headrace.base.events import EventLog
from headrace.cluster.announcements import Elections, announce, announcements_of
from headrace.cluster.image import ClusterImage
from headrace.testing.clock import SimulatedClock
from headrace.wire.kafka.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

NO_ELECTION = Elections()


def said(image: ClusterImage, *records: Any) -> tuple[list[str], Elections]:
    lines: list[str] = []
    events = EventLog(lines.append, SimulatedClock())
    elections = announce(events, announcements_of(image, records))
    return [line.split(" ", 1)[1].strip() for line in lines], elections


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (
            RegisterBrokerRecord(broker_id=7, broker_epoch=9),
            "level=info event=broker_registered broker=7 broker_epoch=9",
        ),
        (UnregisterBrokerRecord(broker_id=7), "level=info event=broker_unregistered broker=7"),
        (
            RegisterControllerRecord(controller_id=7),
            "level=info event=controller_registered controller=7",
        ),
        (
            FeatureLevelRecord(name="f", feature_level=2),
            "level=info event=feature_finalized feature=f level=2",
        ),
        (
            BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=9, fenced=1),
            "level=warning event=broker_fenced broker=7 broker_epoch=9",
        ),
        (
            BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=9, fenced=-1),
            "level=info event=broker_unfenced broker=7 broker_epoch=9",
        ),
        (
            BrokerRegistrationChangeRecord(broker_id=7, in_controlled_shutdown=1),
            "level=info event=broker_shutting_down broker=7 broker_epoch=0",
        ),
        (
            BrokerRegistrationChangeRecord(broker_id=7, log_dirs=[b"d" * 16]),
            "level=warning event=broker_lost_directory broker=7 broker_epoch=0",
        ),
    ],
)
def test_news_of_nodes(record: Any, line: str) -> None:
    assert said(ClusterImage(), record) == ([line], NO_ELECTION)


def test_what_is_no_news() -> None:
    quiet = (TopicRecord(name="t", topic_id=TOPIC_ID), ConfigRecord(name="k"))
    assert said(ClusterImage(), *quiet) == ([], NO_ELECTION)
    shrink = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, isr=[1])
    assert said(image_of({}), shrink) == ([], NO_ELECTION)


def test_a_leader_that_begins_a_new_epoch_is_no_news() -> None:
    stays = PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=0, leader=1)
    assert said(image_of({"leader": 1}), stays) == ([], NO_ELECTION)
    assert said(image_of({"leader": 3}), stays)[1] == Elections(leaders=1)
    assert said(image_of({"leader": -1}), stays)[1] == Elections(leaders=1)


def test_leaders_are_counted_not_listed() -> None:
    image = image_of({}, {}, {})
    records = [
        PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, leader=leader)
        for index, leader in enumerate((2, 3, -1))
    ]
    lines, elections = said(image, *records)
    assert lines == [
        "level=info event=leaders_elected partitions=2",
        "level=warning event=partitions_offline partitions=1",
    ]
    assert elections == Elections(leaders=2)


def test_an_unclean_election_is_a_warning_of_its_own() -> None:
    image = image_of({"isr": [1]})
    record = PartitionChangeRecord(
        topic_id=TOPIC_ID, partition_id=0, leader=2, isr=[2], leader_recovery_state=1
    )
    lines, elections = said(image, record)
    assert elections == Elections(leaders=1, unclean=1)
    assert lines[0].startswith("level=warning event=unclean_leader_election topic=t partition=0")
    assert "leader=2 isr_before=1 leader_epoch=6" in lines[0]
