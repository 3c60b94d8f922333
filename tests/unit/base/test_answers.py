"""Answers leave in the order of their requests, never inside a read, never after the end."""

from typing import Any

from headrace.base.answers import OrderedAnswers, Slot
from headrace.base.limits import IN_FLIGHT_REQUESTS_MAX
from headrace.base.promise import Promise


class RecordingTransport:
    peer = "test:1"

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.closed_because: str | None = None
        self.resumed = 0

    def send(self, parts: Any) -> None:
        self.sent += parts

    def close(self, reason: str) -> None:
        self.closed_because = reason

    def resume(self) -> None:
        self.resumed += 1


class Answers(OrderedAnswers):
    __slots__ = ("failures",)

    def __init__(self, transport: RecordingTransport) -> None:
        super().__init__(transport)
        self.failures: list[BaseException] = []

    def on_unexpected(self, error: BaseException) -> None:
        self.failures.append(error)

    def ask(self) -> Promise[Any]:
        slot = Slot()
        self._slots.append(slot)
        promise: Promise[Any] = Promise()
        self._answer_later(slot, promise)
        return promise

    def read(self, inside: bool) -> None:
        self._in_read = inside
        self._send_ready()


def test_an_early_answer_waits_for_those_before_it() -> None:
    transport = RecordingTransport()
    answers = Answers(transport)
    first, second = answers.ask(), answers.ask()
    second.resolve([b"2"])
    assert transport.sent == []
    assert answers.busy
    first.resolve([b"1"])
    assert transport.sent == [b"1", b"2"]
    assert not answers.busy


def test_nothing_leaves_inside_a_read() -> None:
    transport = RecordingTransport()
    answers = Answers(transport)
    answers.read(inside=True)
    answers.ask().resolve([b"1"])
    assert transport.sent == []
    answers.read(inside=False)
    assert transport.sent == [b"1"]


def test_a_failure_closes_the_connection_and_is_told() -> None:
    transport = RecordingTransport()
    answers = Answers(transport)
    error = KeyError("a bug")
    answers.ask().reject(error)
    assert answers.failures == [error]
    assert transport.closed_because is not None


def test_an_answer_after_the_end_goes_nowhere() -> None:
    transport = RecordingTransport()
    answers = Answers(transport)
    late = answers.ask()
    answers.on_closed()
    late.resolve([b"1"])
    assert transport.sent == []
    assert not answers.busy


def test_a_full_queue_stops_reading_and_resumes_when_half_empty() -> None:
    transport = RecordingTransport()
    answers = Answers(transport)
    promises = [answers.ask() for _ in range(IN_FLIGHT_REQUESTS_MAX)]
    assert not answers.ready
    for promise in promises[: IN_FLIGHT_REQUESTS_MAX // 2]:
        promise.resolve([b"x"])
    assert transport.resumed == 0
    promises[IN_FLIGHT_REQUESTS_MAX // 2].resolve([b"x"])
    assert transport.resumed == 1
    assert answers.ready
