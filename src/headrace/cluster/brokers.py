"""Deciding on brokers: registration, heartbeats, fences, controlled shutdown, unregistration.

Owns: BrokerRegistration (62), BrokerHeartbeat (63), UnregisterBroker (64) and the fence of a
broker that is not heard of. Pure.
Must not know: when a session ends (it reads `cluster.sessions`), how leaders are chosen.
Spec: KIP-631, KIP-841, KIP-966; Kafka's ClusterControlManager and BrokerHeartbeatManager.

A registration's epoch is the offset of its record. A new incarnation starts fenced. A broker is

    fenced ──(heartbeat, caught up)──▶ unfenced ──(wants to stop, leads what others could)──▶
      ▲                                   │                                 in controlled shutdown
      └──(wants the fence, or its session ends)──────────────────────────────────┘

and may stop at once when it is fenced or leads nothing that others could; in controlled shutdown
when every other broker has read of the leaders that took over.

Where this differs from Kafka: a partition that nobody else could lead keeps its leader through
controlled shutdown, and through the clean restart of a broker that was not fenced meanwhile: a
single node's clean restart writes no record for its partitions. And a new incarnation whose log
directories are those of the old one takes its place at once: the directories are locked, so the
old process is gone.
"""

from headrace.cluster.broker_epochs import broker_refusal
from headrace.cluster.decision import DecisionContext, Records
from headrace.cluster.directories import changes_at_lost_directories
from headrace.cluster.features import unserved_level
from headrace.cluster.image import BrokerImage, ClusterImage
from headrace.cluster.leadership import (
    changes_at_joining,
    changes_at_leaving,
    changes_at_registration,
    changes_at_shutdown,
    movable,
)
from headrace.cluster.registrations import (
    DIRECTORY_LOST,
    DIRECTORY_MIGRATING,
    DIRECTORY_UNASSIGNED,
    broker_record,
    endpoints_of,
    features_of,
)
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
    BrokerRegistrationChangeRecord,
    UnregisterBrokerRecord,
)
from headrace.wire.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

_RESERVED = (DIRECTORY_UNASSIGNED, DIRECTORY_LOST, DIRECTORY_MIGRATING)


# Registration.


def decide_register_broker(
    image: ClusterImage, request: BrokerRegistrationRequest, context: DecisionContext
) -> tuple[Records, BrokerRegistrationResponse]:
    error = _registration_refusal(image, request, context)
    if error is not None:
        return [], BrokerRegistrationResponse(error_code=error)
    before = image.brokers.get(request.broker_id)
    if before is not None and before.incarnation_id == bytes(request.incarnation_id):
        # The answer was lost, or its listeners changed: still the same process.
        amended = _registered(
            request,
            before.broker_epoch,
            before,
            fenced=before.fenced,
            in_controlled_shutdown=before.in_controlled_shutdown,
        )
        records: Records = [] if amended == before else [broker_record(amended)]
        return records, BrokerRegistrationResponse(broker_epoch=before.broker_epoch)
    records = []
    if before is not None:
        # Story: 1. a process registers and is killed; 2. the next one has not heard of that, and
        # vouches for the life before; 3. what never was unfenced had nothing to lose.
        vouched_for = (before.broker_epoch, *before.replaced_epochs)
        is_clean = request.previous_broker_epoch in vouched_for
        coming = _registered(request, -1, before)
        records = changes_at_registration(image, coming, context, is_clean=is_clean)
    broker_epoch = image.last_offset + 1 + len(records)
    records.append(broker_record(_registered(request, broker_epoch, before)))
    return records, BrokerRegistrationResponse(broker_epoch=broker_epoch)


def _registered(
    request: BrokerRegistrationRequest,
    broker_epoch: int,
    before: BrokerImage | None,
    *,
    fenced: bool = True,
    in_controlled_shutdown: bool = False,
) -> BrokerImage:
    log_dirs = tuple(bytes(directory) for directory in request.log_dirs)
    # A registration says nothing of it, the first heartbeat does: until then it is as it was.
    cordoned = () if before is None else before.cordoned_log_dirs
    return BrokerImage(
        broker_id=request.broker_id,
        broker_epoch=broker_epoch,
        incarnation_id=bytes(request.incarnation_id),
        endpoints=endpoints_of(request.listeners),
        features=features_of(request.features),
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=log_dirs,
        cordoned_log_dirs=tuple(each for each in cordoned if each in log_dirs),
    )


def _registration_refusal(
    image: ClusterImage, request: BrokerRegistrationRequest, context: DecisionContext
) -> ErrorCode | None:
    if context.cluster_id is not None and request.cluster_id != context.cluster_id:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    if request.is_migrating_zk_broker:
        return ErrorCode.BROKER_ID_NOT_REGISTERED
    if _is_duplicate(image, request, context):
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if not _are_directories_valid(image, request):
        return ErrorCode.INVALID_REGISTRATION
    for feature in request.features:
        level = image.features.get(feature.name, 0)
        if not feature.min_supported_version <= level <= feature.max_supported_version:
            return ErrorCode.UNSUPPORTED_VERSION
    if unserved_level(image, features_of(request.features)) is not None:
        return ErrorCode.UNSUPPORTED_VERSION
    return None


def _is_duplicate(
    image: ClusterImage, request: BrokerRegistrationRequest, context: DecisionContext
) -> bool:
    """Does another process live under this id?"""
    before = image.brokers.get(request.broker_id)
    if before is None or before.fenced:
        return False
    if before.incarnation_id == bytes(request.incarnation_id):
        return False
    if set(before.log_dirs) & {bytes(directory) for directory in request.log_dirs}:
        return False
    return context.sessions.is_alive(request.broker_id, context.now_ms)


def _are_directories_valid(image: ClusterImage, request: BrokerRegistrationRequest) -> bool:
    directories = {bytes(directory) for directory in request.log_dirs}
    if len(directories) != len(request.log_dirs) or not directories.isdisjoint(_RESERVED):
        return False
    return all(
        directories.isdisjoint(other.log_dirs)
        for other in image.brokers.values()
        if other.broker_id != request.broker_id
    )


# Heartbeats.


def decide_broker_heartbeat(
    image: ClusterImage, request: BrokerHeartbeatRequest, context: DecisionContext
) -> tuple[Records, BrokerHeartbeatResponse]:
    error = broker_refusal(image, request.broker_id, request.broker_epoch)
    if error is not None:
        return [], BrokerHeartbeatResponse(error_code=error)
    broker = image.brokers[request.broker_id]
    caught_up = request.current_metadata_offset >= broker.broker_epoch
    response = BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced)
    records: Records = []
    if request.want_shut_down:
        records = _towards_shutdown(image, broker, request, context, response)
    elif request.want_fence:
        records = fence_records(image, broker, context)
        response.is_fenced = True
    elif broker.fenced and caught_up:
        records = _unfence_records(image, broker, context)
        response.is_fenced = False
    lost = {bytes(directory) for directory in request.offline_log_dirs} & set(broker.log_dirs)
    if lost and not records:
        # Every heartbeat tells of them again: one step at a time.
        records = changes_at_lost_directories(image, broker, lost, context)
    return [*records, *_cordon_records(broker, request)], response


def _cordon_records(broker: BrokerImage, request: BrokerHeartbeatRequest) -> Records:
    """What the broker says of its cordoned directories, where it is new (KIP-1066)."""
    if request.cordoned_log_dirs is None:
        return []
    told = sorted({bytes(each) for each in request.cordoned_log_dirs} & set(broker.log_dirs))
    if told == sorted(broker.cordoned_log_dirs):
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=told
        )
    ]


def _towards_shutdown(
    image: ClusterImage,
    broker: BrokerImage,
    request: BrokerHeartbeatRequest,
    context: DecisionContext,
    response: BrokerHeartbeatResponse,
) -> Records:
    """Leaderships first, then the others' reading of it, then the broker."""
    records: Records = []
    if not broker.fenced and not request.want_fence:
        leads = any(part.leader == broker.broker_id for _, part in movable(image, broker.broker_id))
        if leads:
            records = changes_at_shutdown(image, broker.broker_id, context)
        if leads and not broker.in_controlled_shutdown:
            records.insert(0, _change(broker, in_controlled_shutdown=1))
        if leads or not _have_others_read(image, broker, context):
            return records
    response.should_shut_down = True
    response.is_fenced = True
    others = [other for other in image.brokers.values() if other.is_usable and other != broker]
    # With nobody left to tell, a fence would only be lifted again at the next start.
    return fence_records(image, broker, context) if others else []


def _have_others_read(image: ClusterImage, broker: BrokerImage, context: DecisionContext) -> bool:
    """Has every other live broker read of the leaders that took over?"""
    if not broker.in_controlled_shutdown:
        return True
    offset = context.sessions.shutdown_offset(broker.broker_id)
    if offset is None:
        # A controller that has just become active: what it knows is the safe bound.
        offset = image.last_offset
    return all(
        context.sessions.metadata_offset(other.broker_id) >= offset
        for other in image.brokers.values()
        if other.is_usable
    )


def _unfence_records(image: ClusterImage, broker: BrokerImage, context: DecisionContext) -> Records:
    return [_change(broker, fenced=-1), *changes_at_joining(image, broker.broker_id, context)]


def fence_records(image: ClusterImage, broker: BrokerImage, context: DecisionContext) -> Records:
    records = changes_at_leaving(image, broker.broker_id, context)
    if not broker.fenced:
        records.append(_change(broker, fenced=1))
    return records


def _change(
    broker: BrokerImage, *, fenced: int = 0, in_controlled_shutdown: int = 0
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
    )


def decide_fence(
    image: ClusterImage, broker_id: int, context: DecisionContext
) -> tuple[Records, bool]:
    """The broker's session has ended. True if that changed anything."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        return [], False
    records = fence_records(image, broker, context)
    return records, bool(records)


# The end.


def decide_unregister_broker(
    image: ClusterImage, request: UnregisterBrokerRequest, context: DecisionContext
) -> tuple[Records, UnregisterBrokerResponse]:
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        return [], UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
            error_message=f"Broker ID {request.broker_id} is not currently registered",
        )
    records = changes_at_leaving(image, broker.broker_id, context)
    records.append(
        UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
    )
    return records, UnregisterBrokerResponse(error_message=None)
