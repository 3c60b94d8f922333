"""IncrementalAlterConfigs (key 44), versions 0–1.

0 set, delete, append, subtract (KIP-339) · 1 flexible.
Missing: resources other than topics, brokers and client metrics.

Decided by the controller (`cluster.configs`), but for what only this broker knows of itself: which
log directories it has.
"""

from typing import TYPE_CHECKING

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.cordon import cordon_refusals
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker", request: IncrementalAlterConfigsRequest, context: RequestContext
) -> Promise[IncrementalAlterConfigsResponse]:
    refused = cordon_refusals(broker.config, broker.node_id, request.resources)
    if not refused:
        return broker.controller.handle(request, context.api_version, context.principal)
    request.resources = [
        each
        for each in request.resources
        if (each.resource_type, each.resource_name) not in refused
    ]
    rest = broker.controller.handle(request, context.api_version, context.principal)
    return rest.map(lambda response: _with_refused(response, refused))


def _with_refused(
    response: IncrementalAlterConfigsResponse, refused: dict[tuple[int, str], str]
) -> IncrementalAlterConfigsResponse:
    response.responses += [
        AlterConfigsResourceResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=reason,
            resource_type=resource_type,
            resource_name=name,
        )
        for (resource_type, name), reason in refused.items()
    ]
    return response
