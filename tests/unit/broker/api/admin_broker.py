"""As much of a broker as the admin APIs see, over a real controller on a simulated disk."""

from types import SimpleNamespace
from typing import Any

from headrace.base.promise import Promise
from headrace.broker.api.registry import BY_KEY, endpoint
from headrace.broker.context import RequestContext
from headrace.broker.encoded_topics import EncodedTopics
from headrace.broker.quotas import ClientQuotas
from headrace.broker.telemetry import ClientTelemetry
from headrace.testing.broker import response_class_of
from headrace.testing.controller import LISTENER, SimulatedController
from headrace.wire.kafka.codec import decode, encode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

CLUSTER_ID = "the-cluster"
NODE_ID = 1
HOST, PORT = "broker.example", 19092


class OffsetsLog:
    """Makes the offsets topic in its own shape, as the broker's does."""

    def __init__(self, cluster: SimulatedController) -> None:
        self._cluster = cluster

    def ensure_exists(self) -> Promise[int]:
        wanted = CreatableTopic(
            name="__consumer_offsets",
            num_partitions=50,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
        )
        promise = self._cluster.submit(CreateTopicsRequest(topics=[wanted]))
        return promise.map(lambda response: int(response.topics[0].error_code))


class AdminBroker(SimpleNamespace):
    """Has what handlers reach for; `call` answers as a client would read it."""

    def __init__(self, **options: Any) -> None:
        cluster = SimulatedController(**options)
        super().__init__(
            cluster=cluster,
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            config=cluster.config,
            controller=cluster.controller,
            offsets_log=OffsetsLog(cluster),
            encoded_topics=EncodedTopics(),
            quotas=ClientQuotas(cluster.config),
            telemetry=ClientTelemetry(1 << 20),
        )

    @property
    def image(self) -> Any:
        return self.cluster.image

    def advertised(self, listener_name: str) -> tuple[str, int]:
        return {LISTENER: (HOST, PORT)}[listener_name]

    def call(self, request: Message, version: int) -> Any:
        """Send a request as bytes; the response, read back from bytes."""
        served = endpoint(request.API_KEY)
        assert served.api.serves(version)
        received, _ = decode(type(request), encode(request, version), version)
        context = RequestContext(request.API_KEY, version, 1, "app", "127.0.0.1:5", LISTENER)
        answer = served.handle(self, received, context)
        if isinstance(answer, Promise):
            self.cluster.settle()
            answer = answer.value()
        data = encode(answer, version)
        read, end = decode(response_class_of(type(request)), data, version)
        assert end == len(data)
        return read

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        wanted = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        (result,) = self.call(CreateTopicsRequest(topics=[wanted]), 7).topics
        assert result.error_code == 0, result.error_message


def versions_of(request_class: type[Message]) -> list[int]:
    """Every version that the registry says is served."""
    api = BY_KEY[request_class.API_KEY]
    return [version for version in range(api.max_version + 1) if api.serves(version)]
