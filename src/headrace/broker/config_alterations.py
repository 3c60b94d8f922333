"""Alterations of configs on their way to the controller, without what only this broker can refuse.

Owns: the division of a request into what is refused here and what the controller decides. Must not
know: which request it is (AlterConfigs and IncrementalAlterConfigs name resources alike), what a
config means.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.cordon import cordon_refusals
from headrace.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def alter(
    broker: "Broker", request: Any, context: RequestContext, refused_row: Callable[..., Any]
) -> Promise[Any]:
    """The controller's response, with a `refused_row` for each resource that is refused here."""
    refused = cordon_refusals(broker.config, broker.node_id, request.resources)
    if refused:
        request.resources = [
            each
            for each in request.resources
            if (each.resource_type, each.resource_name) not in refused
        ]

    def with_refused(response: Any) -> Any:
        response.responses += [
            refused_row(
                error_code=ErrorCode.INVALID_REQUEST,
                error_message=reason,
                resource_type=resource_type,
                resource_name=name,
            )
            for (resource_type, name), reason in refused.items()
        ]
        return response

    decided = broker.controller.handle(request, context.api_version, context.principal)
    return decided.map(with_refused) if refused else decided
