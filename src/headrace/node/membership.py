"""A controller's place in its quorum: registered, voting if it should, reached where it listens.

Owns: three wishes, looked at every second until each is granted, and again whenever another leads.
Must not know: how they are granted.
1. The metadata tells of this process (ControllerRegistration, KIP-919): tools and brokers read it.
2. A voter's endpoints are those it listens on now (UpdateRaftVoter, KIP-853).
3. With `controller.quorum.auto.join.enable`, a controller that does not vote asks to be added, and
   for the removal of the voter that had its id on another disk (AddRaftVoter, KIP-1186). One that
   was removed while it runs does not come back by itself: somebody wanted it so.

Invariants: one wish is under way at a time; a refusal is told once, and asked again later.
"""

from collections.abc import Callable
from typing import Any, Protocol

from headrace.base.clock import Timers
from headrace.base.events import EventLog
from headrace.base.ids import uuid_text
from headrace.base.promise import Promise
from headrace.cluster.features import SUPPORTED
from headrace.cluster.image import ClusterImage
from headrace.quorum.peers import Peers
from headrace.quorum.settings import Identity
from headrace.quorum.voters import Endpoint, VoterSet
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.message import Message

LOOK_INTERVAL_MS = 1_000
CHANGE_TIMEOUT_MS = 5_000


class Controller(Protocol):
    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class Quorum(Protocol):
    """What is looked at of the replica."""

    @property
    def voters(self) -> VoterSet: ...

    @property
    def leader_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...

    def handle(self, request: Message, api_version: int) -> Promise[Message]: ...


class Membership:
    def __init__(
        self,
        *,
        identity: Identity,
        incarnation_id: bytes,
        endpoints: tuple[Endpoint, ...],
        auto_join: bool,
        channel: Controller,
        principal: str,
        quorum: Quorum,
        peers: Peers,
        image: Callable[[], ClusterImage],
        timers: Timers,
        events: EventLog,
    ) -> None:
        self._identity = identity
        self._incarnation_id = incarnation_id
        self._endpoints = endpoints
        self._auto_join = auto_join
        self._channel = channel
        self._principal = principal
        self._quorum = quorum
        self._peers = peers
        self._image = image
        self._timers = timers
        self._events = events
        self._is_asking = False
        self._is_looking = False
        self._is_started = False
        self._is_closed = False
        self._has_registered = False
        self._refused: dict[str, str] = {}

    def start(self) -> None:
        self._is_started = True
        self._consider()

    def close(self) -> None:
        self._is_closed = True

    def on_leader_change(self, leader_id: int, _epoch: int) -> None:
        if leader_id >= 0:
            self._timers.call_soon(self._consider)

    def _consider(self) -> None:
        if self._is_asking or self._is_closed or not self._is_started:
            return
        if self._quorum.leader_id < 0:
            return
        if self._wants_registration():
            self._register()
            return
        request = self._change_of_voters()
        if request is not None:
            self._ask_leader(request)

    def _look_again(self) -> None:
        if not self._is_looking:
            self._is_looking = True
            self._timers.call_later(LOOK_INTERVAL_MS, self._look)

    def _look(self) -> None:
        self._is_looking = False
        self._consider()

    # -- registration ------------------------------------------------------------------

    def _wants_registration(self) -> bool:
        if self._has_registered:
            return False  # it may be on its way into our own image
        known = self._image().controllers.get(self._identity.node_id)
        return known is None or known.incarnation_id != self._incarnation_id

    def _register(self) -> None:
        # These messages are loaded when there is something to wish for.
        from headrace.wire.kafka.messages import controller_registration

        request = controller_registration.ControllerRegistrationRequest(
            controller_id=self._identity.node_id,
            incarnation_id=self._incarnation_id,
            listeners=[
                controller_registration.Listener(name=e.name, host=e.host, port=e.port)
                for e in self._endpoints
            ],
            features=[
                controller_registration.Feature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in SUPPORTED.items()
            ],
        )
        self._is_asking = True
        version = request.VERSIONS[1]

        def on_settled(settled: Promise[Any]) -> None:
            self._is_asking = False
            response = settled.value() if settled.error is None else None
            self._tell("registration", response)
            if self._refused.get("registration") is None:
                self._has_registered = True
                self._timers.call_soon(self._consider)
            else:
                self._look_again()

        self._channel.handle(request, version, self._principal).then(on_settled)

    # -- voters ------------------------------------------------------------------------

    def _change_of_voters(self) -> Message | None:
        me, voters = self._identity.key, self._quorum.voters
        registered = voters.with_id(me.id)
        if registered is not None and registered.key == me:
            self._auto_join = False
            return self._update() if registered.endpoints != self._endpoints else None
        if not self._auto_join:
            return None
        from headrace.wire.kafka.messages import add_raft_voter, remove_raft_voter

        if registered is not None:
            # Our id on a disk that is gone: it can't vote any more, and stands in our way.
            return remove_raft_voter.RemoveRaftVoterRequest(
                cluster_id=self._identity.cluster_id,
                voter_id=me.id,
                voter_directory_id=registered.key.directory_id,
            )
        return add_raft_voter.AddRaftVoterRequest(
            cluster_id=self._identity.cluster_id,
            timeout_ms=CHANGE_TIMEOUT_MS,
            voter_id=me.id,
            voter_directory_id=me.directory_id,
            listeners=[
                add_raft_voter.Listener(name=e.name, host=e.host, port=e.port)
                for e in self._endpoints
            ],
            ack_when_committed=False,
        )

    def _update(self) -> Message:
        from headrace.wire.kafka.messages import update_raft_voter

        return update_raft_voter.UpdateRaftVoterRequest(
            cluster_id=self._identity.cluster_id,
            current_leader_epoch=self._quorum.epoch,
            voter_id=self._identity.node_id,
            voter_directory_id=self._identity.directory_id,
            listeners=[
                update_raft_voter.Listener(name=e.name, host=e.host, port=e.port)
                for e in self._endpoints
            ],
            kraft_version_feature=update_raft_voter.KraftVersionFeature(
                min_supported_version=0, max_supported_version=1
            ),
        )

    def _ask_leader(self, request: Message) -> None:
        self._is_asking = True
        leader_id = self._quorum.leader_id
        if leader_id == self._identity.node_id:
            answer = self._quorum.handle(request, request.VERSIONS[1])
            answer.then(
                lambda settled: self._on_changed(settled.value() if not settled.error else None)
            )
        else:
            self._peers.send(leader_id, request, lambda response, _: self._on_changed(response))

    def _on_changed(self, response: Message | None) -> None:
        self._is_asking = False
        self._tell("voters", response)
        self._look_again()

    def _tell(self, what: str, response: Any) -> None:
        code = getattr(response, "error_code", int(ErrorCode.UNKNOWN_SERVER_ERROR))
        if code == ErrorCode.NONE:
            self._refused.pop(what, None)
            directory_id = uuid_text(self._identity.directory_id)
            self._events.info("quorum_membership", wish=what, directory_id=directory_id)
            return
        reason = "no answer" if response is None else ErrorCode.of(code).name
        if self._refused.get(what) != reason:
            self._refused[what] = reason
            words = getattr(response, "error_message", None) or ""
            self._events.info("quorum_membership_waits", wish=what, reason=reason, message=words)
