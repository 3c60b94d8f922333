"""ListTransactions (key 66), versions 0–2 (KIP-664).

1 running for longer than (KIP-994) · 2 a pattern for transactional ids (KIP-1152).
Missing: nothing. Kafka's patterns are RE2's; Python's agree with them in what ids are matched by.
"""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.context import RequestContext
from headrace.broker.transactions.metadata import TransactionMetadata
from headrace.broker.transactions.states import BY_TITLE
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


def handle(
    broker: "Broker",
    request: ListTransactionsRequest,
    context: RequestContext,  # noqa: ARG001
) -> ListTransactionsResponse:
    found = broker.transactions.all()
    if isinstance(found, ErrorCode):
        return ListTransactionsResponse(error_code=int(found))
    pattern: re.Pattern[str] | None = None
    if request.transactional_id_pattern:
        try:
            pattern = re.compile(request.transactional_id_pattern)
        except re.error:
            return ListTransactionsResponse(error_code=int(ErrorCode.INVALID_REGULAR_EXPRESSION))
    is_wanted = _filter(request, pattern, broker.clock.now_ms())
    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in BY_TITLE],
        transaction_states=[
            TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=one.state.title,
            )
            for one in found
            if is_wanted(one)
        ],
    )


def _filter(
    request: ListTransactionsRequest, pattern: re.Pattern[str] | None, now_ms: int
) -> Callable[[TransactionMetadata], bool]:
    producer_ids = frozenset(request.producer_id_filters)
    states = frozenset(BY_TITLE[name] for name in request.state_filters if name in BY_TITLE)
    has_states = bool(request.state_filters)

    def is_wanted(one: TransactionMetadata) -> bool:
        if producer_ids and one.producer_id not in producer_ids:
            return False
        if has_states and one.state not in states:
            return False
        # An id that never began anything has run since ever, as in Kafka.
        if 0 <= now_ms - one.start_timestamp_ms <= request.duration_filter:
            return False
        return pattern is None or pattern.fullmatch(one.transactional_id) is not None

    return is_wanted
