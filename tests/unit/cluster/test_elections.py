"""ElectLeaders: preferred and unclean, by name and for all, with Kafka's codes."""

import pytest
from tests.unit.cluster.images import context_of, image_of, partition_of, replayed

from headrace.cluster.elections import decide_elect_leaders
from headrace.cluster.image import NO_LEADER, ClusterImage
from headrace.cluster.leadership import preferred_elections, unclean_elections
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

PREFERRED, UNCLEAN = 0, 1


def elect(
    image: ClusterImage, election_type: int, *indexes: int, topic: str = "t"
) -> tuple[ClusterImage, list[int]]:
    asked = [TopicPartitions(topic=topic, partitions=list(indexes))]
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=asked)
    records, response = decide_elect_leaders(image, request, context_of(2))
    (result,) = response.replica_election_results
    assert [each.partition_id for each in result.partition_result] == list(indexes)
    return replayed(image, records), [each.error_code for each in result.partition_result]


def test_the_preferred_replica_leads_again() -> None:
    image = image_of({"leader": 2})
    after, codes = elect(image, PREFERRED, 0)
    assert codes == [0]
    assert (partition_of(after).leader, partition_of(after).leader_epoch) == (1, 6)


def test_the_codes_of_a_preferred_election() -> None:
    image = image_of(
        {},
        {"leader": 2, "isr": [2, 3]},
        {"replicas": [3, 1], "leader": 1, "isr": [1]},
        fenced=(3,),
    )
    after, codes = elect(image, PREFERRED, 0, 1, 2, 9)
    assert codes == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert after == image
    assert elect(image, PREFERRED, 0, topic="?")[1] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_an_unclean_election_makes_one_replica_the_whole_isr() -> None:
    image = image_of({"leader": NO_LEADER, "isr": [1]}, fenced=(1,))
    after, codes = elect(image, UNCLEAN, 0)
    partition = partition_of(after)
    assert codes == [0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_the_codes_of_an_unclean_election() -> None:
    image = image_of(
        {"leader": 2, "isr": [2]},
        {"replicas": [1], "leader": NO_LEADER},
        fenced=(1,),
    )
    after, codes = elect(image, UNCLEAN, 0, 1)
    assert codes == [ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert after == image


def test_asked_for_all_those_that_need_none_are_left_out() -> None:
    image = image_of({}, {"leader": 2}, {"leader": 3, "isr": [2, 3]})
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None)
    records, response = decide_elect_leaders(image, request, context_of(2))
    (result,) = response.replica_election_results
    assert [(each.partition_id, each.error_code) for each in result.partition_result] == [
        (1, 0),
        (2, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
    ]
    assert len(records) == 1
    well, _ = elect(image_of({}), PREFERRED, 0)
    assert decide_elect_leaders(well, request, context_of(2))[1].replica_election_results == []


def test_a_kind_of_election_that_is_none() -> None:
    request = ElectLeadersRequest(election_type=2, topic_partitions=None)
    records, response = decide_elect_leaders(image_of({}), request, context_of(2))
    assert (records, response.error_code) == ([], ErrorCode.INVALID_REQUEST)


def test_a_partition_named_twice_is_elected_once() -> None:
    after, codes = elect(image_of({"leader": 2}), PREFERRED, 0, 0)
    assert codes == [0, ErrorCode.ELECTION_NOT_NEEDED]
    assert partition_of(after).leader_epoch == 6


def test_balancing_stops_at_its_limit() -> None:
    image = image_of({"leader": 2}, {"leader": 3}, {}, {"leader": 2, "isr": [2]})
    assert len(preferred_elections(image, 10, context_of(2))) == 2
    assert len(preferred_elections(image, 1, context_of(2))) == 1


@pytest.mark.parametrize(("allowed", "elected"), [("true", 1), ("false", 0)])
def test_leaderless_partitions_are_elected_uncleanly_only_where_allowed(
    allowed: str, elected: int
) -> None:
    image = image_of({"leader": NO_LEADER, "isr": [1]}, fenced=(1,))
    context = context_of(unclean_leader_election_enable=allowed)
    assert len(unclean_elections(image, context, 10)) == elected
    assert unclean_elections(image, context, 0) == []
