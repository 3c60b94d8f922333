"""ListGroups in every version, with its filters."""

import pytest
from tests.unit.broker.api.group_broker import busy_broker, versions_of

from headrace.wire.kafka.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@pytest.mark.parametrize("version", versions_of(ListGroupsRequest))
def test_list_in_every_version(version: int) -> None:
    answer = busy_broker().call(ListGroupsRequest(), version, ListGroupsResponse)
    assert answer.error_code == 0
    listed = {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in answer.groups}
    state = ("Stable", "Empty") if version >= 4 else ("", "")
    type_ = "classic" if version >= 5 else ""
    assert listed == {("g", "consumer", state[0], type_), ("lone", "", state[1], type_)}


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["stable"], [], {"g"}),
        (["Stable", "Empty"], ["CLASSIC"], {"g", "lone"}),
        (["Assigning"], [], set()),
        ([], ["consumer"], set()),
        ([], ["classic", "consumer"], {"g", "lone"}),
    ],
)
def test_list_with_filters(states: list[str], types: list[str], expected: set[str]) -> None:
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    answer = busy_broker().call(request, 5, ListGroupsResponse)
    assert {group.group_id for group in answer.groups} == expected
