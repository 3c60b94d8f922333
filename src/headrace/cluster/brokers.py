"""Deciding on brokers: registration and the heartbeats that fence and unfence.

Owns: the decisions and the checks of a broker's id and epoch. Pure.
Must not know: sessions and their time-outs (they come with several brokers).
Spec: KIP-631; Kafka's ClusterControlManager.

A registration's epoch is the offset of its record. A new incarnation of a broker starts fenced;
its first heartbeat that does not ask for the fence lifts it. After an unclean stop the leader
epoch of every partition it leads goes up, so that followers and consumers can tell records that
were lost with the page cache from those written at the same offsets afterwards (KIP-101, KIP-320).
"""

from headrace.cluster.decision import DecisionContext, Records
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headrace.wire.kafka.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from headrace.wire.kafka.messages.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)

ANY_EPOCH = -1
"""A caller in the same process that has no epoch to show."""


def broker_refusal(image: ClusterImage, broker_id: int, broker_epoch: int) -> ErrorCode | None:
    broker = image.brokers.get(broker_id)
    if broker is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if broker_epoch not in (ANY_EPOCH, broker.broker_epoch):
        return ErrorCode.STALE_BROKER_EPOCH
    return None


def decide_register_broker(
    image: ClusterImage, request: BrokerRegistrationRequest, _context: DecisionContext
) -> tuple[Records, BrokerRegistrationResponse]:
    for feature in request.features:
        level = image.features.get(feature.name, 0)
        if not feature.min_supported_version <= level <= feature.max_supported_version:
            return [], BrokerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=image.last_offset + 1,
        end_points=[
            BrokerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            BrokerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )
    return [record], BrokerRegistrationResponse(broker_epoch=record.broker_epoch)


def decide_broker_heartbeat(
    image: ClusterImage, request: BrokerHeartbeatRequest, _context: DecisionContext
) -> tuple[Records, BrokerHeartbeatResponse]:
    error = broker_refusal(image, request.broker_id, request.broker_epoch)
    if error is not None:
        return [], BrokerHeartbeatResponse(error_code=error)
    broker = image.brokers[request.broker_id]
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    records: Records = []
    if broker.fenced != request.want_fence and (request.want_fence or caught_up):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.broker_epoch,
                fenced=1 if request.want_fence else -1,
            )
        )
    fenced = request.want_fence or (broker.fenced and not caught_up)
    return records, BrokerHeartbeatResponse(
        is_caught_up=caught_up, is_fenced=fenced, should_shut_down=request.want_shut_down
    )


def decide_new_leader_epochs(image: ClusterImage, broker_id: int) -> tuple[Records, int]:
    """After an unclean stop: every partition that the broker leads begins a new leader epoch."""
    records: Records = [
        PartitionChangeRecord(
            partition_id=partition.index, topic_id=topic.topic_id, leader=broker_id
        )
        for topic, partition in image.partitions_led_by(broker_id)
    ]
    return records, len(records)
