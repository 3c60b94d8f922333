"""DeleteGroups in every version."""

import pytest
from tests.unit.broker.api.group_broker import busy_broker, versions_of

from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


@pytest.mark.parametrize("version", versions_of(DeleteGroupsRequest))
def test_delete_in_every_version(version: int) -> None:
    broker = busy_broker()
    request = DeleteGroupsRequest(groups_names=["g", "lone", "nobody", "lone"])
    answer = broker.call(request, version, DeleteGroupsResponse)
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("g", ErrorCode.NON_EMPTY_GROUP),
        ("lone", 0),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
        ("lone", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert broker.call(DeleteGroupsRequest(), version, DeleteGroupsResponse).results == []


def test_the_answer_to_a_deletion_waits_for_the_log() -> None:
    broker = busy_broker()
    broker.stage.log.is_holding = True
    answer = broker.ask(DeleteGroupsRequest(groups_names=["lone", "nobody"]), 2)
    assert not answer.settled
    broker.stage.log.release()
    assert answer.value().results[0].error_code == 0
