"""What becomes of one partition: who leads it, and the record that says so.

Owns: `change_partition`, the one place where a leader is chosen, and the completion of a
reassignment. Pure.
Must not know: requests, sessions, which brokers live (it is handed a test of that).
Spec: Kafka's PartitionChangeBuilder; KIP-455 (reassignment), KIP-704 (leader recovery state),
KIP-966 (eligible leader replicas).

Eligible leader replicas (ELR): below `min.insync.replicas` nothing new is committed. Who leaves the
ISR then still has all that ever was, until it loses part of its log: it may lead again.

Invariants:
- a leader is chosen from the ISR, else from the ELR; from outside of both only in an unclean
  election, which makes the new leader the whole ISR and marks it as recovering. One such election
  needs no permission: all others have lost part of their logs, and who led last is back;
- the ELR is empty where the ISR has its minimum, and has nobody who is in the ISR;
- where no ELR is kept (its feature is off) the last member of an ISR stays in it, though it may not
  lead: it alone has all that was acknowledged;
- the leader epoch grows with every change of the leader, and when a replica leaves the partition;
- no record is written where nothing changes.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import Enum

from headrace.cluster.registrations import (
    DIRECTORY_UNASSIGNED,
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERING,
    RECOVERY_UNCHANGED,
    PartitionImage,
    with_isr,
)
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord

NO_ELIGIBLE = 0
"""Instead of `min.insync.replicas`, where no eligible leader replicas are kept."""

IsAcceptable = Callable[[int], bool]
"""May this broker lead the partition, as far as brokers go?"""


class Election(Enum):
    ONLINE = "the leader stays if it can, else the first of the replicas that can"
    PREFERRED = "the first replica if it can, else as above"
    UNCLEAN = "if nobody in the ISR can, any replica that lives"


def change_partition(
    topic_id: bytes,
    before: PartitionImage,
    target: PartitionImage,
    is_acceptable: IsAcceptable,
    election: Election = Election.ONLINE,
    *,
    new_leader_epoch: bool = False,
    isr_count_min: int = NO_ELIGIBLE,
    lossy: int | None = None,
) -> PartitionChangeRecord | None:
    """The record that turns `before` into `target`, with the leader that follows from it.

    `target` is `before` with another ISR, replica set or recovery state; its leader and epochs
    are not looked at. With `new_leader_epoch` a leader that stays begins a new epoch.
    `isr_count_min` is `min.insync.replicas` where eligible leader replicas are kept; `lossy` may
    lack what it had.
    """
    target = _complete_reassignment(before, target)
    keeps_eligible = isr_count_min != NO_ELIGIBLE
    if keeps_eligible:
        target = _with_eligible(before, target, isr_count_min, lossy)
    leader = _elect(before, target, is_acceptable, election)
    if leader != NO_LEADER and leader not in target.isr:
        target = _led_from_outside(target, leader, isr_count_min)
    if not target.isr and not keeps_eligible:
        # Nobody is left: who was there last is remembered as the one to come back.
        target = with_isr(target, before.isr)
    if keeps_eligible:
        target = _with_last_leader(before, target, leader)
    elif target.isr and (target.eligible_leader_replicas or target.last_known_elr):
        target = replace(target, eligible_leader_replicas=(), last_known_elr=())
    is_replica_gone = before.replicas is not target.replicas and not set(before.replicas) <= set(
        target.replicas
    )
    is_new_epoch = leader != before.leader or is_replica_gone or new_leader_epoch
    record = _difference(topic_id, before, target)
    if is_new_epoch:
        record.leader = leader
    return record if _says_something(record) else None


def _elect(
    before: PartitionImage, target: PartitionImage, is_acceptable: IsAcceptable, election: Election
) -> int:
    candidates = (before.leader, *target.replicas)
    if election is Election.PREFERRED:
        candidates = (target.replicas[0], *candidates)
    for eligible in (target.isr, target.eligible_leader_replicas):
        for replica in candidates:
            if replica in eligible and is_acceptable(replica):
                return replica
    if not target.isr and not target.eligible_leader_replicas:
        for replica in target.last_known_elr:
            if replica in target.replicas and is_acceptable(replica):
                return replica
    if election is Election.UNCLEAN:
        return next((each for each in target.replicas if is_acceptable(each)), NO_LEADER)
    return NO_LEADER


def _with_eligible(
    before: PartitionImage, target: PartitionImage, isr_count_min: int, lossy: int | None
) -> PartitionImage:
    """`target` with the ELR that follows from its ISR."""
    if len(target.isr) >= min(isr_count_min, len(target.replicas)):
        if not target.eligible_leader_replicas and not target.last_known_elr:
            return target
        return replace(target, eligible_leader_replicas=(), last_known_elr=())
    had_all = {*target.eligible_leader_replicas, *before.isr} - {*target.isr, lossy}
    eligible = tuple(replica for replica in target.replicas if replica in had_all)
    return replace(target, eligible_leader_replicas=eligible)


def _led_from_outside(target: PartitionImage, leader: int, isr_count_min: int) -> PartitionImage:
    """The leader is the whole ISR: whoever else is to be in it must show what it has."""
    if leader not in target.eligible_leader_replicas:
        return replace(
            target,
            isr=(leader,),
            eligible_leader_replicas=(),
            last_known_elr=(),
            leader_recovery_state=RECOVERING,
        )
    if min(isr_count_min, len(target.replicas)) <= 1:
        return replace(target, isr=(leader,), eligible_leader_replicas=())
    had_all = {*target.eligible_leader_replicas, *target.isr} - {leader}
    eligible = tuple(replica for replica in target.replicas if replica in had_all)
    return replace(target, isr=(leader,), eligible_leader_replicas=eligible)


def _with_last_leader(
    before: PartitionImage, target: PartitionImage, leader: int
) -> PartitionImage:
    """Who led last is remembered while nobody leads, in case that all lose part of their logs."""
    last = before.last_known_elr
    if leader != NO_LEADER:
        last = ()
    elif before.leader != NO_LEADER:
        last = (before.leader,)
    elif not last and not target.isr and not target.eligible_leader_replicas:
        last = before.isr[:1]
    return target if last == target.last_known_elr else replace(target, last_known_elr=last)


def _complete_reassignment(before: PartitionImage, target: PartitionImage) -> PartitionImage:
    """Done once every replica that shall stay is in sync: the others leave."""
    if not target.is_moving:
        return target
    removing = target.removing_replicas
    replicas = tuple(replica for replica in target.replicas if replica not in removing)
    isr = tuple(replica for replica in target.isr if replica not in removing)
    if not replicas or not set(replicas) <= set(isr):
        return target
    return replace(
        target,
        replicas=replicas,
        isr=isr,
        adding_replicas=(),
        removing_replicas=(),
        directories=directories_for(before, replicas),
    )


def directories_for(before: PartitionImage, replicas: tuple[int, ...]) -> tuple[bytes, ...]:
    """Where the replicas lie, as far as it is known; empty if it is known of none."""
    directories = tuple(before.directory_of(replica) for replica in replicas)
    if all(directory == DIRECTORY_UNASSIGNED for directory in directories):
        return ()
    return directories


_CHANGEABLE = (
    "isr",
    "replicas",
    "adding_replicas",
    "removing_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)


def _difference(
    topic_id: bytes, before: PartitionImage, target: PartitionImage
) -> PartitionChangeRecord:
    record = PartitionChangeRecord(partition_id=before.index, topic_id=topic_id)
    for name in _CHANGEABLE:
        wanted = getattr(target, name)
        if wanted != getattr(before, name):
            setattr(record, name, list(wanted))
    if target.leader_recovery_state != before.leader_recovery_state:
        record.leader_recovery_state = target.leader_recovery_state
    return record


def _says_something(record: PartitionChangeRecord) -> bool:
    return (
        record.leader != LEADER_UNCHANGED
        or record.leader_recovery_state != RECOVERY_UNCHANGED
        or any(getattr(record, name) is not None for name in _CHANGEABLE)
    )


def is_unclean(before: PartitionImage, record: PartitionChangeRecord) -> bool:
    """Does the record make a leader of a replica that may lack acknowledged records?"""
    if record.leader < 0 or record.leader in before.isr + before.eligible_leader_replicas:
        return False
    if record.leader_recovery_state == RECOVERY_UNCHANGED:
        return before.leader_recovery_state == RECOVERING
    return record.leader_recovery_state == RECOVERING
