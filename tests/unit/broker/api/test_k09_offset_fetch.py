"""OffsetFetch in every version."""

import pytest
from tests.unit.broker.api.group_broker import GroupBroker, commit, fetch, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)


@pytest.mark.parametrize("version", versions_of(OffsetFetchRequest))
def test_fetch_in_every_version(version: int) -> None:
    broker = GroupBroker()
    none = {("t", 0): (-1, "", 0), ("t", 1): (-1, "", 0)}
    assert fetch(broker, version, {"t": [0, 1]}) == (0, none)
    commit(broker, 9, {("t", 0): 5, ("u", 2): 6})
    assert fetch(broker, version, {"t": [0, 1]}) == (
        0,
        {("t", 0): (5, "note", 0), ("t", 1): (-1, "", 0)},
    )
    if version >= 2:
        every = {("t", 0): (5, "note", 0), ("u", 2): (6, "note", 0)}
        assert fetch(broker, version, None) == (0, every)
        assert fetch(broker, version, {}) == (0, {})
    error = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 0
    _, found = fetch(broker, version, {"nowhere": [3]})
    assert list(found.values()) == [(-1, "", error)]


@pytest.mark.parametrize("version", versions_of(OffsetFetchRequest))
def test_fetch_from_the_wrong_broker(version: int) -> None:
    broker = GroupBroker()
    broker.stage.log.local.clear()
    error, found = fetch(broker, version, {"t": [0]})
    if version == 1:
        assert found == {("t", 0): (-1, "", ErrorCode.NOT_COORDINATOR)}
    else:
        assert (error, found) == (ErrorCode.NOT_COORDINATOR, {})


def test_several_groups_at_once() -> None:
    broker = GroupBroker()
    commit(broker, 9, {("t", 0): 5})
    wanted = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    response = broker.call(
        OffsetFetchRequest(
            require_stable=True,
            groups=[
                OffsetFetchRequestGroup(group_id="g", topics=wanted),
                OffsetFetchRequestGroup(group_id="h", topics=wanted),
            ],
        ),
        9,
        OffsetFetchResponse,
    )
    found = {
        group.group_id: group.topics[0].partitions[0].committed_offset for group in response.groups
    }
    assert found == {"g": 5, "h": -1}
