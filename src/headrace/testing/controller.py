"""A controller in memory: the real decisions, host and log over a simulated disk.

Owns: `SimulatedController`, which can lose its power, be killed and come back, and a committed
image fed as a broker's is.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

from headrace.base.broker_config import BrokerConfig
from headrace.base.promise import Promise
from headrace.cluster.controller import Controller
from headrace.cluster.image import ClusterImage
from headrace.cluster.metadata_log import METADATA_CODEC, open_metadata_log
from headrace.log.file_budget import FileBudget
from headrace.quorum.sole_host import SoleHost as Host
from headrace.testing.clock import SimulatedClock
from headrace.testing.disk import SimulatedDisk
from headrace.wire.kafka.messages.broker_registration import BrokerRegistrationRequest, Listener

LISTENER = "PLAINTEXT"
_SYNCS_MAX = 10_000


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
        self.commit_count = 0
        self.open()

    def open(self, *, unclean: bool = False) -> None:
        """Start, or start again from what the disk holds."""
        self.image = ClusterImage()
        self.disk.make_directory("data")
        self.disk.sync_directory("/")
        files = FileBudget(self.disk)
        log = open_metadata_log(self.disk, "data", self.clock, files)
        self.host: Host[ClusterImage] = Host(
            log,
            ClusterImage(),
            METADATA_CODEC,
            self.clock,
            self.broker_ids[0],
            on_committed=self._on_committed,
            on_fatal=self.failures.append,
        )
        self.host.load()
        self.controller = Controller(self.host, self.config, self.random, replication=True)
        for broker_id in self.broker_ids:
            self.controller.start(self._registration(broker_id), unclean=unclean)
            self.settle()
        assert not self.failures

    def settle(self) -> None:
        """Let syncs be done until nobody asks for one."""
        for _ in range(_SYNCS_MAX):
            if not self.disk.complete_syncs():
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

    def _on_committed(self, records: Sequence[Any], last_offset: int) -> None:
        self.commit_count += 1
        for record in records:
            self.image.replay(record)
        self.image.last_offset = last_offset
        self.config.apply_dynamic(*self.image.broker_configs(self.broker_ids[0]))

    def _registration(self, broker_id: int) -> BrokerRegistrationRequest:
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id="simulated",
            incarnation_id=self.random.randbytes(16),
            listeners=[Listener(name=LISTENER, host=f"broker{broker_id}", port=9092)],
            rack=None,
        )
