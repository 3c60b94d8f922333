"""When a leader answers a replica: at once, or a millisecond later with what comes meanwhile."""

from tests.unit.broker.dialogue import Client, batch, dialogue, wanted

from headrace.broker.partition import Partition
from headrace.broker.replication.in_sync import InSync
from headrace.testing.broker import SimulatedBroker
from headrace.wire.kafka.messages.fetch import FetchRequest, FetchResponse, ReplicaState

VERSION = 17
FOLLOWER = 2
MAX_WAIT_MS = 500


class Follower:
    """Asks in one incremental session, as followers do, and counts what it has."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self._client = Client(broker)
        self._broker = broker
        self._session_id, self._epoch = 0, 0
        self.offset = 0

    def ask(self) -> None:
        one = wanted(0, self.offset)
        one.current_leader_epoch = 0
        request = self._client.fetch_request(
            {"t": [one]},
            VERSION,
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=1),
            session_id=self._session_id,
            session_epoch=self._epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
        )
        self._epoch += 1
        self._client.transport.feed(self._client.frame(request, VERSION))

    def answered(self) -> bool:
        """Whether an answer has come since the last look."""
        answers: list[FetchResponse] = self._client.answers(FetchRequest, VERSION)
        for answer in answers:
            self._session_id = answer.session_id
        return bool(answers)


def stage() -> tuple[Partition, SimulatedBroker, Follower]:
    broker, _ = dialogue("t")
    partition = broker.broker.partitions.find("t", 0)
    assert partition is not None
    now_ms = broker.clock.monotonic_ms()
    in_sync = InSync(1, 1, (1, FOLLOWER), (1, FOLLOWER), 0, 0, 0, 30_000, now_ms)
    partition.lead(partition.leader_epoch, in_sync)
    broker.advance(1_000)
    return partition, broker, Follower(broker)


def write(partition: Partition, broker: SimulatedBroker, text: str = "x") -> None:
    partition.append(bytearray(batch(text)), broker.clock.now_ms())


def catch_up(partition: Partition, broker: SimulatedBroker, follower: Follower) -> None:
    """A first answer, just now."""
    write(partition, broker)
    follower.ask()
    assert follower.answered()
    follower.offset = partition.log.log_end_offset


def test_who_finds_little_just_after_an_answer_gets_it_a_millisecond_later() -> None:
    partition, broker, follower = stage()
    catch_up(partition, broker, follower)
    write(partition, broker)
    follower.ask()
    assert not follower.answered()
    assert partition.high_watermark == follower.offset, "what it has counts at once"
    write(partition, broker)
    assert not follower.answered(), "nor does the next write end the wait"
    broker.advance(1)
    assert follower.answered()


def test_who_finds_nothing_is_told_of_the_next_write_at_once() -> None:
    partition, broker, follower = stage()
    catch_up(partition, broker, follower)
    follower.ask()
    assert not follower.answered()
    write(partition, broker)
    assert follower.answered()


def test_who_was_not_answered_lately_is_answered_at_once() -> None:
    partition, broker, follower = stage()
    catch_up(partition, broker, follower)
    broker.advance(2)
    write(partition, broker)
    follower.ask()
    assert follower.answered()


def test_who_finds_much_is_answered_at_once() -> None:
    partition, broker, follower = stage()
    catch_up(partition, broker, follower)
    write(partition, broker, "x" * (64 << 10))
    follower.ask()
    assert follower.answered()


def test_a_broker_that_stops_answers_at_once() -> None:
    partition, broker, follower = stage()
    catch_up(partition, broker, follower)
    write(partition, broker)
    follower.ask()
    assert not follower.answered()
    for fetch in list(broker.broker.waiting_fetches):
        fetch.complete_now()
    assert follower.answered()
