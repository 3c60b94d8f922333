"""One node put together over given seams: its quorum, and the roles it has.

Owns: the order in which the parts are made, begin and end. The real node gives it disks, clocks
and sockets (`node.server`), the simulator its twins (`testing.broker`): the parts can't tell.

    open_directories → metadata quorum → controller, if it is one → broker, if it is one
    start: the quorum → caught up with it → registered → unfenced: the broker may serve
    stop:  the broker leaves → the leader resigns → logs are flushed and marked
"""

from collections.abc import Callable, Sequence
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import UsageError
from headrace.base.promise import Promise
from headrace.broker.broker import Broker
from headrace.broker.cordon import cordoned_paths
from headrace.broker.lifecycle import BrokerLifecycle, LifecycleSettings
from headrace.broker.partitions import Partitions
from headrace.cluster.broker_epochs import ANY_EPOCH
from headrace.cluster.controller import Controller, supported_features
from headrace.cluster.listener import ControllerListener
from headrace.cluster.principals import ANONYMOUS
from headrace.log.directory import LogDirectory
from headrace.log.file_budget import FileBudget
from headrace.node.controller_channel import ControllerChannel
from headrace.node.formatting import directories_of, looks_elsewhere
from headrace.node.lives import Lives
from headrace.node.membership import Membership
from headrace.node.metadata_quorum import MetadataQuorum, open_metadata_quorum
from headrace.node.seams import Seams
from headrace.quorum.peers import Peers
from headrace.quorum.voters import Endpoint
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest, Listener

Addresses = dict[str, tuple[str, int]]
"""What clients of each listener are told to connect to."""

MEMBERSHIP_DELAY_MS = 50
CATCHING_UP_MS = 50
"""A quorum that has nothing new tells nobody: whoever waits for it looks again."""


class AssembledNode:
    """The parts of one node; `broker` and `controller` where it has these roles."""

    def __init__(
        self,
        config: BrokerConfig,
        seams: Seams,
        cluster_id: str,
        directories: list[LogDirectory],
        quorum: MetadataQuorum,
        peers: Peers,
        broker_peers: Peers,
        advertised: Addresses,
    ) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self.directories = directories
        self.quorum = quorum
        self.host = quorum.host
        self.replica = quorum.replica
        self._seams = seams
        self.addresses = advertised
        self._is_ending = False
        # Before the broker is made, which opens logs.
        self._lives = Lives(seams.storage, [each.path for each in directories])
        for directory in directories:
            directory.on_shortened = self._lives.forget
        self._on_leader_change: list[Callable[[int, int], None]] = []
        self.controller = self._make_controller() if config.is_controller else None
        self.listener = None if self.controller is None else self._make_listener(self.controller)
        self.channel = ControllerChannel(
            node_id=config.node_id,
            leadership=quorum.replica,
            peers=peers,
            clock=seams.clock,
            timers=seams.timers,
            timeout_ms=int(config["request.timeout.ms"]),
            local=self.listener,
            is_active=lambda: quorum.host.is_active,
        )
        self._on_leader_change.append(self.channel.on_leader_change)
        self.membership: Membership | None = None
        if self.controller is not None:
            self.membership = self._make_membership(peers)
        self.broker: Broker | None = None
        self.lifecycle: BrokerLifecycle | None = None
        if config.is_broker:
            self.broker = self._make_broker(broker_peers)
            self.lifecycle = self._make_lifecycle(self.broker)
            self.channel.until_seen = self.broker.until_seen
        host = self.host
        host.on_committed = self._on_committed
        host.on_installed = self._on_installed
        host.on_active = self._on_active
        host.on_inactive = self._on_inactive
        host.on_leader_change = self._tell_leader_change
        self._has_begun = False

    # -- making ------------------------------------------------------------------------

    def _make_controller(self) -> Controller:
        seams = self._seams
        return Controller(
            self.host,
            self.config,
            seams.random,
            seams.clock,
            seams.timers,
            seams.log,
            cluster_id=self.cluster_id,
        )

    def _make_listener(self, controller: Controller) -> ControllerListener:
        return ControllerListener(
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            config=self.config,
            replica=self.replica,
            controller=controller,
            image=lambda: self.host.committed,
            leader_id=lambda: self.replica.leader_id,
            listener_name=self.config.controller_listener_name,
            events=self._seams.log,
        )

    def _make_membership(self, peers: Peers) -> Membership:
        names = {name for name, _, _ in self.config.controller_listeners}
        membership = Membership(
            identity=self.replica.node.me,
            incarnation_id=self._seams.random.randbytes(16),
            endpoints=tuple(
                Endpoint(name, *address)
                for name, address in self.addresses.items()
                if name in names
            ),
            auto_join=bool(self.config["controller.quorum.auto.join.enable"]),
            channel=self.channel,
            principal=ANONYMOUS,
            quorum=self.replica,
            peers=peers,
            image=lambda: self.host.committed,
            timers=self._seams.timers,
            events=self._seams.log,
        )
        self._on_leader_change.append(membership.on_leader_change)
        return membership

    def _make_broker(self, peers: Peers) -> Broker:
        config, seams = self.config, self._seams
        served = set(config.log_dirs)
        directories = [each for each in self.directories if each.path in served]
        names = {name for name, _, _ in config.broker_listeners}
        return Broker(
            node_id=config.node_id,
            cluster_id=self.cluster_id,
            config=config,
            clock=seams.clock,
            timers=seams.timers,
            random=seams.random,
            storage=seams.storage,
            log=seams.log,
            partitions=Partitions(config.node_id, directories, config, seams.clock, seams.log),
            controller=self.channel,
            advertised={name: at for name, at in self.addresses.items() if name in names},
            image=self.host.committed,
            peers=peers,
            current_epoch=self._current_epoch,
        )

    def _current_epoch(self) -> int:
        return ANY_EPOCH if self.lifecycle is None else self.lifecycle.broker_epoch

    def _make_lifecycle(self, broker: Broker) -> BrokerLifecycle:
        config, seams = self.config, self._seams
        return BrokerLifecycle(
            broker_id=config.node_id,
            controller=self.channel,
            principal=ANONYMOUS,
            settings=LifecycleSettings(
                heartbeat_interval_ms=int(config["broker.heartbeat.interval.ms"]),
                registration_timeout_ms=int(config["initial.broker.registration.timeout.ms"]),
            ),
            metadata_offset=lambda: broker.image.last_offset,
            offline_log_dirs=self._offline_log_dirs,
            cordoned_log_dirs=self._cordoned_log_dirs,
            previous_epoch=self._previous_epoch,
            clock=seams.clock,
            timers=seams.timers,
            random=seams.random,
            events=seams.log,
        )

    def _offline_log_dirs(self) -> list[bytes]:
        return [each.directory_id for each in self.directories if each.failure is not None]

    def _cordoned_log_dirs(self) -> list[bytes]:
        paths = cordoned_paths(self.config)
        return [each.directory_id for each in self.directories if each.path in paths]

    # -- beginning ---------------------------------------------------------------------

    def start(self) -> Promise[int]:
        """Take part in the quorum; the promise holds the broker's epoch once it may serve, and
        -1 at once where there is no broker."""
        self.host.start()
        if self.lifecycle is None:
            assert self.membership is not None
            self.membership.start()
            return Promise.resolved(-1)
        self._look_for_quorum()
        return self.lifecycle.started.map(self._on_serving)

    def _look_for_quorum(self) -> None:
        if not self._has_begun and not self._is_ending:
            self._maybe_begin()
            self._seams.timers.call_later(CATCHING_UP_MS, self._look_for_quorum)

    def _maybe_begin(self) -> None:
        """Register once the metadata is followed to its present end."""
        if self._has_begun or self.lifecycle is None or self.replica.leader_id < 0:
            return
        if self.host.is_active or self._is_caught_up():
            self._has_begun = True
            if self.broker is not None:
                self.broker.partitions.on_caught_up()
                if self._lives.are_forgotten:
                    # Told once, with this registration: the next process must not miss it again.
                    self.broker.partitions.checkpoint()
            registration = self._registration()
            self._lives.note(self.lifecycle.incarnation_id)
            self.lifecycle.start(registration)

    def _is_caught_up(self) -> bool:
        """To the leader's high watermark: ours stands at the end of each piece of history.

        A new leader has heard of commits before its time only in part; once it has committed an
        entry of its own epoch it knows all. Before, a registration of ours could be missing, and
        a process that only was killed would be taken for one that lost its log.
        """
        node, reached = self.replica.node, self.host.high_watermark
        if self.replica.is_leader or not 0 < node.leader_high_watermark <= reached:
            return False
        return node.log.epoch_before(reached) == node.epoch

    def _registration(self) -> BrokerRegistrationRequest:
        assert self.broker is not None
        return BrokerRegistrationRequest(
            broker_id=self.broker.node_id,
            cluster_id=self.cluster_id,
            listeners=[
                Listener(name=name, host=host, port=port, security_protocol=0)
                for name, (host, port) in self.broker.listeners.items()
            ],
            features=supported_features(),
            rack=self.config["broker.rack"],
            log_dirs=self.broker.partitions.directory_ids,
            previous_broker_epoch=self._previous_epoch(),
        )

    def _previous_epoch(self) -> int:
        """Of the life before this one, if nothing that it wrote can be lost; else -1."""
        assert self.broker is not None
        if self._lives.are_forgotten:
            # It may be the last of an ISR, or eligible, and lack what others were told it has.
            self._seams.log.warning("logs_shortened", previous_broker_epoch=-1)
            return -1
        epochs = {each.last_broker_epoch if each.was_clean else -1 for each in self.directories}
        if epochs != {-1}:
            return epochs.pop() if len(epochs) == 1 else -1
        registered = self.broker.image.brokers.get(self.broker.node_id)
        if registered is None or not self._lives.knows(registered.incarnation_id):
            return -1
        return registered.broker_epoch

    def _maybe_begin_roles(self) -> None:
        """Once our registration was followed: before, it is history, and we have no epoch to tell
        the leaders that we fetch from (KIP-903)."""
        assert self.broker is not None
        epoch = self._current_epoch()
        known = self.broker.image.brokers.get(self.broker.node_id)
        if epoch >= 0 and known is not None and known.broker_epoch == epoch:
            self.broker.partitions.begin_roles()
            if self.broker.is_serving:
                self.broker.broker_epoch = epoch  # it was registered once more

    def _on_serving(self, broker_epoch: int) -> int:
        assert self.broker is not None
        self._maybe_begin_roles()
        self.broker.broker_epoch = broker_epoch
        self.broker.is_serving = True
        self.broker.groups.start()
        self.broker.transactions.start()
        self.broker.share_coordinator.start()
        if self.membership is not None:
            # Not before clients are served: nobody waits for it.
            self._seams.timers.call_later(MEMBERSHIP_DELAY_MS, self.membership.start)
        return broker_epoch

    # -- what the quorum tells ---------------------------------------------------------

    def _on_committed(self, records: Sequence[Any], _last_offset: int) -> None:
        if self.broker is not None:
            self.broker.on_committed(records)
            self._maybe_begin_roles()
        else:
            self.config.apply_dynamic(*self.host.committed.broker_configs(self.config.node_id))
        if self.lifecycle is not None:
            self._maybe_begin()
            self.lifecycle.on_metadata()

    def _on_installed(self) -> None:
        if self.broker is not None:
            self.broker.on_image_replaced(self.host.committed)

    def _on_active(self, epoch: int) -> None:
        assert self.controller is not None
        self.controller.on_active(epoch)
        self._maybe_begin()

    def _on_inactive(self) -> None:
        assert self.controller is not None
        self.controller.on_inactive()

    def _tell_leader_change(self, leader_id: int, epoch: int) -> None:
        for tell in self._on_leader_change:
            tell(leader_id, epoch)

    # -- ending ------------------------------------------------------------------------

    def leave(self, timeout_ms: int) -> Promise[bool]:
        """Before a stop: hand leaderships over. True if the controller agreed in time."""
        self._is_ending = True
        if self.membership is not None:
            self.membership.close()
        if self.lifecycle is None:
            return Promise.resolved(True)
        return self.lifecycle.stop(timeout_ms)

    def resign(self) -> None:
        """Lead the quorum no more: its other voters find a leader at once."""
        self.replica.resign()

    def close(self) -> bool:
        """Flush, checkpoint and mark clean; False if the next start has to recover something.

        Raises StorageError where a disk refuses.
        """
        self._is_ending = True
        if self.membership is not None:
            self.membership.close()
        if self.lifecycle is not None:
            self.lifecycle.end()
        self.channel.close()
        self.host.close()
        is_clean = True
        if self.broker is not None:
            is_clean = self.broker.partitions.close(self.broker.broker_epoch)
        self.quorum.log.close()
        return is_clean


def open_directories(
    config: BrokerConfig, seams: Seams, files: FileBudget
) -> tuple[str, list[LogDirectory]]:
    """Open or format every directory of this node; the cluster id they agree on."""
    cluster_id: str | None = config["cluster.id"]
    directories: list[LogDirectory] = []
    for path in directories_of(config):
        if cluster_id is None and _must_be_told(config):
            _refuse_to_found(seams, path)
        directory = LogDirectory.open(
            seams.storage,
            path,
            seams.clock,
            files,
            cluster_id=cluster_id,
            node_id=config.node_id,
            random=seams.random,
        )
        if directory.failure is not None:
            seams.log.error("log_dir_failed", path=path, error=str(directory.failure.cause))
        directories.append(directory)
        cluster_id = directory.cluster_id or cluster_id
    if all(directory.failure is not None for directory in directories) or cluster_id is None:
        raise UsageError(f"no log directory can be used: {', '.join(directories_of(config))}")
    return cluster_id, directories


def _must_be_told(config: BrokerConfig) -> bool:
    """A node that looks for a quorum elsewhere does not found a cluster of its own."""
    return looks_elsewhere(config) or bool(config.quorum_voters) or not config.is_controller


def _refuse_to_found(seams: Seams, path: str) -> None:
    if not seams.storage.exists(f"{path}/meta.properties"):
        raise UsageError(
            f"{path} is empty, and a node that joins a cluster must be told which: give "
            "cluster.id, or format it with `headrace storage format --cluster-id ID`"
        )


def assemble(
    config: BrokerConfig,
    seams: Seams,
    files: FileBudget,
    cluster_id: str,
    directories: list[LogDirectory],
    advertised: Addresses,
    peers: Peers,
    broker_peers: Peers,
) -> AssembledNode:
    """Make the parts from what is on disk; nothing moves before `start`.

    `peers` reaches the quorum's listeners, `broker_peers` those of brokers.
    """
    metadata = next(each for each in directories if each.path == config.metadata_log_dir)
    if metadata.failure is not None:
        raise metadata.failure
    name = config.controller_listener_name
    listener = Endpoint(name, *advertised.get(name, ("", 0)))
    quorum = open_metadata_quorum(
        config, seams, files, cluster_id, metadata.directory_id, peers, listener
    )
    return AssembledNode(
        config, seams, cluster_id, directories, quorum, peers, broker_peers, advertised
    )
