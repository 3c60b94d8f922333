"""Requests 83 to 87 as the broker that is asked sees them.

Owns: one request's way through the coordinator, partition by partition. Must not know: what the
coordinator does. A request without topics, without partitions of a topic, or without a group is
answered with nothing, as Kafka does.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.base.promise import Promise
from headrace.broker.share.state.messages import Kind, R, W


def serve(kind: Kind[W, R], request: Any, ask: Callable[[W], Promise[R]]) -> Any | Promise[Any]:
    is_empty = not request.group_id or not request.topics
    if is_empty or not all(topic.partitions for topic in request.topics):
        return kind.response_class()
    wanted = kind.wanted(request)
    results: list[R | None] = [None] * len(wanted)
    left = len(wanted)
    answer: Promise[Any] = Promise()

    def on_result(index: int, settled: Promise[R]) -> None:
        nonlocal left
        results[index] = settled.value()
        left -= 1
        if left == 0:
            answer.resolve(kind.response(wanted, [each for each in results if each is not None]))

    for index, each in enumerate(wanted):
        ask(each).then(partial(on_result, index))
    return answer
