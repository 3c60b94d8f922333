"""Deciding on new topics: CreateTopics.

Owns: `decide_create_topics`, and for new partitions of old topics too: the records of a partition
and the check of its replicas. Pure: it reads the image and returns records and the response;
`ClusterImage.replay` changes it.
Must not know: logs, waiting, who leads.
Spec: Kafka's ReplicationControlManager for codes.

Invariants: a topic of a response without an error has all its records in the decision, one with an
error has none; a decision never makes more than PARTITIONS_PER_REQUEST_MAX partitions.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from headrace.base.broker_config import BrokerConfig
from headrace.base.config import ConfigError
from headrace.base.ids import METADATA_TOPIC_ID, NO_TOPIC_ID
from headrace.base.limits import (
    CONFIGS_PER_RESOURCE_MAX,
    PARTITIONS_MAX,
    PARTITIONS_PER_REQUEST_MAX,
    PARTITIONS_PER_TOPIC_MAX,
)
from headrace.base.randomness import Random
from headrace.base.topic_config import validate_topic_configs
from headrace.cluster.config_view import topic_config_entries
from headrace.cluster.decision import DecisionContext, Records, Refusal
from headrace.cluster.image import RESOURCE_TOPIC, ClusterImage
from headrace.cluster.placement import Candidate, leader_ring, manual_refusal, place, start_of
from headrace.cluster.topic_names import CLUSTER_METADATA_TOPIC, topic_name_refusal
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.messages.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    TopicRecord,
)

Assignments = list[tuple[int, ...]]

UNSET = -1
"""Partition count or replication factor left to the cluster's default (KIP-464)."""


def decide_create_topics(
    image: ClusterImage, request: CreateTopicsRequest, context: DecisionContext
) -> tuple[Records, CreateTopicsResponse]:
    records: Records = []
    results: list[CreatableTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    answered: set[str] = set()
    taken: dict[str, str] = {}
    room = min(PARTITIONS_PER_REQUEST_MAX, PARTITIONS_MAX - image.partition_count)
    loads = dict(image.preferred_counts)
    for topic in request.topics:
        if topic.name in answered:
            continue
        answered.add(topic.name)
        outcome = _name_refusal(image, topic.name, counts, taken) or _assign(
            image, topic, context, room, loads
        )
        if isinstance(outcome, Refusal):
            results.append(_refused(topic, outcome))
            continue
        room -= len(outcome)
        for replicas in outcome:
            loads[replicas[0]] = loads.get(replicas[0], 0) + 1
        taken[topic.name.replace(".", "_")] = topic.name
        topic_id = new_topic_id(context.random, image)
        records += topic_records(image, topic_id, topic.name, _configs(topic), outcome)
        results.append(_created(topic, topic_id, outcome, context))
    if request.validate_only:
        records = []
    return records, CreateTopicsResponse(topics=results)


def new_topic_id(random: Random, image: ClusterImage) -> bytes:
    """A random UUID (version 4) that is no reserved or used id, and no option to a shell.

    Ids are shown in URL-safe base64, where the first six bits 111110 print as a dash.
    """
    while True:
        drawn = bytearray(random.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        topic_id = bytes(drawn)
        reserved = topic_id in (NO_TOPIC_ID, METADATA_TOPIC_ID) or topic_id[0] >> 2 == 0b111110
        if not reserved and topic_id not in image.topics_by_id:
            return topic_id


def topic_records(
    image: ClusterImage,
    topic_id: bytes,
    name: str,
    configs: dict[str, str],
    assignments: Assignments,
) -> Records:
    """All records of a new topic, in the order that replay needs."""
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name=name, name=key, value=value)
            for key, value in configs.items()
        ),
        *partition_records(image, topic_id, 0, assignments),
    ]


def partition_records(
    image: ClusterImage, topic_id: bytes, first_index: int, assignments: Assignments
) -> Records:
    """The first replica that is up leads; those that are not come into the ISR later."""
    usable = set(image.usable_brokers())
    records: Records = []
    for index, replicas in enumerate(assignments, first_index):
        isr = [replica for replica in replicas if replica in usable]
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    return records


def candidates_for(image: ClusterImage) -> list[Candidate]:
    """Brokers that may get replicas: all but those about to stop and cordoned ones."""
    return [
        Candidate(broker.broker_id, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if not broker.in_controlled_shutdown and not broker.is_cordoned
    ]


def replication_refusal(candidates: Sequence[Candidate], replication_factor: int) -> Refusal | None:
    invalid = ErrorCode.INVALID_REPLICATION_FACTOR
    prefix = f"Unable to replicate the partition {replication_factor} time(s): "
    if replication_factor > len(candidates):
        return Refusal(
            invalid,
            f"{prefix}only {len(candidates)} broker(s) are registered and not cordoned.",
        )
    if all(candidate.fenced for candidate in candidates):
        return Refusal(invalid, f"{prefix}all brokers are currently fenced.")
    return None


def assignment_refusal(
    image: ClusterImage,
    replicas: Sequence[int],
    replication_factor: int,
) -> Refusal | None:
    """Why replicas that a user chose for a new partition are refused; or None."""
    reason = manual_refusal(replicas, list(image.brokers), replication_factor)
    if reason is None:
        reason = cordon_refusal(image, replicas)
    if reason is None and not any(image.brokers[replica].is_usable for replica in replicas):
        reason = f"All brokers of the manual assignment {list(replicas)} are fenced or stopping."
    if reason is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return None


def cordon_refusal(image: ClusterImage, replicas: Iterable[int]) -> str | None:
    """Why these brokers can't take a new replica; or None."""
    for replica in replicas:
        if image.brokers[replica].is_cordoned:
            return (
                f"Broker {replica} is cordoned: all its log directories are in cordoned.log.dirs, "
                "and it takes no new replicas."
            )
    return None


def _name_refusal(
    image: ClusterImage, name: str, counts: Counter[str], taken: dict[str, str]
) -> Refusal | None:
    if counts[name] > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if name == CLUSTER_METADATA_TOPIC:
        return Refusal(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    illegal = topic_name_refusal(name)
    if illegal is not None:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, illegal)
    if name in image.topics_by_name:
        return Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = image.collision_with(name) or taken.get(name.replace(".", "_"))
    if other is not None:
        return Refusal(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )
    return None


def _assign(
    image: ClusterImage,
    topic: CreatableTopic,
    context: DecisionContext,
    room: int,
    loads: dict[int, int],
) -> Assignments | Refusal:
    """The replicas of each partition, or why the topic can't be made."""
    refusal = _config_refusal(topic, context)
    if refusal is not None:
        return refusal
    if topic.assignments:
        assigned = _manual_assignments(image, topic)
    else:
        assigned = _automatic_assignments(image, topic, context, loads)
    if not isinstance(assigned, Refusal) and len(assigned) > room:
        return Refusal(
            ErrorCode.POLICY_VIOLATION,
            f"The request or the cluster would have too many partitions: room is left for {room}.",
        )
    return assigned


def _config_refusal(topic: CreatableTopic, context: DecisionContext) -> Refusal | None:
    names = Counter(config.name for config in topic.configs)
    if len(names) > CONFIGS_PER_RESOURCE_MAX:
        return Refusal(ErrorCode.INVALID_REQUEST, "Too many configs.")
    try:
        validate_topic_configs(
            {config.name: config.value for config in topic.configs}, context.config.values
        )
    except ConfigError as error:
        return Refusal(ErrorCode.INVALID_CONFIG, error.reason)
    return None


def _manual_assignments(image: ClusterImage, topic: CreatableTopic) -> Assignments | Refusal:
    for name, value in (
        ("number of partitions", topic.num_partitions),
        ("replication factor", topic.replication_factor),
    ):
        if value != UNSET:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but the {name} was not set to -1.",
            )
    by_index = {assignment.partition_index: assignment for assignment in topic.assignments}
    refusal = _indexes_refusal(topic.assignments, by_index)
    if refusal is not None:
        return refusal
    replication_factor = len(by_index[0].broker_ids)
    assignments: Assignments = []
    for index in range(len(by_index)):
        replicas = by_index[index].broker_ids
        refusal = assignment_refusal(image, replicas, replication_factor)
        if refusal is not None:
            return refusal
        assignments.append(tuple(replicas))
    return assignments


def _indexes_refusal(
    given: Sequence[CreatableReplicaAssignment], by_index: dict[int, CreatableReplicaAssignment]
) -> Refusal | None:
    if len(by_index) != len(given):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for one partition.",
        )
    if any(index not in by_index for index in range(len(by_index))):
        return Refusal(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partitions of a manual assignment should be a consecutive 0-based integer sequence.",
        )
    return None


def _automatic_assignments(
    image: ClusterImage, topic: CreatableTopic, context: DecisionContext, loads: dict[int, int]
) -> Assignments | Refusal:
    if topic.replication_factor < UNSET or topic.replication_factor == 0:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.num_partitions < UNSET or topic.num_partitions == 0:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if topic.num_partitions > PARTITIONS_PER_TOPIC_MAX:
        return Refusal(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions {topic.num_partitions} is above the {PARTITIONS_PER_TOPIC_MAX} "
            "that one topic may have.",
        )
    config = context.config
    count = config.num_partitions if topic.num_partitions == UNSET else topic.num_partitions
    factor = topic.replication_factor
    if factor == UNSET:
        factor = config.default_replication_factor
    candidates = candidates_for(image)
    refusal = replication_refusal(candidates, factor)
    if refusal is not None:
        return refusal
    start = start_of(leader_ring(candidates), loads, context.random)
    return place(candidates, count, factor, start)


def _configs(topic: CreatableTopic) -> dict[str, str]:
    return {config.name: config.value or "" for config in topic.configs}


def _refused(topic: CreatableTopic, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name, error_code=refusal.error, error_message=refusal.message, configs=[]
    )


def _created(
    topic: CreatableTopic, topic_id: bytes, assignments: Assignments, context: DecisionContext
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=len(assignments),
        replication_factor=len(assignments[0]),
        configs=_shown_configs(_configs(topic), context.config),
    )


_shown_defaults: tuple[object, list[CreatableTopicConfigs]] = (None, [])
"""The broker's values asked about last, and what a topic without its own is shown with."""


def _shown_configs(overrides: dict[str, str], config: BrokerConfig) -> list[CreatableTopicConfigs]:
    """All configs of a topic; those of one that sets none are made once."""
    global _shown_defaults
    if not overrides and _shown_defaults[0] is config.values:
        return _shown_defaults[1]
    shown = [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in topic_config_entries(overrides, config)
    ]
    if not overrides:
        _shown_defaults = (config.values, shown)
    return shown
