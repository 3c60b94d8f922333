"""The quota on mutations of the metadata: partitions created and deleted (KIP-599).

Owns: how many mutations a request asks for, and its refusal above `controller_mutation_rate`.
Must not know: how the rate is kept (`quotas`). Each broker counts what comes by it.

A client that knows the error is refused with THROTTLING_QUOTA_EXCEEDED and a time after which to
come again; an older one is let through, and muted.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.base.promise import Promise
from headrace.broker.context import RequestContext
from headrace.broker.throttling import NODE_CLIENTS
from headrace.wire.kafka.errors import ErrorCode

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED
MESSAGE = "The throttling quota has been exceeded."


def within_quota(
    broker: "Broker",
    request: Any,
    context: RequestContext,
    count: int,
    *,
    strict_since: int,
    refuse: Callable[[], Any],
) -> Promise[Any]:
    """Have the controller decide, unless the client has used up its quota."""
    client_id = context.client_id or ""
    decide = broker.controller.handle
    if not broker.quotas.is_set or client_id.startswith(NODE_CLIENTS):
        return decide(request, context.api_version, context.principal)
    limits = broker.quotas.of(context.principal.removeprefix("User:"), client_id)
    now_ms = broker.clock.monotonic_ms()
    throttle_ms = limits.mutation_throttle_ms(now_ms)
    if throttle_ms > 0 and context.api_version >= strict_since:
        response = refuse()
        response.throttle_time_ms = throttle_ms
        return Promise.resolved(response)
    throttle_ms = limits.on_mutated(count, now_ms)
    strict = context.api_version >= strict_since

    def tell(response: Any) -> Any:
        response.throttle_time_ms = 0 if strict else throttle_ms
        return response

    return decide(request, context.api_version, context.principal).map(tell)
