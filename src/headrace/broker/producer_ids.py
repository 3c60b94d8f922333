"""Producer ids: handed out from a block that the controller gave this broker.

Invariants: an id is handed out once, ever: a block is taken from only after it is durable in
the metadata log, and what is left of it dies with the process.
"""

from collections.abc import Callable
from typing import Any, Protocol

from headrace.base.promise import Promise
from headrace.cluster.broker_epochs import ANY_EPOCH
from headrace.wire.kafka.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

REFUSED = -1


class Controller(Protocol):
    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class ProducerIds:
    def __init__(
        self,
        controller: Controller,
        node_id: int,
        principal: str,
        broker_epoch: Callable[[], int] = lambda: ANY_EPOCH,
    ) -> None:
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._node_id = node_id
        self._principal = principal
        self._next = 0
        self._end = 0
        self._waiting: list[Promise[int]] = []

    def next(self) -> Promise[int]:
        """A fresh id, or REFUSED where the controller gave no block."""
        promise: Promise[int] = Promise()
        if self._next < self._end and not self._waiting:
            promise.resolve(self._take())
            return promise
        self._waiting.append(promise)
        if len(self._waiting) == 1:
            self._ask()
        return promise

    def _take(self) -> int:
        taken = self._next
        self._next += 1
        return taken

    def _ask(self) -> None:
        request = AllocateProducerIdsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch()
        )
        self._controller.handle(request, 0, self._principal).then(self._on_block)

    def _on_block(self, settled: Promise[Any]) -> None:
        response = settled.value() if settled.error is None else None
        granted = False
        if isinstance(response, AllocateProducerIdsResponse) and not response.error_code:
            granted = response.producer_id_len > 0
            self._next = response.producer_id_start
            self._end = response.producer_id_start + response.producer_id_len
        waiting, self._waiting = self._waiting, []
        for position, promise in enumerate(waiting):
            if granted and self._next >= self._end:
                # The block was smaller than the queue: the rest asks again, unless one of those
                # who were just told has done so.
                is_asked = bool(self._waiting)
                self._waiting = waiting[position:] + self._waiting
                if not is_asked:
                    self._ask()
                return
            promise.resolve(self._take() if granted else REFUSED)
