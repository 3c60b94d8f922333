"""DeleteGroups (key 42), versions 0–2.

1 throttle time · 2 flexible. A group is deleted with its offsets, a share group with the states of
its partitions, once the log has kept that; one with members is NON_EMPTY_GROUP.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: DeleteGroupsRequest,
    context: RequestContext,  # noqa: ARG001
) -> DeleteGroupsResponse | Promise[DeleteGroupsResponse]:
    results = [DeletableGroupResult(group_id=group_id) for group_id in request.groups_names]
    response: Promise[DeleteGroupsResponse] = Promise()
    waiting = len(results)

    def on_deleted(result: DeletableGroupResult, deleted: Promise[ErrorCode]) -> None:
        nonlocal waiting
        result.error_code = int(deleted.value())
        waiting -= 1
        if waiting == 0:
            response.resolve(DeleteGroupsResponse(results=results))

    if not results:
        return DeleteGroupsResponse()
    for result in results:
        broker.groups.delete_group(result.group_id).then(
            lambda deleted, result=result: on_deleted(result, deleted)  # type: ignore[misc]
        )
    return response
