"""A controller's three wishes, against a quorum that grants as a test tells it."""

from typing import Any

from headrace.base.events import EventLog
from headrace.base.promise import Promise
from headrace.cluster.image import ClusterImage
from headrace.node.membership import LOOK_INTERVAL_MS, Membership
from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.peers import OnAnswer
from headrace.quorum.settings import Identity
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from headrace.wire.kafka.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from headrace.wire.kafka.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from headrace.wire.kafka.messages.update_raft_voter import (
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

ME = ReplicaKey(4, b"d" * 16)
HERE = Endpoint("CONTROLLER", "h", 9093)


class Quorum:
    def __init__(self) -> None:
        self.voters = VoterSet()
        self.leader_id = 1
        self.epoch = 3
        self.asked: list[Message] = []

    def handle(self, request: Message, _version: int) -> Promise[Message]:
        self.asked.append(request)
        return Promise.resolved(UpdateRaftVoterResponse())


class Stage:
    def __init__(self, *, auto_join: bool = False) -> None:
        self.clock = SimulatedClock()
        self.timers = SimulatedTimers(self.clock)
        self.quorum = Quorum()
        self.registrations: list[ControllerRegistrationRequest] = []
        self.registration_error = 0
        self.sent: list[tuple[int, Message, OnAnswer]] = []
        self.events: list[str] = []
        self.membership = Membership(
            identity=Identity("cluster", "__cluster_metadata", bytes(16), ME.id, ME.directory_id),
            incarnation_id=b"i" * 16,
            endpoints=(HERE,),
            auto_join=auto_join,
            channel=self,
            principal="User:test",
            quorum=self.quorum,
            peers=self,
            image=ClusterImage,
            timers=self.timers,
            events=EventLog(self.events.append, self.clock),
        )

    def handle(self, request: Any, _version: int, _principal: str) -> Promise[Any]:
        self.registrations.append(request)
        return Promise.resolved(ControllerRegistrationResponse(error_code=self.registration_error))

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:
        self.sent.append((target_id, request, on_answer))

    def start(self) -> None:
        self.membership.start()
        self.timers.run_due()

    def look(self) -> None:
        self.timers.advance(LOOK_INTERVAL_MS)

    @property
    def last(self) -> Message:
        return self.sent[-1][1]

    def grant(self, response: Message) -> None:
        self.sent[-1][2](response, False)
        self.timers.run_due()


def test_it_registers_once_where_it_listens() -> None:
    stage = Stage()
    stage.start()
    stage.look()
    (request,) = stage.registrations
    assert (request.controller_id, request.incarnation_id) == (ME.id, b"i" * 16)
    assert [(e.name, e.host, e.port) for e in request.listeners] == [("CONTROLLER", "h", 9093)]
    assert stage.sent == []
    assert stage.timers.pending_count == 0


def test_nothing_is_asked_while_nobody_leads() -> None:
    stage = Stage()
    stage.quorum.leader_id = -1
    stage.start()
    stage.look()
    assert stage.registrations == []
    stage.quorum.leader_id = 2
    stage.membership.on_leader_change(2, 4)
    stage.timers.run_due()
    assert len(stage.registrations) == 1


def test_a_refused_registration_is_told_once_and_asked_again() -> None:
    stage = Stage()
    stage.registration_error = int(ErrorCode.UNSUPPORTED_VERSION)
    stage.start()
    for _ in range(3):
        stage.look()
    assert len(stage.registrations) == 4
    assert sum("quorum_membership_waits" in line for line in stage.events) == 1


def test_a_voter_that_moved_says_where_it_is() -> None:
    stage = Stage()
    elsewhere = Endpoint("CONTROLLER", "h", 1)
    stage.quorum.voters = VoterSet([Voter(ME, (elsewhere,))])
    stage.start()
    ((target_id, request, _),) = stage.sent
    assert target_id == 1
    assert isinstance(request, UpdateRaftVoterRequest)
    assert (request.current_leader_epoch, request.voter_directory_id) == (3, ME.directory_id)
    assert [(e.host, e.port) for e in request.listeners] == [("h", 9093)]
    stage.quorum.voters = VoterSet([Voter(ME, (HERE,))])
    stage.grant(UpdateRaftVoterResponse())
    stage.look()
    assert len(stage.sent) == 1
    assert stage.timers.pending_count == 0


def test_a_leader_that_moved_asks_itself() -> None:
    stage = Stage()
    stage.quorum.leader_id = ME.id
    stage.quorum.voters = VoterSet([Voter(ME, ())])
    stage.start()
    assert isinstance(stage.quorum.asked[0], UpdateRaftVoterRequest)
    assert stage.sent == []


def test_it_joins_only_if_it_was_told_to() -> None:
    stage = Stage()
    stage.quorum.voters = VoterSet([Voter(ReplicaKey(1, b"1" * 16))])
    stage.start()
    stage.look()
    assert stage.sent == []


def test_joining_is_asked_for_until_it_is_granted() -> None:
    stage = Stage(auto_join=True)
    others = [Voter(ReplicaKey(1, b"1" * 16))]
    stage.quorum.voters = VoterSet(others)
    stage.start()
    assert isinstance(stage.last, AddRaftVoterRequest)
    stage.grant(AddRaftVoterResponse(error_code=int(ErrorCode.REQUEST_TIMED_OUT)))
    stage.look()
    assert len(stage.sent) == 2
    stage.quorum.voters = VoterSet([*others, Voter(ME, (HERE,))])
    stage.grant(AddRaftVoterResponse())
    stage.look()
    # Removed by somebody while it runs: it does not come back by itself.
    stage.quorum.voters = VoterSet(others)
    stage.membership.on_leader_change(1, 5)
    stage.look()
    assert len(stage.sent) == 2


def test_the_voter_on_the_disk_that_is_gone_is_removed_first() -> None:
    stage = Stage(auto_join=True)
    gone = ReplicaKey(ME.id, b"g" * 16)
    stage.quorum.voters = VoterSet([Voter(gone), Voter(ReplicaKey(1, b"1" * 16))])
    stage.start()
    request = stage.last
    assert isinstance(request, RemoveRaftVoterRequest)
    assert (request.voter_id, request.voter_directory_id) == (ME.id, gone.directory_id)
    stage.quorum.voters = VoterSet([Voter(ReplicaKey(1, b"1" * 16))])
    stage.grant(RemoveRaftVoterResponse())
    stage.look()
    assert isinstance(stage.last, AddRaftVoterRequest)


def test_nobody_is_asked_after_the_end() -> None:
    stage = Stage(auto_join=True)
    stage.membership.close()
    stage.start()
    stage.look()
    assert stage.registrations == []
    assert stage.sent == []
