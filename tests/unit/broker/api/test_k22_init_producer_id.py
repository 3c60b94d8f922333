"""InitProducerId in every version: ids that are handed out once, ever."""

from typing import Any

import pytest
from tests.unit.broker.dialogue import Client, dialogue

from headrace.base.limits import PRODUCER_ID_BLOCK_SIZE
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.errors import ErrorCode
from headrace.wire.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

VERSIONS = range(6)


def granted(client: Client, version: int = 5, **fields: Any) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000, **fields)
    response = client.ask(request, version)
    assert isinstance(response, InitProducerIdResponse)
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_gives_fresh_ids_with_epoch_0(version: int) -> None:
    _, client = dialogue()
    found = [granted(client, version) for _ in range(5)]
    assert [(r.error_code, r.producer_epoch) for r in found] == [(0, 0)] * 5
    assert len({r.producer_id for r in found}) == 5
    assert min(r.producer_id for r in found) >= 0


@pytest.mark.parametrize("version", range(3, 6))
def test_a_producer_that_recovers_gets_a_fresh_id(version: int) -> None:
    _, client = dialogue()
    first = granted(client, version)
    again = granted(client, version, producer_id=first.producer_id, producer_epoch=0)
    assert (again.error_code, again.producer_epoch) == (0, 0)
    assert again.producer_id != first.producer_id


@pytest.mark.parametrize("version", VERSIONS)
def test_an_empty_transactional_id_is_none(version: int) -> None:
    _, client = dialogue()
    request = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000)
    assert client.ask(request, version).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("fields", [{"producer_id": 7}, {"producer_epoch": 7}])
def test_an_id_without_its_epoch_or_the_other_way_round(fields: dict[str, int]) -> None:
    _, client = dialogue()
    assert granted(client, **fields).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("end", ["stop", "kill", "crash"])
def test_no_id_is_given_twice_over_restarts(end: str) -> None:
    broker = SimulatedBroker()
    seen: set[int] = set()
    for _ in range(4):
        client = Client(broker)
        for _ in range(10):
            producer_id = granted(client).producer_id
            assert producer_id not in seen
            seen.add(producer_id)
        getattr(broker, end)()
        broker.start()


def test_more_than_a_block() -> None:
    broker = SimulatedBroker()
    client = Client(broker)
    ids = [granted(client).producer_id for _ in range(PRODUCER_ID_BLOCK_SIZE + 10)]
    assert len(set(ids)) == len(ids)
