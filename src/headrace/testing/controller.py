"""A controller in memory: the real decisions, host and log over a simulated disk.

Owns: `SimulatedController`, a quorum of one which can lose its power, be killed and come back. Its
`image` is the committed one, as a broker in the same process has it.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.base.events import EventLog
from headrace.base.ids import METADATA_TOPIC_ID
from headrace.base.promise import Promise
from headrace.cluster.controller import Controller, supported_features
from headrace.cluster.image import ClusterImage
from headrace.cluster.metadata_log import METADATA_CODEC, open_metadata_log
from headrace.cluster.topic_names import CLUSTER_METADATA_TOPIC
from headrace.log.file_budget import FileBudget
from headrace.quorum.host import Host
from headrace.quorum.peers import OnAnswer
from headrace.quorum.replica import Replica
from headrace.quorum.settings import Identity, QuorumSettings
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.testing.clock import SimulatedClock, SimulatedTimers
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.message import Message
from headrace.wire.kafka.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest, Listener

LISTENER = "PLAINTEXT"
CONTROLLER_LISTENER = "CONTROLLER"
_DIRECTORY_ID = b"simulated-disk--"
_SYNCS_MAX = 10_000


class _NoPeers:
    """A quorum of one has nobody to ask."""

    def send(self, target_id: int, request: Message, on_answer: OnAnswer) -> None:  # noqa: ARG002
        raise AssertionError(f"{type(request).__name__} to {target_id}")


class SimulatedController:
    def __init__(
        self,
        *,
        seed: int = 1,
        broker_ids: Sequence[int] = (1,),
        flags: dict[str, Any] | None = None,
        disk: SimulatedDisk | None = None,
    ) -> None:
        self.random = Random(seed)
        self.config = BrokerConfig.of(flags)
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk() if disk is None else disk
        self.broker_ids = tuple(broker_ids)
        self.failures: list[BaseException] = []
        self.events: list[str] = []
        self.commit_count = 0
        self.open()

    def open(self, *, unclean: bool = False) -> None:
        """Start, or start again from what the disk holds."""
        self.timers = SimulatedTimers(self.clock)
        self.disk.make_directory("data")
        self.disk.sync_directory("/")
        self.replica = self._open_replica()
        self.host: Host[ClusterImage] = Host(
            self.replica, ClusterImage, METADATA_CODEC, self.clock, self.timers
        )
        self.host.on_committed = self._on_committed
        self.controller = Controller(
            self.host,
            self.config,
            self.random,
            self.clock,
            self.timers,
            EventLog(self.events.append, self.clock),
        )
        self.host.on_active = self.controller.on_active
        self.host.on_inactive = self.controller.on_inactive
        self.host.start()
        self.settle()
        for broker_id in self.broker_ids:
            self._bring_up(broker_id, unclean=unclean)
        assert not self.failures

    def _bring_up(self, broker_id: int, *, unclean: bool) -> None:
        """Register the broker and lift its fence, as its process would."""
        registration = self._registration(broker_id)
        before = self.image.brokers.get(broker_id)
        if before is not None and not unclean:
            registration.previous_broker_epoch = before.broker_epoch
        broker_epoch = self.ask(registration).broker_epoch
        self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=broker_epoch,
                current_metadata_offset=self.image.last_offset,
            )
        )

    def _open_replica(self) -> Replica:
        log = open_metadata_log(self.disk, "data", self.clock, FileBudget(self.disk))
        node_id = self.broker_ids[0]
        listener = Endpoint(CONTROLLER_LISTENER, f"broker{node_id}", 9093)
        identity = Identity(
            "simulated", CLUSTER_METADATA_TOPIC, METADATA_TOPIC_ID, node_id, _DIRECTORY_ID
        )
        return Replica.open(
            identity=identity,
            settings=QuorumSettings(),
            log=log,
            storage=self.disk,
            clock=self.clock,
            timers=self.timers,
            random=self.random,
            peers=_NoPeers(),
            initial_voters=VoterSet([Voter(identity.key, (listener,))]),
            bootstrap_ids=(),
            listener=listener,
            events=EventLog(self.events.append, self.clock),
            on_fatal=self.failures.append,
        )

    @property
    def image(self) -> ClusterImage:
        return self.host.committed

    def settle(self) -> None:
        """Let syncs be done and due timers run until nothing moves."""
        for _ in range(_SYNCS_MAX):
            if not self.timers.run_due() + self.disk.complete_syncs():
                return
        raise AssertionError("syncs without end")

    def ask(self, request: Any, api_version: int | None = None) -> Any:
        """The response, once everything is synced."""
        promise = self.submit(request, api_version)
        self.settle()
        return promise.value()

    def submit(self, request: Any, api_version: int | None = None) -> Promise[Any]:
        version = request.VERSIONS[1] if api_version is None else api_version
        return self.controller.handle(request, version)

    def _on_committed(self, _records: Sequence[Any], _last_offset: int) -> None:
        self.commit_count += 1
        self.config.apply_dynamic(*self.image.broker_configs(self.broker_ids[0]))

    def _registration(self, broker_id: int) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="simulated",
            incarnation_id=self.random.randbytes(16),
            listeners=[Listener(name=LISTENER, host=f"broker{broker_id}", port=9092)],
            features=supported_features(),
            rack=None,
        )
