"""A cluster behind one fake broker: partitions that move when told to, a few questions later.

Owns: the answers to what operators ask. All brokers have one address, and so one directory.
"""

from typing import Any

from tests.unit.client.fake_broker import FakeBroker

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages import incremental_alter_configs as altering
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from headrace.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headrace.wire.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from headrace.wire.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from headrace.wire.kafka.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from headrace.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from headrace.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.wire.kafka.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

TOPIC = "t"


class FakeCluster:
    def __init__(self, broker: FakeBroker, replicas: dict[int, list[int]], brokers: int) -> None:
        self.broker = broker
        self.ids = list(range(1, brokers + 1))
        self.fenced: set[int] = set()
        self.cordoned = False
        self.replicas = replicas
        self.leaders = {index: where[0] for index, where in replicas.items()}
        self.moving: dict[int, list[int]] = {}
        self.looks_per_move = 2
        self._looks = 0
        self.metadata_behind = 0
        """So many answers after the end of moves the broker does not know of it."""
        self._stale: MetadataResponse | None = None
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.config_log: list[tuple[int, str, str, str | None]] = []
        broker.handlers |= {
            MetadataRequest: self._metadata,
            DescribeClusterRequest: self._describe_cluster,
            DescribeLogDirsRequest: self._describe_log_dirs,
            ListPartitionReassignmentsRequest: self._list_moves,
            AlterPartitionReassignmentsRequest: self._alter_moves,
            altering.IncrementalAlterConfigsRequest: self._alter_configs,
            DescribeConfigsRequest: self._describe_configs,
            ElectLeadersRequest: self._elect,
            UnregisterBrokerRequest: self._unregister,
        }

    @property
    def _address(self) -> tuple[str, int]:
        return "127.0.0.1", self.broker.port

    def _metadata(self, _request: Any, _version: int) -> MetadataResponse:
        if self._stale is not None and self.metadata_behind > 0:
            self.metadata_behind -= 1
            return self._stale
        return self._metadata_now()

    def _metadata_now(self) -> MetadataResponse:
        host, port = self._address
        partitions = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=self.leaders[index],
                replica_nodes=self._all_replicas(index),
                isr_nodes=list(where),
            )
            for index, where in self.replicas.items()
        ]
        topic = MetadataResponseTopic(name=TOPIC, topic_id=b"t" * 16, partitions=partitions)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=i, host=host, port=port) for i in self.ids],
            cluster_id="fake",
            controller_id=1,
            topics=[topic],
        )

    def _all_replicas(self, index: int) -> list[int]:
        target = self.moving.get(index, [])
        return target + [each for each in self.replicas[index] if each not in target]

    def _describe_cluster(self, _request: Any, _version: int) -> DescribeClusterResponse:
        host, port = self._address
        return DescribeClusterResponse(
            error_message=None,
            cluster_id="fake",
            brokers=[
                DescribeClusterBroker(
                    broker_id=each, host=host, port=port, rack=None, is_fenced=each in self.fenced
                )
                for each in self.ids
            ],
        )

    def _describe_log_dirs(self, request: Any, _version: int) -> DescribeLogDirsResponse:
        """Who asks for single partitions looks for new replicas: they have not all of it yet."""
        sizes = dict.fromkeys(self.replicas, 1_000)
        if request.topics is not None:
            sizes = dict.fromkeys(self.moving, 400)
        partitions = [
            DescribeLogDirsPartition(partition_index=index, partition_size=size)
            for index, size in sizes.items()
        ]
        topics = [DescribeLogDirsTopic(name=TOPIC, partitions=partitions)]
        result = DescribeLogDirsResult(log_dir="/d", topics=topics, is_cordoned=self.cordoned)
        return DescribeLogDirsResponse(results=[result])

    def _list_moves(self, _request: Any, _version: int) -> ListPartitionReassignmentsResponse:
        """Each look brings a move nearer to its end."""
        self._looks += 1
        if self.moving and self._looks > self.looks_per_move:
            self._looks = 0
            self._stale = self._metadata_now()
            for index, target in self.moving.items():
                self.replicas[index] = target
            self.moving = {}
        partitions = [
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=self._all_replicas(index),
                adding_replicas=[each for each in target if each not in self.replicas[index]],
                removing_replicas=[each for each in self.replicas[index] if each not in target],
            )
            for index, target in self.moving.items()
        ]
        topics = [OngoingTopicReassignment(name=TOPIC, partitions=partitions)] if partitions else []
        return ListPartitionReassignmentsResponse(error_message=None, topics=topics)

    def _alter_moves(self, request: Any, _version: int) -> AlterPartitionReassignmentsResponse:
        self._looks = 0
        rows = []
        for wanted in request.topics[0].partitions:
            index, error = wanted.partition_index, 0
            if wanted.replicas is not None:
                self.moving[index] = list(wanted.replicas)
            elif self.moving.pop(index, None) is None:
                error = int(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            rows.append(
                ReassignablePartitionResponse(
                    partition_index=index, error_code=error, error_message=None
                )
            )
        topic = ReassignableTopicResponse(name=TOPIC, partitions=rows)
        return AlterPartitionReassignmentsResponse(error_message=None, responses=[topic])

    def _alter_configs(
        self, request: Any, _version: int
    ) -> altering.IncrementalAlterConfigsResponse:
        answers = []
        for resource in request.resources:
            key = (resource.resource_type, resource.resource_name)
            values = self.configs.setdefault(key, {})
            for entry in resource.configs:
                self.config_log.append((*key, entry.name, entry.value))
                if entry.value is None:
                    values.pop(entry.name, None)
                else:
                    values[entry.name] = entry.value
                if entry.name == "cordoned.log.dirs":
                    self.cordoned = entry.value == "*"
            answers.append(
                altering.AlterConfigsResourceResponse(
                    error_message=None, resource_type=key[0], resource_name=key[1]
                )
            )
        return altering.IncrementalAlterConfigsResponse(responses=answers)

    def _describe_configs(self, request: Any, _version: int) -> DescribeConfigsResponse:
        """What was set, and nothing else; of topics (2) and of brokers (4)."""
        results = []
        for resource in request.resources:
            values = self.configs.get((resource.resource_type, resource.resource_name), {})
            source = 1 if resource.resource_type == 2 else 2
            results.append(
                DescribeConfigsResult(
                    error_message=None,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                    configs=[
                        DescribeConfigsResourceResult(name=key, value=value, config_source=source)
                        for key, value in values.items()
                        if key in resource.configuration_keys
                    ],
                )
            )
        return DescribeConfigsResponse(results=results)

    def _elect(self, request: Any, _version: int) -> ElectLeadersResponse:
        rows = []
        asked = request.topic_partitions
        for index in self.replicas if asked is None else asked[0].partitions:
            preferred = self.replicas[index][0]
            needed = self.leaders[index] != preferred
            self.leaders[index] = preferred
            error = 0 if needed else int(ErrorCode.ELECTION_NOT_NEEDED)
            rows.append(PartitionResult(partition_id=index, error_code=error, error_message=None))
        result = ReplicaElectionResult(topic=TOPIC, partition_result=rows)
        return ElectLeadersResponse(replica_election_results=[result])

    def _unregister(self, request: Any, _version: int) -> UnregisterBrokerResponse:
        self.ids.remove(request.broker_id)
        return UnregisterBrokerResponse(error_message=None)
