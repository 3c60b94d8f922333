"""Requests that a broker passes on: to its own controller and quorum, where it has them."""

from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    PartitionData,
    TopicData,
)
from headrace.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from headrace.wire.kafka.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.kafka.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.kafka.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def test_describe_quorum() -> None:
    broker = SimulatedBroker()
    topic = TopicData(topic_name="__cluster_metadata", partitions=[PartitionData()])
    answer = broker.connect().ask(DescribeQuorumRequest(topics=[topic]), 2)
    partition = answer.topics[0].partitions[0]
    assert (answer.error_code, partition.error_code, partition.leader_id) == (0, 0, 1)
    assert [voter.replica_id for voter in partition.current_voters] == [1]
    assert partition.high_watermark == broker.node.host.high_watermark


def test_elect_leaders() -> None:
    broker = SimulatedBroker()
    broker.create_topic("t", 1)
    asked = [TopicPartitions(topic="t", partitions=[0])]
    answer = broker.connect().ask(ElectLeadersRequest(topic_partitions=asked, timeout_ms=1), 2)
    (result,) = answer.replica_election_results
    assert result.partition_result[0].error_code == ErrorCode.ELECTION_NOT_NEEDED


def test_update_features_of_nothing_known() -> None:
    update = FeatureUpdateKey(feature="no.such.feature", max_version_level=1, upgrade_type=1)
    answer = SimulatedBroker().connect().ask(UpdateFeaturesRequest(feature_updates=[update]), 2)
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_unregister_a_broker_that_is_not_there() -> None:
    answer = SimulatedBroker().connect().ask(UnregisterBrokerRequest(broker_id=9), 0)
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_reassignments() -> None:
    broker = SimulatedBroker()
    broker.create_topic("t", 1)
    client = broker.connect()
    listed = client.ask(ListPartitionReassignmentsRequest(topics=None, timeout_ms=1), 0)
    assert (listed.error_code, listed.topics) == (0, [])
    partition = ReassignablePartition(partition_index=0, replicas=None)
    topic = ReassignableTopic(name="t", partitions=[partition])
    answer = client.ask(AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=1), 1)
    (result,) = answer.responses
    assert result.partitions[0].error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_voters() -> None:
    client = SimulatedBroker().connect()
    listener = Listener(name="CONTROLLER", host="h", port=1)
    add = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=1,
        voter_id=1,
        voter_directory_id=b"d" * 16,
        listeners=[listener],
    )
    assert client.ask(add, 1).error_code == ErrorCode.DUPLICATE_VOTER
    remove = RemoveRaftVoterRequest(cluster_id=None, voter_id=5, voter_directory_id=b"d" * 16)
    assert client.ask(remove, 0).error_code == ErrorCode.VOTER_NOT_FOUND
