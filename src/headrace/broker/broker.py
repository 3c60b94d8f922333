"""The broker: what handlers reach for. It ties rooms together and decides nothing itself.

Owns: the committed metadata image, the staged appends of the current read, who waits.
Must not know: sockets, loops, processes (the node's).

The image is fed with committed metadata records only (`on_committed`), from whichever
controller there is; changes go to `controller` as Kafka requests and come back as records.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.base.broker_config import BrokerConfig
from headrace.base.clock import Clock, Timers
from headrace.base.events import EventLog
from headrace.base.ids import uuid_text
from headrace.base.promise import Promise
from headrace.base.randomness import Random
from headrace.base.storage import Storage
from headrace.broker.api.k01_fetch import Fetch
from headrace.broker.context import ANONYMOUS
from headrace.broker.fetch_sessions import FetchSessions
from headrace.broker.groups.coordinator import GroupCoordinator
from headrace.broker.metrics import BrokerMetrics
from headrace.broker.offsets_log import PartitionOffsetsLog
from headrace.broker.partition import Partition
from headrace.broker.partitions import Partitions
from headrace.broker.producer_ids import ProducerIds
from headrace.broker.transactions.coordinator import TransactionCoordinator
from headrace.broker.transactions.peers import LocalPeers
from headrace.broker.transactions.store import PartitionStateLog
from headrace.broker.transactions.verification import LocalVerifier, Verifier
from headrace.cluster.features import TRANSACTION_VERSION
from headrace.cluster.image import ClusterImage
from headrace.wire.kafka.messages.metadata_records import TopicRecord


class ControllerClient(Protocol):
    """The controller, here or elsewhere: Kafka requests in, their responses out."""

    def handle(self, request: Any, api_version: int, principal: str) -> Promise[Any]: ...


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
    ) -> None:
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
        self.image = ClusterImage()
        self.metrics = BrokerMetrics()
        self.principal = ANONYMOUS
        self.stopping = False
        self.staged: list[Partition] = []
        self.waiting_fetches: set[Fetch] = set()
        self.fetch_sessions = FetchSessions(
            random, int(config["max.incremental.fetch.session.cache.slots"])
        )
        self.producer_ids = ProducerIds(controller, node_id, self.principal)
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
            LocalPeers(self),
            lambda: self.image.features.get(TRANSACTION_VERSION, 0),
        )
        self.verifier: Verifier = LocalVerifier(self)
        self._advertised = advertised
        self._take_settings()

    def _take_settings(self) -> None:
        """Settings that the hot path reads, as plain attributes."""
        self.validate_records = bool(self.config["headrace.produce.validate.records"])
        self.fetch_bytes_max = int(self.config["fetch.max.bytes"])
        self.transactions.configure(self.config)

    def advertised(self, listener_name: str) -> tuple[str, int]:
        """Where clients of that listener reach this broker."""
        return self._advertised[listener_name]

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

    def on_committed(self, records: Sequence[Any], last_offset: int) -> None:
        """Metadata records that will never be taken back, in order."""
        for record in records:
            self.image.replay(record)
        is_history = self.image.last_offset < 0
        self.image.last_offset = last_offset
        gone = self.partitions.follow(self.image, records)
        if not is_history:
            self._tell_of_topics(records, gone)
        if gone:
            self.groups.on_topics_deleted(sorted(gone))
            self.transactions.on_topics_deleted()
        if self.config.apply_dynamic(*self.image.broker_configs(self.node_id)):
            self._take_settings()
            self.partitions.refresh_configs(self.image)

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
        for fetch in list(self.waiting_fetches):
            fetch.complete_now()
        self.transactions.shutdown()
        self.groups.shutdown()
