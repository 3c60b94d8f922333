"""As much of a broker as group APIs see, and calls that go through bytes in any version."""

from types import SimpleNamespace
from typing import Any, TypeVar

from tests.unit.broker.groups.stage import Stage, image_of, topic_image

from headrace.base.promise import Promise
from headrace.broker.api.registry import endpoint
from headrace.broker.context import RequestContext
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.message import Message

R = TypeVar("R", bound=Message)

NODE_ID = 7


class GroupBroker(SimpleNamespace):
    """Has what handlers reach for; `call` answers as a client would read it."""

    def __init__(self, **options: Any) -> None:
        stage = Stage(**options)
        stage.image = image_of(
            topic_image("t"), topic_image("u"), topic_image("__consumer_offsets", 3)
        )
        for topic in stage.image.topics_by_name.values():
            topic.partitions = [
                type(partition)(partition.index, NODE_ID, 0, (NODE_ID,), (NODE_ID,))
                for partition in topic.partitions
            ]
        super().__init__(
            stage=stage, node_id=NODE_ID, image=stage.image, clock=stage.clock, timers=stage.timers
        )

    @property
    def groups(self) -> Any:
        return self.stage.coordinator

    def advertised(self, listener_name: str) -> tuple[str, int]:
        return {"PLAINTEXT": ("broker.example", 9092)}[listener_name]

    def ask(self, request: Message, version: int, client_id: str | None = "app") -> Promise[Any]:
        """Send a request as bytes; a promise of the response, read back from bytes."""
        served = endpoint(request.API_KEY)
        assert served.api.serves(version)
        received, _ = decode(type(request), encode(request, version), version)
        context = RequestContext(
            request.API_KEY, version, 1, client_id, "127.0.0.1:5555", "PLAINTEXT"
        )
        answer = served.handle(self, received, context)
        if not isinstance(answer, Promise):
            answer = Promise.resolved(answer)

        def through_bytes(response: Message) -> Message:
            data = encode(response, version)
            read, end = decode(type(response), data, version)
            assert end == len(data)
            return read

        return answer.map(through_bytes)

    def call(self, request: Message, version: int, response_class: type[R]) -> R:
        answer = self.ask(request, version).value()
        assert isinstance(answer, response_class)
        return answer


def versions_of(request_class: type[Message]) -> range:
    low, high = request_class.VERSIONS
    return range(low, high + 1)
