"""The controller's listener: who answers what, envelopes, refusals, and order."""

from typing import Any

import pytest

from headrace.base.broker_config import BrokerConfig
from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.cluster.image import ClusterImage
from headrace.cluster.listener import ControllerListener, ControllerSession
from headrace.cluster.listener_apis import CONTROLLER_APIS, FORWARDABLE, Answerer, answerer_of
from headrace.cluster.principals import decode_principal, encode_principal
from headrace.quorum.state_machine import NotLeader
from headrace.testing.clock import SimulatedClock
from headrace.testing.network import SimulatedTransport
from headrace.wire.kafka.api_keys import API_KEYS
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import decode_response, encode_request
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from headrace.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from headrace.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse
from headrace.wire.kafka.messages.metadata import MetadataRequest
from headrace.wire.kafka.messages.produce import ProduceRequest
from headrace.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from headrace.wire.kafka.messages.vote import VoteRequest, VoteResponse
from headrace.wire.kafka.served import response_class_of


class Door:
    """A controller or a replica that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.promises: list[Promise[Any]] = []

    def handle(self, *asked: Any) -> Promise[Any]:
        self.asked.append(asked)
        promise: Promise[Any] = Promise()
        self.promises.append(promise)
        return promise


class Stage:
    def __init__(self) -> None:
        self.controller, self.replica = Door(), Door()
        self.events: list[str] = []
        self.listener = ControllerListener(
            node_id=101,
            cluster_id="cluster",
            config=BrokerConfig.of({"node.id": "101"}),
            replica=self.replica,
            controller=self.controller,
            image=ClusterImage,
            leader_id=lambda: 102,
            listener_name="CONTROLLER",
            events=EventLog(self.events.append, SimulatedClock()),
        )
        self.transport = SimulatedTransport(lambda t: ControllerSession(self.listener, t))
        self._correlation_id = 0
        self._sent: list[tuple[type[Message], int]] = []

    def send(self, request: Message, version: int | None = None) -> None:
        version = request.VERSIONS[1] if version is None else version
        self._correlation_id += 1
        self._sent.append((type(request), version))
        self.transport.feed(encode_request(request, version, self._correlation_id, "test"))

    def received(self) -> list[Any]:
        answers = []
        for frame in self.transport.take():
            request_class, version = self._sent.pop(0)
            answers.append(decode_response(response_class_of(request_class), frame, version)[1])
        return answers

    def ask(self, request: Message, version: int | None = None) -> Any:
        self.send(request, version)
        (answer,) = self.received()
        return answer


def creation(name: str = "t") -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=1)


def enveloped(request: Message, version: int, principal: str = "User:bob") -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=encode_request(request, version, 77, "client")[4:],
        request_principal=encode_principal(principal),
        client_host_address=b"\x7f\x00\x00\x01",
    )


def test_the_table_is_of_apis_that_kafka_gives_controllers() -> None:
    for api in CONTROLLER_APIS:
        assert "controller" in API_KEYS[api.key].listeners, api.name
        assert (api.min_version, api.max_version) == (
            API_KEYS[api.key].min_version,
            API_KEYS[api.key].max_version,
        )
    assert all(answerer_of(key) is not Answerer.LISTENER for key in FORWARDABLE)


def test_api_versions_tell_the_table() -> None:
    stage = Stage()
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer = stage.ask(request, 4)
    assert {row.api_key for row in answer.api_keys} == {api.key for api in CONTROLLER_APIS}


def test_api_versions_of_the_future_are_answered_in_version_0() -> None:
    stage = Stage()
    frame = bytearray(encode_request(ApiVersionsRequest(), 4, 9, "test"))
    frame[6:8] = (99).to_bytes(2)
    stage.transport.feed(bytes(frame))
    (answer,) = stage.transport.take()
    _, told = decode_response(ApiVersionsResponse, answer, 0)
    assert told.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [row.api_key for row in told.api_keys] == [18]


@pytest.mark.parametrize("request_", [MetadataRequest(), ProduceRequest()], ids=["3", "0"])
def test_an_api_of_brokers_costs_the_connection(request_: Message) -> None:
    stage = Stage()
    stage.send(request_)
    assert stage.transport.close_reason is not None
    assert stage.controller.asked == []


def test_the_replica_answers_its_rpcs_and_the_controller_the_rest() -> None:
    stage = Stage()
    stage.send(VoteRequest(cluster_id="c"))
    stage.send(BrokerHeartbeatRequest(broker_id=3))
    ((vote, version),) = stage.replica.asked
    assert (vote, version) == (VoteRequest(cluster_id="c"), VoteRequest.VERSIONS[1])
    ((beat, _, principal),) = stage.controller.asked
    assert (beat, principal) == (BrokerHeartbeatRequest(broker_id=3), "User:ANONYMOUS")


def test_answers_come_in_order() -> None:
    stage = Stage()
    stage.send(creation())
    stage.send(VoteRequest())
    stage.replica.promises[0].resolve(VoteResponse())
    assert stage.received() == []
    stage.controller.promises[0].resolve(CreateTopicsResponse())
    first, second = stage.received()
    assert isinstance(first, CreateTopicsResponse)
    assert isinstance(second, VoteResponse)


def test_one_that_does_not_lead_says_so() -> None:
    stage = Stage()
    stage.send(creation())
    stage.controller.promises[0].reject(NotLeader(102, 5))
    (answer,) = stage.received()
    assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER


def test_a_bug_costs_the_connection_and_is_counted() -> None:
    stage = Stage()
    stage.send(creation())
    stage.controller.promises[0].reject(KeyError("bug"))
    assert stage.transport.close_reason is not None
    assert stage.listener.handler_failures == 1
    assert any("handler_failed" in line for line in stage.events)


def test_an_envelope_is_opened_for_whom_it_names() -> None:
    stage = Stage()
    stage.send(enveloped(creation(), 7))
    ((request, version, principal),) = stage.controller.asked
    assert (request, version, principal) == (creation(), 7, "User:bob")
    stage.controller.promises[0].resolve(CreateTopicsResponse(throttle_time_ms=3))
    (envelope,) = stage.received()
    assert isinstance(envelope, EnvelopeResponse)
    assert envelope.error_code == 0
    correlation_id, inside = decode_response(CreateTopicsResponse, envelope.response_data or b"", 7)
    assert (correlation_id, inside.throttle_time_ms) == (77, 3)


def test_an_envelope_may_ask_the_quorum() -> None:
    stage = Stage()
    stage.send(enveloped(DescribeQuorumRequest(), 2))
    stage.replica.promises[0].resolve(DescribeQuorumResponse(error_code=0))
    (envelope,) = stage.received()
    assert decode_response(DescribeQuorumResponse, envelope.response_data, 2)[0] == 77


def test_an_envelope_to_one_that_does_not_lead_comes_back() -> None:
    stage = Stage()
    stage.send(enveloped(creation(), 7))
    stage.controller.promises[0].reject(NotLeader(102, 5))
    (envelope,) = stage.received()
    assert envelope.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("envelope", "error"),
    [
        (enveloped(VoteRequest(), 2), ErrorCode.INVALID_REQUEST),
        (enveloped(MetadataRequest(topics=[]), 9), ErrorCode.INVALID_REQUEST),
        (EnvelopeRequest(request_data=b"\x00"), ErrorCode.INVALID_REQUEST),
        (
            EnvelopeRequest(request_data=(19).to_bytes(2) + (99).to_bytes(2) + bytes(8)),
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            EnvelopeRequest(
                request_data=encode_request(creation(), 7, 1, "c")[4:-3], request_principal=b""
            ),
            ErrorCode.INVALID_REQUEST,
        ),
        (
            EnvelopeRequest(
                request_data=encode_request(creation(), 7, 1, "c")[4:], request_principal=b"\x00"
            ),
            ErrorCode.INVALID_REQUEST,
        ),
    ],
    ids=["a vote", "metadata", "nonsense", "no such version", "cut short", "a torn principal"],
)
def test_what_must_not_be_in_an_envelope(envelope: EnvelopeRequest, error: ErrorCode) -> None:
    stage = Stage()
    assert stage.ask(envelope).error_code == error
    assert stage.controller.asked == stage.replica.asked == []


def test_describe_cluster_is_of_controllers() -> None:
    stage = Stage()
    answer = stage.ask(DescribeClusterRequest(endpoint_type=2))
    assert (answer.cluster_id, answer.controller_id, answer.endpoint_type) == ("cluster", 102, 2)
    mismatch = stage.ask(DescribeClusterRequest(endpoint_type=1))
    assert mismatch.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def test_a_controller_tells_its_own_configs() -> None:
    stage = Stage()
    own = DescribeConfigsResource(resource_type=4, resource_name="101", configuration_keys=None)
    (result,) = stage.ask(DescribeConfigsRequest(resources=[own])).results
    values = {config.name: config.value for config in result.configs}
    assert values["node.id"] == "101"


def test_no_sasl_mechanism_is_granted() -> None:
    answer = Stage().ask(SaslHandshakeRequest(mechanism="PLAIN"))
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


def test_a_frame_too_short_for_a_header_costs_the_connection() -> None:
    stage = Stage()
    stage.transport.feed(b"\x00\x00\x00\x02\x00\x12")
    assert stage.transport.close_reason is not None


@pytest.mark.parametrize("principal", ["User:ANONYMOUS", "User:a:b", "Role:x"])
def test_principals_travel(principal: str) -> None:
    assert decode_principal(encode_principal(principal)) == principal
    assert decode_principal(None) == "User:ANONYMOUS"
