"""Who may lead, and what the coming and going of a broker does to all partitions.

Owns: the walk over the partitions for each of a broker's steps. Pure.
Must not know: when a broker comes or goes (`cluster.brokers`), how one partition's leader is
chosen (`cluster.partition_change`).
Spec: KIP-631, KIP-841; Kafka's ReplicationControlManager.

Invariants: a broker that is fenced or shutting down leads nothing that another member of the ISR
could lead, and is in no ISR that has another member who lives.
"""

from collections.abc import Iterable, Iterator

from headrace.cluster.decision import (
    MIN_INSYNC_KEY,
    UNCLEAN_ELECTION_KEY,
    DecisionContext,
    Records,
)
from headrace.cluster.features import ELIGIBLE_LEADER_REPLICAS_VERSION
from headrace.cluster.image import (
    NO_LEADER,
    RESOURCE_BROKER,
    BrokerImage,
    ClusterImage,
    PartitionImage,
    TopicImage,
)
from headrace.cluster.partition_change import (
    NO_ELIGIBLE,
    Election,
    IsAcceptable,
    change_partition,
)
from headrace.cluster.registrations import with_isr
from headrace.wire.kafka.messages.metadata_records import PartitionChangeRecord

TopicPartition = tuple[TopicImage, PartitionImage]


def acceptance(image: ClusterImage, partition: PartitionImage) -> IsAcceptable:
    """Who may lead this partition: a broker that is up, and whose directory of it is."""
    return _accepting(image, partition, _up(image))


def _up(image: ClusterImage, leaving: int | None = None, joining: int | None = None) -> set[int]:
    """`leaving` is not, whatever the image says; the fence of `joining` is being lifted."""
    up = {broker.broker_id for broker in image.brokers.values() if broker.is_usable}
    up.discard(-1 if leaving is None else leaving)
    if joining is not None and not image.brokers[joining].in_controlled_shutdown:
        up.add(joining)
    return up


def _accepting(image: ClusterImage, partition: PartitionImage, up: set[int]) -> IsAcceptable:
    if not partition.directories:
        return up.__contains__
    return lambda replica: (
        replica in up and image.brokers[replica].has_online(partition.directory_of(replica))
    )


def is_unclean_enabled(image: ClusterImage, topic: str, context: DecisionContext) -> bool:
    """The topic's own setting, else the cluster's, else this controller's file."""
    for values in (image.topic_configs(topic), image.configs.get((RESOURCE_BROKER, ""), {})):
        if UNCLEAN_ELECTION_KEY in values:
            return values[UNCLEAN_ELECTION_KEY].lower() == "true"
    return bool(context.config[UNCLEAN_ELECTION_KEY])


def election_for(image: ClusterImage, topic: str, context: DecisionContext) -> Election:
    return Election.UNCLEAN if is_unclean_enabled(image, topic, context) else Election.ONLINE


def isr_count_min(image: ClusterImage, topic: str, context: DecisionContext) -> int:
    """`min.insync.replicas` where eligible leader replicas are kept, `NO_ELIGIBLE` elsewhere.

    The topic's, else the cluster's, else this controller's file: that one must be the brokers'.
    """
    if not image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION):
        return NO_ELIGIBLE
    for values in (image.topic_configs(topic), image.configs.get((RESOURCE_BROKER, ""), {})):
        if MIN_INSYNC_KEY in values:
            return int(values[MIN_INSYNC_KEY])
    return int(context.config[MIN_INSYNC_KEY])


def changes_at_leaving(
    image: ClusterImage,
    broker_id: int,
    context: DecisionContext,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    is_lossy: bool = False,
) -> Records:
    """A broker is fenced or goes: it leaves every ISR and every leadership.

    Where it was the last of the ISR the partition has no leader, and the broker is eligible to be
    one unless it may have lost part of its log.
    """
    if partitions is None:
        partitions = with_replica_in_isr(image, broker_id)
    return _changes(image, partitions, context, leaving=broker_id, is_lossy=is_lossy)


def changes_at_shutdown(image: ClusterImage, broker_id: int, context: DecisionContext) -> Records:
    """A broker asks to go: only what somebody else can lead is taken from it.

    The rest it serves until its last moment; that it is gone is then seen by its fence.
    """
    return _changes(image, movable(image, broker_id), context, leaving=broker_id)


def changes_at_registration(
    image: ClusterImage, broker: BrokerImage, context: DecisionContext, *, is_clean: bool
) -> Records:
    """A new incarnation (`broker`) takes the place of the one in the image.

    What others can lead they lead, and what lies in a directory that did not come back nobody
    does. After an unclean stop it is neither in sync nor eligible wherever there is another
    replica, dead or alive: a power cut may have taken what was acknowledged (KIP-966). What has no
    other replica it leads on, then in a new leader epoch, so that consumers can tell records that
    were lost with the page cache from those written at the same offsets afterwards (KIP-320).
    """
    broker_id = broker.broker_id
    up = _up(image, leaving=broker_id)
    leaves: list[TopicPartition] = []
    loses: list[TopicPartition] = []
    stays: list[TopicPartition] = []
    keeps_eligible = bool(image.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION))
    for topic, partition in with_candidate(image, broker_id):
        count = len(partition.replicas if keeps_eligible else partition.isr)
        if not broker.has_online(partition.directory_of(broker_id)) or (not is_clean and count > 1):
            loses.append((topic, partition))
        elif broker_id not in partition.isr:
            continue
        elif _any_up(image, partition, up):
            leaves.append((topic, partition))
        else:
            stays.append((topic, partition))
    records = _changes(image, leaves, context, leaving=broker_id)
    records += _changes(image, loses, context, leaving=broker_id, is_lossy=True)
    if not is_clean:
        records += [
            _new_leader_epoch(topic, partition)
            for topic, partition in stays
            if partition.leader == broker_id
        ]
    return records


def _new_leader_epoch(topic: TopicImage, partition: PartitionImage) -> PartitionChangeRecord:
    """The leader stays and begins a new epoch."""
    return PartitionChangeRecord(
        topic_id=topic.topic_id, partition_id=partition.index, leader=partition.leader
    )


def changes_at_joining(image: ClusterImage, broker_id: int, context: DecisionContext) -> Records:
    """A fence is lifted: partitions without a leader may get one."""
    leaderless = (
        (topic, partition)
        for topic, partition in image.partitions()
        if partition.leader == NO_LEADER and broker_id in partition.replicas
    )
    return _changes(image, leaderless, context, joining=broker_id)


def unclean_elections(image: ClusterImage, context: DecisionContext, limit: int) -> Records:
    """Leaders for partitions without one, where the topic allows one from outside of the ISR."""
    leaderless = (
        (topic, partition)
        for topic, partition in image.partitions()
        if partition.leader == NO_LEADER and is_unclean_enabled(image, topic.name, context)
    )
    return _changes(image, leaderless, context, limit=limit)


def preferred_elections(image: ClusterImage, limit: int, context: DecisionContext) -> Records:
    """The first replica leads where it can; at most `limit` partitions at once."""
    records: Records = []
    for topic, partition in image.partitions():
        if len(records) >= limit:
            break
        if partition.leader in (NO_LEADER, partition.replicas[0]):
            continue
        if partition.replicas[0] not in partition.isr:
            continue
        record = change_partition(
            topic.topic_id,
            partition,
            partition,
            acceptance(image, partition),
            Election.PREFERRED,
            isr_count_min=isr_count_min(image, topic.name, context),
        )
        if record is not None:
            records.append(record)
    return records


def with_replica_in_isr(image: ClusterImage, broker_id: int) -> Iterator[TopicPartition]:
    return (pair for pair in image.partitions() if broker_id in pair[1].isr)


def with_candidate(image: ClusterImage, broker_id: int) -> Iterator[TopicPartition]:
    """Partitions that the broker could lead: it is in sync or eligible."""
    return (
        (topic, partition)
        for topic, partition in image.partitions()
        if broker_id in partition.isr or broker_id in partition.eligible_leader_replicas
    )


def movable(image: ClusterImage, broker_id: int) -> Iterator[TopicPartition]:
    """Partitions whose ISR has the broker and somebody else who can lead."""
    up = _up(image, leaving=broker_id)
    return (
        (topic, partition)
        for topic, partition in with_replica_in_isr(image, broker_id)
        if _any_up(image, partition, up)
    )


def _any_up(image: ClusterImage, partition: PartitionImage, up: set[int]) -> bool:
    return len(partition.isr) > 1 and any(map(_accepting(image, partition, up), partition.isr))


def _changes(
    image: ClusterImage,
    partitions: Iterable[TopicPartition],
    context: DecisionContext,
    *,
    leaving: int | None = None,
    joining: int | None = None,
    limit: int | None = None,
    is_lossy: bool = False,
) -> Records:
    records: Records = []
    up = _up(image, leaving, joining)
    elections: dict[str, tuple[Election, int]] = {}
    for topic, partition in partitions:
        if limit is not None and len(records) >= limit:
            break
        if topic.name not in elections:
            elections[topic.name] = (
                election_for(image, topic.name, context),
                isr_count_min(image, topic.name, context),
            )
        election, minimum = elections[topic.name]
        record = change_partition(
            topic.topic_id,
            partition,
            with_isr(partition, tuple(each for each in partition.isr if each != leaving)),
            _accepting(image, partition, up),
            election,
            isr_count_min=minimum,
            lossy=leaving if is_lossy else None,
        )
        if record is not None:
            records.append(record)
    return records
