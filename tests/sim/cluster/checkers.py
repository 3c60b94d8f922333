"""What holds of the cluster's metadata after every decision, each rule by its name.

C1  a leader is in the ISR, or there is none
C2  the ISR is a set of replicas; where it is empty somebody is eligible, or led last
C3  the leader epoch grows with every change of the leader, and never goes down
C4  the partition epoch grows with every change, by one a record
C5  a broker that is fenced, stopping or gone neither leads nor is in an ISR while another member
    of that ISR is up
C6  a partition is without a leader only while nobody in sync or eligible is up, nor, if nobody
    is either, who led last
C7  a leader comes from the ISR or the eligible replicas, unless its topic or a person allows
    otherwise, or all of them lost records: then it is who led last
C8  replicas that come and go are replicas, and none does both
C9  told again as records, the image is the same
C10 no record says nothing
C11 what a replaced process of a broker asks changes nothing (`world`)
C12 a broker that is not heard of for a session is fenced (`world`)
C13 who becomes the leader is up
C14 who is fenced leads nothing from then on; a new incarnation alone may keep, until it is
    unfenced, what nobody else could lead
C15 nobody who is up leads what lies in a directory that it has lost
C16 nobody is in sync and eligible at once
C17 nothing new is placed on a cordoned broker
"""

from collections import Counter
from typing import Any

from headrace.cluster.image import NO_LEADER, ClusterImage, PartitionImage
from headrace.cluster.registrations import RECOVERING
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord

Key = tuple[bytes, int]
Where = tuple[str, PartitionImage]
"""Put into words only when a rule is broken."""


def partitions_of(image: ClusterImage) -> dict[Key, PartitionImage]:
    return {(topic.topic_id, part.index): part for topic, part in image.partitions()}


def check_decision(
    before: ClusterImage, after: ClusterImage, records: list[Any], unclean_topics: set[str] | None
) -> None:
    """`unclean_topics`: where an unclean election is allowed; None is everywhere."""
    old, new = partitions_of(before), partitions_of(after)
    changes = Counter(
        (bytes(record.topic_id), record.partition_id)
        for record in records
        if isinstance(record, PartitionChangeRecord)
    )
    for key, partition in new.items():
        where = (after.topics_by_id[key[0]].name, partition)
        check_partition(after, partition, where)
        check_cordoned(before, old.get(key), partition, where)
        if key in old:
            check_step(old[key], partition, changes[key], where)
            if unclean_topics is not None and after.topics_by_id[key[0]].name not in unclean_topics:
                check_clean(old[key], partition, where)
            check_leader(after, old[key], partition, where)
    check_fenced(before, after)
    check_telling(after)


def is_up(image: ClusterImage, partition: PartitionImage, replica: int) -> bool:
    """The broker, and its directory of this partition."""
    broker = image.brokers.get(replica)
    if broker is None or not broker.is_usable:
        return False
    return broker.has_online(partition.directory_of(replica))


def check_committed(image: ClusterImage) -> None:
    """What holds of an image whatever came before it."""
    for topic, partition in image.partitions():
        check_partition(image, partition, (topic.name, partition))


def check_leader(
    image: ClusterImage, old: PartitionImage, new: PartitionImage, where: Where
) -> None:
    if new.leader not in (old.leader, NO_LEADER):
        assert is_up(image, new, new.leader), f"C13 {where}"


def check_cordoned(
    before: ClusterImage, old: PartitionImage | None, new: PartitionImage, where: Where
) -> None:
    for replica in set(new.replicas).difference(() if old is None else old.replicas):
        assert not before.brokers[replica].is_cordoned, f"C17 {where}"


def check_fenced(before: ClusterImage, after: ClusterImage) -> None:
    for broker_id, now in after.brokers.items():
        then = before.brokers.get(broker_id)
        is_same = then is not None and then.broker_epoch == now.broker_epoch
        if is_same and then is not None and now.fenced and not then.fenced:
            assert not list(after.partitions_led_by(broker_id)), f"C14 {now}"
    for broker_id in before.brokers.keys() - after.brokers.keys():
        assert not list(after.partitions_led_by(broker_id)), f"C14 {broker_id}"


def check_partition(image: ClusterImage, partition: PartitionImage, where: Where) -> None:
    replicas, isr = partition.replicas, partition.isr
    assert partition.leader == NO_LEADER or partition.leader in isr, f"C1 {where}"
    eligible = partition.eligible_leader_replicas
    assert isr or eligible or partition.last_known_elr, f"C2 {where}"
    assert not set(isr) & set(eligible), f"C16 {where}"
    assert set(eligible) <= set(replicas), f"C16 {where}"
    assert len(set(isr)) == len(isr), f"C2 {where}"
    assert set(isr) <= set(replicas), f"C2 {where}"
    assert len(set(replicas)) == len(replicas), f"C2 {where}"
    up = {each for each in isr if is_up(image, partition, each)}
    for member in isr:
        if member not in up:
            assert not up, f"C5 {member} {where}"
    if partition.leader == NO_LEADER:
        awaited = isr + eligible or partition.last_known_elr
        assert not any(is_up(image, partition, each) for each in awaited), f"C6 {where}"
    leader = image.brokers.get(partition.leader)
    if leader is not None and leader.is_usable:
        assert leader.has_online(partition.directory_of(partition.leader)), f"C15 {where}"
    adding, removing = set(partition.adding_replicas), set(partition.removing_replicas)
    assert adding <= set(replicas), f"C8 {where}"
    assert removing <= set(replicas), f"C8 {where}"
    assert not adding & removing, f"C8 {where}"


def check_step(old: PartitionImage, new: PartitionImage, changes: int, where: Where) -> None:
    assert new.leader_epoch >= old.leader_epoch, f"C3 {where}"
    if new.leader != old.leader:
        assert new.leader_epoch > old.leader_epoch, f"C3 {where}"
    assert new.partition_epoch == old.partition_epoch + changes, f"C4 {where}"
    if changes == 0:
        assert new == old, f"C4 {where}"
    else:
        assert _without_epoch(new) != _without_epoch(old), f"C10 {where}"


def _without_epoch(partition: PartitionImage) -> tuple[Any, ...]:
    return tuple(
        getattr(partition, name) for name in partition.__slots__ if name != "partition_epoch"
    )


def check_clean(old: PartitionImage, new: PartitionImage, where: Where) -> None:
    if new.leader != old.leader and new.leader in old.last_known_elr:
        return
    if new.leader_recovery_state == RECOVERING:
        assert old.leader_recovery_state == RECOVERING, f"C7 {where}"
    if new.leader == NO_LEADER or new.leader == old.leader:
        return
    # A replica may come into the ISR and lead in one decision: the last step of a move, asked
    # for by the leader itself.
    if old.is_moving and not new.is_moving and old.leader in old.isr:
        return
    assert new.leader in old.isr + old.eligible_leader_replicas, f"C7 {where}"


def check_telling(image: ClusterImage) -> None:
    told = ClusterImage()
    for record in image.to_records():
        told.replay(record)
    told.last_offset = image.last_offset
    assert told == image, "C9"
