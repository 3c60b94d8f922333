"""kill -9 in the middle of transactions, again and again on the same data.

Two transactional producers commit and abort at random and read each other inside their
transactions; a consumer reads along at read_committed, another reads everything afterwards.
Nothing committed is missing (L1) or there twice (L3), nothing aborted is read (L4), nobody reads
what is not committed yet (L5), order is kept (L6, L7), a transaction is seen whole or not at all
(L8), information flows in no circle (L9), and a group's offset does not go back (L17). The real
Kafka runs as control.

A run in which nothing was aborted, or nobody read in a transaction, is void, and fails.
"""

import random
from collections import Counter

import pytest
from tests.faults.load import TailReader, Watcher, await_acknowledged
from tests.faults.readers import end_offsets, invented
from tests.faults.transaction_load import TransactionLoad, open_transactions, read_committed
from tests.interop.confluent import create_topic
from tests.interop.conftest import Target
from tests.interop.nodes import until

from headrace.testing import checkers
from headrace.testing.history import Commit, History, Outcome, Poll, TransactionEnd

PARTITIONS = 3
COMMITTED_PER_ROUND = 40
TOPIC = "transactions"


def run(victim: Target, kills: int, seed: int, *, with_offsets: bool = False) -> str:
    chance, history = random.Random(seed), History()
    servers = victim.bootstrap_servers
    create_topic(servers, TOPIC, partitions=PARTITIONS, config={"segment.bytes": "1048576"})
    loads = [
        TransactionLoad(
            *(servers, TOPIC, PARTITIONS, history),
            transactional_id=f"load-{n}",
            seed=seed + n,
            with_offsets=with_offsets,
        )
        for n in range(2)
    ]
    tail = TailReader(servers, TOPIC, PARTITIONS, history)
    watcher = Watcher(servers, TOPIC, PARTITIONS, history)
    tail.start()
    for load in loads:
        load.start()
    for _ in range(kills):
        watcher.commit()
        await_acknowledged(history, COMMITTED_PER_ROUND + chance.randrange(40))
        victim.kill()
        victim.start()
        watcher.look()
    await_acknowledged(history, COMMITTED_PER_ROUND)
    for load in loads:
        load.stop()
    until(lambda: not open_transactions(servers, TOPIC, PARTITIONS))
    read_committed(servers, TOPIC, PARTITIONS, history)
    tail.drain(end_offsets(history))
    watcher.close()
    assert tail.errors == []
    if with_offsets:
        in_transactions = [one for one in history.events(Commit) if one.transaction is not None]
        assert any(one.outcome is Outcome.OK for one in in_transactions), "no offsets committed"
    return verdict(history, loads, kills)


def verdict(history: History, loads: list[TransactionLoad], kills: int) -> str:
    ends: Counter[str] = sum((load.ends for load in loads), Counter())
    found = checkers.check(history)
    reads = sum(poll.transaction is not None for poll in history.events(Poll))
    line = (
        f"{kills} kills, {dict(ends)} transactions, {reads} reads inside of them: "
        f"{checkers.summary(history, found)}; {Counter(e for load in loads for e in load.errors)}"
    )
    assert found == [], f"{line}; {found[:5]}"
    assert invented(history) == []
    assert ends["committed"] > 0, line
    assert ends["aborted"] > 0, line
    assert reads > 0, line
    assert len({end.transaction for end in history.events(TransactionEnd)}) >= ends["committed"]
    return line


def tell(capsys: pytest.CaptureFixture[str], line: str) -> None:
    with capsys.disabled():
        print(f"\nkill -9 in the midst of transactions: {line}")


def test_kills_tear_no_transaction(victim: Target, capsys: pytest.CaptureFixture[str]) -> None:
    tell(capsys, run(victim, kills=2, seed=2))


@pytest.mark.long
def test_twenty_kills_tear_no_transaction(
    victim: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    tell(capsys, run(victim, kills=20, seed=20, with_offsets=True))
