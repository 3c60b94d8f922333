"""Share groups on three brokers whose coordinators die: the group and its offsets live on.

Our own client alone: no Java. Members beat with the epoch that they had, and stay where they are.
"""

import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.client.admin import create_topic
from headrace.client.cluster import Cluster
from headrace.client.errors import ClientError
from headrace.client.offsets import coordinator_of
from headrace.client.share_groups import ShareOffset, alter_share_offsets, share_offsets
from headrace.testing.local_cluster import LocalCluster
from headrace.wire.kafka.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headrace.wire.kafka.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

pytestmark = pytest.mark.long

DEADLINE_S = 90.0
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 3,
    "share.coordinator.snapshot.update.records.per.snapshot": 2,
}
TOPIC, LIVE, IDLE = "jobs", "live", "idle"


def patiently(what: str, ask: Callable[[], Any]) -> Any:
    """Ask until it is answered: brokers are dying."""
    deadline = time.monotonic() + DEADLINE_S
    last: ClientError | None = None
    while time.monotonic() < deadline:
        try:
            answer = ask()
        except ClientError as error:
            last = error
        else:
            if answer is not None:
                return answer
        time.sleep(0.2)
    raise AssertionError(f"{what} was never answered: {last}")


def beat(client: Cluster, member_id: str, epoch: int) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id=LIVE,
        member_id=member_id,
        member_epoch=epoch,
        subscribed_topic_names=[TOPIC] if epoch == 0 else None,
    )

    def ask() -> ShareGroupHeartbeatResponse | None:
        answer = coordinator_of(client, LIVE).call(request, ShareGroupHeartbeatResponse)
        # 14, 15, 16: loading, not available, not the coordinator.
        return None if answer.error_code in (14, 15, 16) else answer

    answer: ShareGroupHeartbeatResponse = patiently(f"heartbeat of {member_id}", ask)
    return answer


def coordinator_id(client: Cluster) -> int | None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[LIVE])
    (found,) = client.call(request, FindCoordinatorResponse).coordinators
    return found.node_id if found.error_code == 0 else None


def partitions_of(answer: ShareGroupHeartbeatResponse) -> list[int]:
    assert answer.assignment is not None
    return [index for each in answer.assignment.topic_partitions for index in each.partitions]


def test_coordinators_die_and_nobody_has_to_move() -> None:
    with (
        LocalCluster(brokers=3, settings=SETTINGS) as cluster,
        Cluster(cluster.bootstrap_servers, retry_timeout_ms=10_000) as client,
    ):
        create_topic(client, TOPIC, partitions=4)
        patiently("reset", lambda: alter_share_offsets(client, IDLE, {(TOPIC, 1): 0}) or True)
        first = beat(client, "a", 0)
        assert sorted(partitions_of(first)) == [0, 1, 2, 3]
        second = beat(client, "b", 0)
        first = beat(client, "a", first.member_epoch)
        assert sorted(partitions_of(first) + partitions_of(second)) == [0, 1, 2, 3]
        epochs = {"a": first.member_epoch, "b": second.member_epoch}
        for offset in range(3):
            wanted = {(TOPIC, 1): offset}
            patiently("reset", lambda wanted=wanted: alter_share_offsets(client, IDLE, wanted) or 1)
            name = cluster.name_of(patiently("coordinator", lambda: coordinator_id(client)))
            cluster.kill(name)
            for member_id, epoch in epochs.items():
                lives = beat(client, member_id, epoch)
                assert (lives.error_code, lives.member_epoch) == (0, epoch)
                assert lives.assignment is None, "nobody moved"
            found = patiently("offsets", lambda: share_offsets(client, IDLE))
            assert found == {(TOPIC, 1): ShareOffset(start_offset=offset, lag=0)}
            cluster.start_node(name)
