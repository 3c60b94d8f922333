"""Producer ids from blocks: one request for many who wait, no id twice."""

from typing import Any

from headrace.base.promise import Promise
from headrace.broker.producer_ids import REFUSED, ProducerIds
from headrace.wire.kafka.messages.allocate_producer_ids import AllocateProducerIdsResponse


class Controller:
    """Answers when told to."""

    def __init__(self, block_size: int = 3) -> None:
        self.asked: list[Promise[Any]] = []
        self.next_start = 100
        self.block_size = block_size

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]:
        assert (request.broker_id, api_version, principal) == (1, 0, "User:me")
        promise: Promise[Any] = Promise()
        self.asked.append(promise)
        return promise

    def grant(self) -> None:
        start, self.next_start = self.next_start, self.next_start + self.block_size
        self.asked.pop(0).resolve(
            AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=self.block_size)
        )


def made(block_size: int = 3) -> tuple[Controller, ProducerIds]:
    controller = Controller(block_size)
    return controller, ProducerIds(controller, 1, "User:me")


def test_a_block_is_asked_for_once_and_used_up() -> None:
    controller, ids = made()
    waiting = [ids.next() for _ in range(3)]
    assert len(controller.asked) == 1
    assert not any(promise.settled for promise in waiting)
    controller.grant()
    assert [promise.value() for promise in waiting] == [100, 101, 102]
    assert not controller.asked
    later = ids.next()
    assert not later.settled
    controller.grant()
    assert later.value() == 103
    assert ids.next().value() == 104


def test_more_wait_than_a_block_has() -> None:
    controller, ids = made()
    waiting = [ids.next() for _ in range(8)]
    for _ in range(3):
        controller.grant()
    assert [promise.value() for promise in waiting] == list(range(100, 108))
    assert ids.next().value() == 108


def test_a_refusal_is_told_and_the_next_asks_again() -> None:
    controller, ids = made()
    first = ids.next()
    controller.asked.pop().resolve(AllocateProducerIdsResponse(error_code=77))
    assert first.value() == REFUSED
    second = ids.next()
    controller.grant()
    assert second.value() == 100


def test_a_controller_that_fails_refuses_all_who_wait() -> None:
    controller, ids = made()
    waiting = [ids.next() for _ in range(3)]
    controller.asked.pop().reject(RuntimeError("no metadata log"))
    assert [promise.value() for promise in waiting] == [REFUSED] * 3
    assert not controller.asked
    again = ids.next()
    controller.grant()
    assert again.value() == 100


def test_one_refusal_is_for_all_who_wait() -> None:
    """Asking again for each of them, of a controller that answers at once, would go deep."""
    controller, ids = made()
    waiting = [ids.next() for _ in range(2000)]
    controller.asked.pop().resolve(AllocateProducerIdsResponse(error_code=77))
    assert [promise.value() for promise in waiting] == [REFUSED] * 2000
    assert not controller.asked


def test_one_who_is_told_may_ask_again_at_once() -> None:
    controller, ids = made()
    seen: list[int] = []

    def on_id(settled: Promise[int]) -> None:
        seen.append(settled.value())
        if len(seen) < 6:
            ids.next().then(on_id)

    ids.next().then(on_id)
    other = ids.next()
    controller.grant()
    assert len(controller.asked) == 1
    controller.grant()
    assert len(controller.asked) == 1
    controller.grant()
    assert {*seen, other.value()} == set(range(100, 107))
