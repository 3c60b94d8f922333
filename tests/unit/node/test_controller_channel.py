"""The way to the active controller, against peers that answer as a test tells them."""

from collections.abc import Callable
from typing import Any

import pytest

from headrace.base.promise import Promise
from headrace.cluster.principals import decode_principal
from headrace.node.controller_channel import REST_MS, SEEN_MS_MAX, ControllerChannel
from headrace.quorum.peers import OnAnswer
from headrace.quorum.state_machine import NotLeader
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.codec import decode
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.frames import decode_request_header, encode_response
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headrace.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.kafka.messages.envelope import EnvelopeRequest, EnvelopeResponse

VERSION = 7
TIMEOUT_MS = 5_000


def create(name: str = "t", timeout_ms: int = 0) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    return CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)


def created(name: str = "t") -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, configs=[])])


class Quorum:
    leader_id = 9


class Peers:
    """Keeps what is sent; a test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, Message, OnAnswer]] = []

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        self.sent.append((target_id, request, on_answer))


class Local:
    def __init__(self) -> None:
        self.asked: list[Promise[Any]] = []

    def handle(self, _request: Any, _version: int, _principal: str) -> Promise[Any]:
        promise: Promise[Any] = Promise()
        self.asked.append(promise)
        return promise


class Stage:
    def __init__(self, *, has_local: bool = False) -> None:
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.quorum, self.peers, self.local = Quorum(), Peers(), Local()
        self.is_active = False
        self.channel = ControllerChannel(
            node_id=1,
            leadership=self.quorum,
            peers=self.peers,
            clock=self.clock,
            timers=self.timers,
            timeout_ms=TIMEOUT_MS,
            local=self.local if has_local else None,
            is_active=lambda: self.is_active,
        )

    def ask(self, request: Any = None, version: int = VERSION) -> Promise[Any]:
        return self.channel.handle(create() if request is None else request, version, "User:alice")

    def answer(self, response: Message | None, *, refused: bool = False) -> None:
        self.peers.sent[-1][2](response, refused)

    def answer_inside(self, response: Message) -> None:
        data = encode_response(response, VERSION, 0)[4:]
        self.answer(EnvelopeResponse(response_data=data))


def test_a_clients_request_goes_in_an_envelope_to_the_leader() -> None:
    stage = Stage()
    answer = stage.ask()
    ((target_id, envelope, _),) = stage.peers.sent
    assert target_id == 9
    assert isinstance(envelope, EnvelopeRequest)
    header, position = decode_request_header(envelope.request_data)
    assert (header.api_key, header.api_version) == (19, VERSION)
    inside, _ = decode(CreateTopicsRequest, envelope.request_data, VERSION, position)
    assert inside == create()
    assert decode_principal(envelope.request_principal) == "User:alice"
    stage.answer_inside(created())
    assert answer.value() == created()
    assert stage.channel.waiting_count == 0


def test_a_nodes_own_request_goes_as_it_is() -> None:
    stage = Stage()
    request = BrokerHeartbeatRequest(broker_id=1)
    answer = stage.ask(request, 0)
    assert stage.peers.sent[0][:2] == (9, request)
    stage.answer(BrokerHeartbeatResponse(is_fenced=False))
    assert answer.value().is_fenced is False


def test_an_active_controller_in_this_process_is_asked_directly() -> None:
    stage = Stage(has_local=True)
    stage.is_active = True
    answer = stage.ask()
    stage.local.asked[0].resolve(created())
    assert answer.value() == created()
    assert stage.peers.sent == []


def test_a_controller_that_was_deposed_is_not_the_last_word() -> None:
    stage = Stage(has_local=True)
    stage.is_active = True
    answer = stage.ask()
    stage.is_active = False
    stage.local.asked[0].reject(NotLeader(9, 3))
    stage.timers.advance(REST_MS)
    stage.answer_inside(created())
    assert answer.value() == created()


@pytest.mark.parametrize(
    "trouble",
    [
        lambda stage: stage.answer(None),
        lambda stage: stage.answer(None, refused=True),
        lambda stage: stage.answer(EnvelopeResponse(error_code=int(ErrorCode.NOT_CONTROLLER))),
    ],
    ids=["no answer", "refused", "not controller"],
)
def test_what_time_heals_is_asked_again(trouble: Callable[[Stage], None]) -> None:
    stage = Stage()
    answer = stage.ask()
    for _ in range(3):
        trouble(stage)
        assert not answer.settled
        stage.quorum.leader_id += 1
        stage.timers.advance(REST_MS)
    assert [target_id for target_id, _, _ in stage.peers.sent] == [9, 10, 11, 12]
    stage.answer_inside(created())
    assert answer.value() == created()


def test_nobody_leads_until_time_is_up() -> None:
    stage = Stage()
    stage.quorum.leader_id = -1
    answer = stage.ask(create(timeout_ms=1_000))
    stage.timers.advance(900)
    assert not answer.settled
    stage.timers.advance(200)
    assert answer.value().topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert stage.peers.sent == []
    assert stage.timers.pending_count == 0


def test_another_leader_is_asked_at_once_and_the_old_ones_answer_is_nobodys() -> None:
    stage = Stage()
    answer = stage.ask()
    stage.quorum.leader_id = 10
    stage.channel.on_leader_change(10, 4)
    assert [target_id for target_id, _, _ in stage.peers.sent] == [9, 10]
    late = encode_response(created("late"), VERSION, 0)[4:]
    stage.peers.sent[0][2](EnvelopeResponse(response_data=late), False)
    assert not answer.settled
    stage.answer_inside(created())
    assert answer.value() == created()


def test_an_envelope_that_is_refused_is_a_refusal() -> None:
    stage = Stage()
    answer = stage.ask()
    stage.answer(EnvelopeResponse(error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)))
    assert answer.value().topics[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_nonsense_in_an_envelope_is_an_error_of_the_server() -> None:
    stage = Stage()
    answer = stage.ask()
    stage.answer(EnvelopeResponse(response_data=b"\x00"))
    assert answer.value().topics[0].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_answer_waits_until_this_node_has_seen_it() -> None:
    stage = Stage()
    seen: Promise[bool] = Promise()
    asked: list[int] = []

    def until_seen(_request: Any, _response: Any, timeout_ms: int) -> Promise[bool]:
        asked.append(timeout_ms)
        return seen

    stage.channel.until_seen = until_seen
    answer = stage.ask()
    stage.answer_inside(created())
    assert not answer.settled
    assert asked == [SEEN_MS_MAX]
    seen.resolve(True)
    assert answer.value() == created()


def test_nobody_waits_for_a_channel_that_is_closed() -> None:
    stage = Stage()
    waiting = stage.ask()
    stage.channel.close()
    assert waiting.value().topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert stage.ask().value().topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    stage.answer_inside(created())
