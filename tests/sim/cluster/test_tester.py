"""Test the tester: with a bug put into a decision, the histories find it, and by its rule."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.sim.cluster.test_cluster_runs import run

from headrace.cluster import (
    brokers,
    image,
    isr,
    leadership,
    partition_change,
    reassignments,
    topics,
)
from headrace.cluster.image import NO_LEADER, BrokerImage, ClusterImage, PartitionImage
from headrace.cluster.partition_change import Election
from headrace.cluster.placement import Candidate
from headrace.cluster.sessions import BrokerSessions
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord

SEEDS_MAX = 60

Patch = Callable[[pytest.MonkeyPatch], None]


def any_replica_leads(patch: pytest.MonkeyPatch) -> None:
    def elect(
        _before: PartitionImage, target: PartitionImage, is_acceptable: Any, _election: Election
    ) -> int:
        up = [replica for replica in target.replicas if is_acceptable(replica)]
        return up[0] if up else NO_LEADER

    patch.setattr(partition_change, "_elect", elect)


def the_last_member_leaves(patch: pytest.MonkeyPatch) -> None:
    real = leadership.change_partition

    def change(topic_id: bytes, before: Any, target: Any, *rest: Any, **more: Any) -> Any:
        record = real(topic_id, before, target, *rest, **more)
        if record is not None and not target.isr:
            record.isr = record.eligible_leader_replicas = record.last_known_elr = []
        return record

    patch.setattr(leadership, "change_partition", change)


def a_fenced_broker_may_lead(patch: pytest.MonkeyPatch) -> None:
    def up(cluster: ClusterImage, leaving: int | None = None, *_: Any, **__: Any) -> set[int]:
        return set(cluster.brokers) - {leaving}

    patch.setattr(leadership, "_up", up)


def the_unfenced_get_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(brokers, "changes_at_joining", lambda *_: [])


def the_fenced_stay_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(brokers, "changes_at_leaving", lambda *_: [])


def a_new_incarnation_keeps_its_places(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(brokers, "changes_at_registration", lambda *_, **__: [])


def a_leader_without_an_epoch(patch: pytest.MonkeyPatch) -> None:
    real = image.partition_after

    def after(before: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
        return replace(real(before, record), leader_epoch=before.leader_epoch)

    patch.setattr(image, "partition_after", after)


def stale_brokers_are_heard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr, "broker_refusal", lambda *_: None)


def any_isr_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(isr, "_eligibility_refusal", lambda *_: None)


def nobody_is_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BrokerSessions, "expired", lambda *_: [])


def cordons_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reassignments, "cordon_refusal", lambda *_: None)


def cordoned_brokers_are_candidates(patch: pytest.MonkeyPatch) -> None:
    def candidates(cluster: ClusterImage) -> list[Candidate]:
        return [Candidate(each.broker_id, each.rack, each.fenced) for each in up(cluster)]

    def up(cluster: ClusterImage) -> list[BrokerImage]:
        return [each for each in cluster.brokers.values() if not each.in_controlled_shutdown]

    patch.setattr(topics, "candidates_for", candidates)


BUGS: list[tuple[Patch, str]] = [
    (cordons_are_not_looked_at, "C17"),
    (cordoned_brokers_are_candidates, "C17"),
    (any_replica_leads, "C7|C1"),
    (the_last_member_leaves, "C2"),
    (a_fenced_broker_may_lead, "C13"),
    (the_unfenced_get_nothing, "C6"),
    (the_fenced_stay_in_the_isr, "C5|C14"),
    (a_new_incarnation_keeps_its_places, "C5"),
    (a_leader_without_an_epoch, "C3"),
    (stale_brokers_are_heard, "C11"),
    (any_isr_is_taken, "C5"),
    (nobody_is_missed, "C12"),
]


@pytest.mark.parametrize(("bug", "rule"), BUGS, ids=[bug.__name__ for bug, _ in BUGS])
def test_a_bug_is_found(bug: Patch, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(AssertionError, match=rule):
        run_until_found()


def run_until_found() -> None:
    for seed in range(SEEDS_MAX):
        run(seed, steps=200)
