"""The broker: what handlers reach for. It ties rooms together and decides nothing itself.

Owns: the staged appends of the current read, who waits, what follows from committed metadata.
Must not know: sockets, loops, processes (the node's).

The image is the quorum's committed state, which others change and this only reads; it tells
`on_committed` what was new. Changes go to `controller`, here or elsewhere, as Kafka requests and
come back as records.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock, Timers
from headrace.base.events import EventLog
from headrace.base.ids import uuid_text
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.base.storage import Storage
from headrace.broker.api.k01_fetch import Fetch
from headrace.broker.context import ANONYMOUS
from headrace.broker.cordon import cordoned_paths
from headrace.broker.directory_assignments import DirectoryAssignments
from headrace.broker.encoded_topics import EncodedTopics
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.groups.share.lag import ClusterEndOffsets
from headrace.broker.metrics import BrokerMetrics
from headrace.broker.offsets_log import PartitionOffsetsLog
from headrace.broker.partition import Partition
from headrace.broker.partitions import Partitions
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.quotas import ClientQuotas
from headrace.broker.replica_moves import ReplicaMoves
from headrace.broker.replica_selector import RACK_AWARE
from headrace.broker.replication.replication import Replication
from headrace.broker.seen import when_seen
from headrace.broker.share.delivery import ShareDelivery
from headrace.broker.share.persister import Persister
from headrace.broker.share.state.coordinator import ShareCoordinator, ShareCoordinatorSettings
from headrace.broker.share.state.routing import ClusterPersister
from headrace.broker.share.state.store import PartitionShareStateLog
from headrace.broker.telemetry import ClientTelemetry
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.peers import ClusterPeers, ClusterVerifier
from headrace.broker.transactions.store import PartitionStateLog
from headrace.broker.transactions.verification import Verifier
from headrace.cluster.broker_epochs import ANY_EPOCH
from headrace.cluster.features import TRANSACTION_VERSION
from headrace.cluster.image import (
    OFFSETS_TOPIC,
    RESOURCE_CLIENT_METRICS,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    ClusterImage,
)
from headrace.quorum.peers import Peers
from headrace.wire.kafka.messages.metadata_records import (
    ClientQuotaRecord,
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

if TYPE_CHECKING:
    from headrace.broker.cleaner import LogCleaner


class ControllerClient(Protocol):
    """The controller, here or elsewhere: Kafka requests in, their responses out."""

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


class Coordinator(Protocol):
    """Who keeps state in the partitions of an internal topic."""

    def load(self, partition: int) -> Promise[int]: ...

    def unload(self, partition: int) -> None: ...


class _WaitingForImage:
    __slots__ = ("is_reached", "promise")

    def __init__(self, is_reached: Callable[[ClusterImage], bool]) -> None:
        self.is_reached = is_reached
        self.promise: Promise[bool] = Promise()


class Broker:
    def __init__(
        self,
        *,
        node_id: int,
        cluster_id: str,
        config: BrokerConfig,
        clock: Clock,
        timers: Timers,
        random: Random,
        storage: Storage,
        log: EventLog,
        partitions: Partitions,
        controller: ControllerClient,
        advertised: dict[str, tuple[str, int]],
        image: ClusterImage,
        peers: Peers,
        current_epoch: Callable[[], int],
    ) -> None:
        """`peers` reaches the other brokers; `current_epoch` is that of our registration."""
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.config = config
        self.clock = clock
        self.timers = timers
        self.random = random
        self.storage = storage
        self.log = log
        self.partitions = partitions
        self.controller = controller
        self.image = image
        self.encoded_topics = EncodedTopics()
        self.metrics = BrokerMetrics()
        self.cleaner: LogCleaner | None = None
        """Where there is somebody to do the work."""
        self.principal = ANONYMOUS
        self.stopping = False
        self.staged: list[Partition] = []
        self._topics_before: set[bytes] = set()
        """Of an image that was replaced: those that the new one lacks were deleted meanwhile."""
        self._waiting_for_image: list[_WaitingForImage] = []
        self.waiting_fetches: set[Fetch] = set()
        self.fetch_sessions = FetchSessions(
            random, int(config["max.incremental.fetch.session.cache.slots"])
        )
        self.broker_epoch = ANY_EPOCH
        self.is_serving = False
        """True from the moment when clients are let in: what was followed before is history."""
        self.producer_ids = ProducerIds(
            controller, node_id, self.principal, lambda: self.broker_epoch
        )
        self.replication = Replication(
            me=node_id,
            broker_epoch=current_epoch,
            config=config,
            image=lambda: self.image,
            controller=controller,
            peers=peers,
            clock=clock,
            timers=timers,
            events=log,
            on_role=self._on_role,
        )
        partitions.roles = self.replication
        self.directory_assignments = DirectoryAssignments(
            node_id, current_epoch, controller, timers
        )
        partitions.assign = self.directory_assignments.assign
        self.moves = ReplicaMoves(partitions, config, clock, timers, log)
        partitions.moves = self.moves
        self.offsets_log = PartitionOffsetsLog(self)
        self.groups = GroupCoordinator(
            config, self.offsets_log, clock, timers, random, lambda: self.image
        )
        self.transactions = TransactionCoordinator(
            config,
            PartitionStateLog(self),
            clock,
            timers,
            self.producer_ids.next,
            ClusterPeers(self, peers),
            lambda: self.image.features.get(TRANSACTION_VERSION, 0),
        )
        self.share_coordinator = ShareCoordinator(
            ShareCoordinatorSettings.from_config(config),
            PartitionShareStateLog(self),
            clock,
            timers,
            lambda: self.image,
        )
        self._cluster_persister = ClusterPersister(
            node_id, self.share_coordinator, peers, clock, timers, lambda: self.image
        )
        self.share_persister: Persister = self._cluster_persister
        self.groups.share.states.persister = self.share_persister
        self.groups.share.offsets.ends = ClusterEndOffsets(
            node_id, partitions.find, peers, lambda: self.image
        )
        self.shares = ShareDelivery(self)
        self.groups.share.on_left = self.shares.on_member_left
        self._coordinators: dict[str, Coordinator] = {
            OFFSETS_TOPIC: self.groups,
            TRANSACTIONS_TOPIC: self.transactions,
            SHARE_STATE_TOPIC: self.share_coordinator,
        }
        self.telemetry = ClientTelemetry(int(config["telemetry.max.bytes"]))
        self.quotas = ClientQuotas(config)
        self.quotas.set(image.quotas)
        self.verifier: Verifier = ClusterVerifier(self, peers)
        self._advertised = advertised
        self.on_settings: Callable[[], None] = lambda: None
        """Called when settings were altered, by whoever else goes by them."""
        self._take_settings()

    def _take_settings(self) -> None:
        """Settings that the hot path reads, as plain attributes."""
        self.validate_records = bool(self.config["headrace.produce.validate.records"])
        self.fetch_bytes_max = int(self.config["fetch.max.bytes"])
        self.selects_by_rack = self.config["replica.selector.class"] == RACK_AWARE
        self.transactions.configure(self.config)
        self.shares.on_configs_changed()
        self.replication.take_settings()
        self.partitions.cordon(cordoned_paths(self.config))

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Where clients of that listener reach this broker."""
        return self._advertised[listener_name]

    @property
    def listeners(self) -> dict[str, tuple[str, int]]:
        """What clients of each listener are told to connect to."""
        return dict(self._advertised)

    # -- appends -----------------------------------------------------------------------

    def commit_staged(self) -> None:
        """Write what the requests of this read staged; each partition once."""
        staged, self.staged = self.staged, []
        failure: Exception | None = None
        for partition in staged:
            try:
                partition.commit()
            except Exception as error:
                # A bug in somebody who waits: the others' bytes are still to be written.
                failure = failure or error
        if failure is not None:
            raise failure

    # -- metadata ----------------------------------------------------------------------

    def on_committed(self, records: Sequence[Any]) -> None:
        """Metadata records that will never be taken back, in order; the image has them already."""
        if self._topics_before:
            vanished = self._topics_before.difference(self.image.topics_by_id)
            self._topics_before = set()
            records = [*(RemoveTopicRecord(topic_id=each) for each in vanished), *records]
        gone = self.partitions.follow(self.image, records)
        if self.is_serving:
            self._tell_of_topics(records, gone)
        changed = self._changed_topics(records) | gone
        if changed:
            self.groups.on_topics_changed(changed)
        if gone:
            topic_ids = {each.topic_id for each in records if isinstance(each, RemoveTopicRecord)}
            self.groups.on_topics_deleted(sorted(gone), topic_ids)
            self.transactions.on_topics_deleted()
            self.shares.on_topics_deleted()
            self.share_coordinator.on_topics_deleted(topic_ids)
        if self.config.apply_dynamic(*self.image.broker_configs(self.node_id)):
            self._take_settings()
            self.partitions.refresh_configs(self.image)
            self.on_settings()
        if any(isinstance(record, ConfigRecord) for record in records):
            self.shares.on_configs_changed()
        if any(isinstance(record, ClientQuotaRecord) for record in records):
            self.quotas.set(self.image.quotas)
        if any(_is_of_client_metrics(record) for record in records):
            kinds = (kind for kind, _ in self.image.configs)
            self.telemetry.is_wanted = RESOURCE_CLIENT_METRICS in kinds
        if self._waiting_for_image:
            self._wake_waiting()

    def _changed_topics(self, records: Sequence[Any]) -> set[str]:
        """Topics that came or have more partitions."""
        names = {record.name for record in records if isinstance(record, TopicRecord)}
        for record in records:
            if isinstance(record, PartitionRecord):
                topic = self.image.topics_by_id.get(record.topic_id)
                if topic is not None:
                    names.add(topic.name)
        return names

    def _on_role(self, partition: Partition, leads: bool) -> None:
        """Coordinators move with the partitions that hold their state."""
        self.shares.on_role(partition)
        if not self.is_serving or not partition.is_internal:
            return
        coordinator = self._coordinators.get(partition.topic)
        if coordinator is not None:
            coordinator.unload(partition.index)
            if leads:
                coordinator.load(partition.index)

    def on_image_replaced(self, image: ClusterImage) -> None:
        """The image is another object, loaded from a snapshot; all of it is told next."""
        self._topics_before = set(self.image.topics_by_id)
        self.image = image
        self.quotas.set(image.quotas)
        self.shares.on_configs_changed()

    def when_image(
        self, is_reached: Callable[[ClusterImage], bool], timeout_ms: int
    ) -> Promise[bool]:
        """Resolved once the committed metadata is so, or with False when time is up.

        What another node's controller has decided is committed when it answers, and on its way
        here: a client that is told of it should find it at the broker that told it.
        """
        if is_reached(self.image):
            return Promise.resolved(True)
        waiting = _WaitingForImage(is_reached)
        self._waiting_for_image.append(waiting)

        def give_up() -> None:
            if not waiting.promise.settled:
                self._waiting_for_image.remove(waiting)
                waiting.promise.resolve(False)

        self.timers.call_later(timeout_ms, give_up)
        return waiting.promise

    def until_seen(self, request: Any, response: Any, timeout_ms: int) -> Promise[bool]:
        """Once the image has what a controller elsewhere has granted."""
        is_reached = when_seen(request, response)
        if is_reached is None:
            return Promise.resolved(True)
        return self.when_image(is_reached, timeout_ms)

    def _wake_waiting(self) -> None:
        waiting, self._waiting_for_image = self._waiting_for_image, []
        for each in waiting:
            if each.is_reached(self.image):
                each.promise.resolve(True)
            else:
                self._waiting_for_image.append(each)

    def _tell_of_topics(self, records: Sequence[Any], gone: set[str]) -> None:
        for record in records:
            if isinstance(record, TopicRecord):
                self.log.info("topic_created", topic=record.name, id=uuid_text(record.topic_id))
        for name in sorted(gone):
            self.log.info("topic_deleted", topic=name)

    # -- life --------------------------------------------------------------------------

    def on_handler_failure(self, peer: str, error: BaseException) -> None:
        self.metrics.handler_failures += 1
        self.log.error("handler_failed", peer=peer, error=repr(error))

    def prepare_stop(self) -> None:
        """Let nobody wait any longer: waiting requests are answered with what there is."""
        self.stopping = True
        self.replication.close()
        self.directory_assignments.close()
        for fetch in list(self.waiting_fetches):
            fetch.complete_now()
        self.shares.shutdown()
        self.transactions.shutdown()
        self._cluster_persister.close()
        self.share_coordinator.shutdown()
        self.groups.shutdown()


def _is_of_client_metrics(record: Any) -> bool:
    return isinstance(record, ConfigRecord) and record.resource_type == RESOURCE_CLIENT_METRICS
