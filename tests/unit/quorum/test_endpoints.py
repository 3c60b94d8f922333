"""Where nodes listen: the voter set first, then what others told."""

from headrace.quorum.election_state import ReplicaKey
from headrace.quorum.endpoints import LEARNED_MAX, Endpoints
from headrace.quorum.voters import Endpoint, Voter, VoterSet
from headrace.wire.kafka.messages import begin_quorum_epoch, fetch, update_raft_voter, vote

NOBODY = VoterSet()


def test_a_voter_is_where_its_endpoint_of_our_listener_is() -> None:
    key = ReplicaKey(1, b"1" * 16)
    voters = VoterSet([Voter(key, (Endpoint("A", "a", 1), Endpoint("B", "b", 2)))])
    assert Endpoints("B").of(1, voters) == ("b", 2)
    assert Endpoints("other").of(1, voters) == ("a", 1)
    assert Endpoints("B").of(2, voters) is None


def test_answers_tell() -> None:
    endpoints = Endpoints("B")
    node = fetch.NodeEndpoint(node_id=3, host="h3", port=33)
    endpoints.on_response(fetch.FetchResponse(node_endpoints=[node]))
    assert endpoints.of(3, NOBODY) == ("h3", 33)
    moved = vote.NodeEndpoint(node_id=3, host="h4", port=44)
    endpoints.on_response(vote.VoteResponse(node_endpoints=[moved]))
    assert endpoints.of(3, NOBODY) == ("h4", 44)
    leader = update_raft_voter.CurrentLeader(leader_id=5, leader_epoch=1, host="h5", port=55)
    endpoints.on_response(update_raft_voter.UpdateRaftVoterResponse(current_leader=leader))
    assert endpoints.of(5, NOBODY) == ("h5", 55)


def test_a_new_leader_tells_where_it_listens() -> None:
    endpoints = Endpoints("B")
    partition = begin_quorum_epoch.PartitionData(leader_id=7, leader_epoch=1)
    endpoints.on_request(
        begin_quorum_epoch.BeginQuorumEpochRequest(
            topics=[begin_quorum_epoch.TopicData(partitions=[partition])],
            leader_endpoints=[
                begin_quorum_epoch.LeaderEndpoint(name="A", host="wrong", port=1),
                begin_quorum_epoch.LeaderEndpoint(name="B", host="h7", port=77),
            ],
        )
    )
    assert endpoints.of(7, NOBODY) == ("h7", 77)


def test_nonsense_is_not_learned_and_nobody_fills_our_memory() -> None:
    endpoints = Endpoints("B")
    nodes = [
        fetch.NodeEndpoint(node_id=-1, host="h", port=1),
        fetch.NodeEndpoint(node_id=1, host="", port=1),
        fetch.NodeEndpoint(node_id=2, host="h", port=0),
    ]
    endpoints.on_response(fetch.FetchResponse(node_endpoints=nodes))
    assert endpoints.of(-1, NOBODY) is None
    assert endpoints.of(1, NOBODY) is None
    assert endpoints.of(2, NOBODY) is None
    for node_id in range(LEARNED_MAX + 10):
        node = fetch.NodeEndpoint(node_id=node_id, host="h", port=9)
        endpoints.on_response(fetch.FetchResponse(node_endpoints=[node]))
    assert endpoints.of(0, NOBODY) is None
    assert endpoints.of(LEARNED_MAX + 9, NOBODY) == ("h", 9)
