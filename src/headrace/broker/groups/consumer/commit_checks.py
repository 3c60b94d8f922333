"""Who may commit and read offsets of a consumer group.

Owns: that. Pure. Must not know: offsets themselves, versions beyond one flag.
Spec: KIP-848 (STALE_MEMBER_EPOCH); Kafka's ConsumerGroup.validateOffsetCommit and -Fetch.

A commit may be on its way while the member's epoch goes up. It counts for the partitions that the
member has owned since that epoch: nobody else can have committed to them in between.
"""

from collections.abc import Iterable, Mapping

from headrace.broker.groups.consumer.group import ConsumerGroup
from headrace.broker.groups.consumer.member import ConsumerMember, TopicIdPartition
from headrace.wire.kafka.errors import ErrorCode

UNKNOWN_MEMBER_ID = ""


def commit_errors(
    group: ConsumerGroup,
    member_id: str,
    group_instance_id: str | None,
    epoch: int,
    partitions: Mapping[tuple[str, int], TopicIdPartition],
    *,
    is_transactional: bool,
    knows_epochs: bool,
) -> ErrorCode | dict[tuple[str, int], ErrorCode]:
    """One error for all, or those of single partitions; empty: commit."""
    if group.is_dead:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if epoch < 0 and not group.members:
        # An administrator, or a consumer that assigns itself its partitions.
        return {}
    if is_transactional and epoch < 0 and not member_id and group_instance_id is None:
        return {}
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not is_transactional and member.classic is None and not knows_epochs:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.member_epoch:
        return {}
    if member.classic is not None:
        return ErrorCode.ILLEGAL_GENERATION
    if epoch > member.member_epoch or epoch < 0:
        return ErrorCode.STALE_MEMBER_EPOCH
    stale = _stale(member, epoch, partitions.items())
    return ErrorCode.STALE_MEMBER_EPOCH if len(stale) == len(partitions) else stale


def _stale(
    member: ConsumerMember,
    epoch: int,
    partitions: Iterable[tuple[tuple[str, int], TopicIdPartition]],
) -> dict[tuple[str, int], ErrorCode]:
    stale = {}
    for key, partition in partitions:
        since = member.assignment_epoch_of(partition)
        if since is None or epoch < since:
            stale[key] = ErrorCode.STALE_MEMBER_EPOCH
    return stale


def fetch_error(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or UNKNOWN_MEMBER_ID)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch == member.member_epoch:
        return ErrorCode.NONE
    return ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
