"""FindCoordinator in every version and for every kind of key."""

from dataclasses import replace

import pytest
from tests.unit.broker.api.group_broker import NODE_ID, GroupBroker, versions_of

from headrace.base.promise import Promise
from headrace.cluster.image import BrokerImage, Endpoint
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

Found = list[tuple[int, int, str, int]]


def _find(broker: GroupBroker, version: int, *keys: str, key_type: int = 0) -> Found:
    request = FindCoordinatorRequest(key_type=key_type)
    if version >= 4:
        request.coordinator_keys = list(keys)
    else:
        (request.key,) = keys
    answer = broker.call(request, version, FindCoordinatorResponse)
    if version >= 4:
        assert [found.key for found in answer.coordinators] == list(keys)
        return [(f.error_code, f.node_id, f.host, f.port) for f in answer.coordinators]
    return [(answer.error_code, answer.node_id, answer.host, answer.port)]


@pytest.mark.parametrize("version", versions_of(FindCoordinatorRequest))
def test_groups_in_every_version(version: int) -> None:
    here = (0, NODE_ID, "broker.example", 9092)
    keys = ("g", "h") if version >= 4 else ("g",)
    assert _find(GroupBroker(), version, *keys) == [here] * len(keys)


@pytest.mark.parametrize(
    ("version", "key_type"), [(1, 2), (3, 2), (4, 2), (5, 2), (1, 9), (3, 9), (4, 9), (6, 9)]
)
def test_other_kinds_of_key(version: int, key_type: int) -> None:
    """Share coordinators are known since version 6."""
    refused = [(ErrorCode.INVALID_REQUEST, -1, "", -1)]
    assert _find(GroupBroker(), version, "k", key_type=key_type) == refused


def test_the_answer_waits_for_the_topic() -> None:
    broker = GroupBroker()
    made: Promise[int] = Promise()
    broker.stage.log.ensure_exists = lambda: made
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    answer = broker.ask(request, 4)
    assert not answer.settled
    made.resolve(0)
    assert answer.value().coordinators[0].error_code == 0


def test_a_topic_that_could_not_be_made() -> None:
    broker = GroupBroker()
    broker.stage.log.ensure_exists = lambda: Promise.resolved(38)
    assert _find(broker, 4, "g") == [(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)]


def test_a_coordinator_elsewhere_is_told_by_its_listener() -> None:
    broker = GroupBroker()
    topic = broker.image.topics_by_name["__consumer_offsets"]
    topic.partitions = [replace(partition, leader=9) for partition in topic.partitions]
    nowhere = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, "", -1)
    assert _find(broker, 4, "g") == [nowhere]
    other = BrokerImage(9, 1, bytes(16), (Endpoint("PLAINTEXT", "nine", 9999),), fenced=False)
    broker.image.brokers[9] = other
    assert _find(broker, 4, "g") == [(0, 9, "nine", 9999)]
    broker.image.brokers[9] = replace(other, fenced=True)
    assert _find(broker, 4, "g") == [nowhere]
