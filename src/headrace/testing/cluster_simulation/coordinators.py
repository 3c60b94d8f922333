"""The coordinator of one group or one transactional id, as a client of a simulated cluster asks it.

Owns: finding it, and asking again elsewhere when it has moved, died, or is not ready. Must not
know: what is asked.

Invariant: an answer is handed on once, and only one that asking again would not change.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.testing.cluster_simulation.clients import RETRY_MS
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.add_partitions_to_txn import AddPartitionsToTxnResponse
from headrace.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.kafka.messages.offset_commit import OffsetCommitResponse
from headrace.wire.kafka.messages.offset_fetch import OffsetFetchResponse
from headrace.wire.kafka.messages.txn_offset_commit import TxnOffsetCommitResponse

if TYPE_CHECKING:
    from headrace.testing.cluster_simulation.clients import Client

KEY_TYPE_GROUP, KEY_TYPE_TRANSACTION = 0, 1
NOBODY = -1
OnResponse = Callable[[Any], None]
FATAL = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""What can't be mended by asking again."""


class Coordinator:
    def __init__(self, client: "Client", key: str, key_type: int) -> None:
        self._client = client
        self._key = key
        self._key_type = key_type
        self.node_id = NOBODY
        """Where it was last seen."""

    def ask(self, request: Any, on_response: OnResponse, version: int | None = None) -> None:
        """Until there is an answer that can't be mended by asking again."""

        def again() -> None:
            self.ask(request, on_response, version)

        def on_answer(response: Any) -> None:
            error = ErrorCode.NONE if response is None else error_of(response)
            if response is None or (error and error not in FATAL):
                self.node_id = NOBODY
                self._later(again)
            else:
                on_response(response)

        self.ask_once(request, on_answer, version)

    def ask_once(self, request: Any, on_answer: OnResponse, version: int | None = None) -> None:
        """Whatever it says, or None; it is looked for first if it is not known."""

        def send() -> None:
            self._client.ask(self.node_id, request, on_answer, version)

        if self.node_id == NOBODY:
            self._find(send)
        else:
            send()

    def _find(self, then: Callable[[], None]) -> None:
        world = self._client.world
        serving = [node.node_id for node in world.running if node.is_serving]

        def on_response(response: Any) -> None:
            if response is not None and not response.coordinators[0].error_code:
                self.node_id = response.coordinators[0].node_id
                then()
            else:
                self._later(self._find, then)

        if not serving:
            self._later(self._find, then)
            return
        request = FindCoordinatorRequest(coordinator_keys=[self._key], key_type=self._key_type)
        self._client.ask(world.dice.choice(serving), request, on_response)

    def _later(self, action: Callable[..., None], *arguments: Any) -> None:
        world = self._client.world
        world.schedule(RETRY_MS // 2 + world.dice.randrange(RETRY_MS), action, *arguments)


def error_of(response: Any) -> ErrorCode:
    """Of an answer about one partition, one group or one transaction."""
    if isinstance(response, AddPartitionsToTxnResponse):
        (topic,) = response.results_by_topic_v3_and_below
        return ErrorCode.of(topic.results_by_partition[0].partition_error_code)
    if isinstance(response, OffsetFetchResponse):
        (group,) = response.groups
        told = group.error_code or group.topics[0].partitions[0].error_code
        return ErrorCode.of(told)
    if isinstance(response, OffsetCommitResponse | TxnOffsetCommitResponse):
        return ErrorCode.of(response.topics[0].partitions[0].error_code)
    return ErrorCode.of(response.error_code)
