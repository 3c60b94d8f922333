"""Random transactions over a whole broker that is stopped, killed and loses its power.

L1 to L10 and L17 of the reliability guide, judged by `testing.checkers` after every life: among
them that a transaction is seen whole or not at all (L8), that nothing aborted is read (L4), and
that a copy holds every input once (L3).
"""

from random import Random

import pytest
from tests.sim.broker.transactors import SINK, SOURCE, Actor, CommittedReader, Copier
from tests.unit.broker.dialogue import Client, batch
from tests.unit.broker.transactor import FLAGS, Transactor, committed_offset

from headrace.testing import checkers
from headrace.testing.broker import SimulatedBroker
from headrace.testing.checkers import Violation
from headrace.testing.disk import SimulatedDisk
from headrace.testing.history import CommittedOffset, History, Outcome, Send, TopicPartition

SEEDS = range(60)
LONG_SEEDS = range(1000, 2000)
INPUTS_PER_LIFE = 12


class Plot:
    """Who acts next, and how each life of the broker ends."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = Random(seed)
        self.is_durable = rng.random() < 0.5
        """Everything is synced before it is acknowledged: then a power cut may come, too."""
        flags = {**FLAGS, "log_index_interval_bytes": "300"}
        if self.is_durable:
            flags["log_flush_interval_messages"] = "1"
        self.broker = SimulatedBroker(seed=seed, disk=SimulatedDisk(defer_syncs=True), **flags)
        self.history = History()
        segment = {"internal_segment_bytes": "2000"} if rng.random() < 0.5 else {}
        self.broker.create_topic(SOURCE, 1)
        self.broker.create_topic(SINK, 2, **segment)
        self.input_count = 0
        self.sequence = 0
        self.actors: list[Actor] = [
            Actor(f"w{n}", self.broker, self.history, rng, bumps=bool(n % 2)) for n in range(3)
        ]
        bumps = rng.random() < 0.5
        # Two of one id: each takes over from the other again and again.
        self.actors += [
            Copier("copier", self.broker, self.history, rng, bumps=bumps)
            for _ in range(rng.choice((1, 2)))
        ]
        for number, actor in enumerate(self.actors):
            actor.incarnation = 100 * number
        self.readers = [CommittedReader(f"r{n}", self.broker, self.history) for n in range(2)]
        self.ends: list[str] = []

    def write_inputs(self, count: int) -> None:
        client = Client(self.broker)
        for _ in range(count):
            value = f"input {self.input_count}"
            answer = client.produce(SOURCE, 0, batch(value))
            assert answer.error_code == 0
            self.sequence += 1
            self.history.add(
                Send(
                    "inputs",
                    self.sequence,
                    value,
                    TopicPartition(SOURCE, 0),
                    Outcome.OK,
                    answer.base_offset,
                )
            )
            self.input_count += 1

    def live(self, steps: int) -> None:
        self.write_inputs(INPUTS_PER_LIFE)
        for _ in range(steps):
            roll = self.rng.random()
            if roll < 0.8:
                self.rng.choice(self.actors).step()
            elif roll < 0.9:
                reader = self.rng.choice(self.readers)
                reader.step(self.rng.choice(list(reader.positions)))
            elif roll < 0.92:
                self.rng.choice(self.actors).die()
            elif roll < 0.94:
                self.rng.choice(self.actors).arrive_late()
            elif roll < 0.96:
                self.broker.advance(self.rng.choice((10, 1_000, 15_000, 80_000)))
            else:
                self.upkeep()
            assert not self.broker.failures, self.broker.failures

    def upkeep(self) -> None:
        partitions = self.broker.broker.partitions
        self.rng.choice((partitions.checkpoint, partitions.flush_due, partitions.retain))()
        if self.rng.random() < 0.3:
            target = partitions.find(SINK, self.rng.randrange(2))
            assert target is not None
            target.log.roll()
        self.broker.settle()

    def end_life(self) -> None:
        """The broker ends in the midst of somebody's request, or between two."""
        how = self.rng.choice(["stop", "kill", "kill", *(["crash"] if self.is_durable else [])])
        self.ends.append(how)
        if how != "stop" and self.rng.random() < 0.7:
            about_to_end = [a for a in self.actors if a.transaction is not None and not a.todo]
            self.interrupt(self.rng.choice(about_to_end or self.actors), how)
        else:
            getattr(self.broker, how)()
        self.broker.start()
        for actor in self.actors:
            if self.rng.random() < 0.3:
                actor.die()
            else:
                actor.reconnect()

    def interrupt(self, actor: Actor, how: str) -> None:
        """The request reaches the broker; whether its answer was on the way nobody knows.

        The actor's books are as before the request: it will ask the same again, or die.
        """
        one, transaction = actor.lives, actor.transaction
        if one is not None and transaction is not None:
            if actor.todo and isinstance(actor.todo[0], tuple):
                partition, value = actor.todo[0]
                sends = len(transaction.sends)
                sequence = one.sequences.get(partition, 0)
                whole = one.batch(value, sequence=sequence)
                request = one.produce_request(
                    partition.topic, {partition.partition: whole}, version=one.produce_version
                )
                request.transactional_id = actor.name
                if len(transaction.sends) == sends and not any(
                    send.value == value for send in transaction.sends
                ):
                    actor.sequence += 1
                    transaction.sends.append(
                        Send(
                            f"{actor.name}.{actor.incarnation}",
                            actor.sequence,
                            value,
                            partition,
                            transaction=transaction.name,
                        )
                    )
                one.transport.feed(one.frame(request, one.produce_version))
            elif not actor.todo:
                if transaction.is_commit is None:
                    transaction.is_commit = self.rng.random() < 0.7
                version = 5 if one.bumps else 3
                one.transport.feed(
                    one.frame(one.end_request(commit=transaction.is_commit), version)
                )
            for _ in range(self.rng.randrange(6)):
                self.broker.disk.complete_syncs(1)
        getattr(self.broker, how)()

    def check(self) -> list[Violation]:
        """Let everybody come to an end, read everything, judge."""
        for actor in self.actors:
            actor.die()
        for actor in self.actors:
            # Whoever takes over an id ends what was open under it.
            for _ in range(10):
                if actor.lives is not None:
                    break
                actor.step()
            assert actor.lives is not None
        client = Transactor(self.broker, "checker")
        error, offset = committed_offset(client, Copier.GROUP, SOURCE, 0)
        assert error == 0
        self.history.add(
            CommittedOffset(Copier.GROUP, TopicPartition(SOURCE, 0), None if offset < 0 else offset)
        )
        for reader in self.readers:
            reader.drain()
        source = CommittedReader(f"source {len(self.ends)}", self.broker, self.history)
        source.positions = {TopicPartition(SOURCE, 0): 0}
        source.drain()
        return checkers.check(self.history)

    def check_copies(self) -> None:
        """What was copied is exactly what the committed offset says."""
        client = Transactor(self.broker, "checker")
        error, offset = committed_offset(client, Copier.GROUP, SOURCE, 0)
        assert error == 0
        reader = CommittedReader("copies", self.broker, History())
        reader.drain()
        values = [poll.value for poll in reader.history.all_events()]  # type: ignore[union-attr]
        copies = [value.partition(" by ")[0] for value in values if value.startswith("copy of")]
        assert copies == [f"copy of input {number}" for number in range(max(offset, 0))]


def run(seed: int, lives: int, steps_max: int) -> None:
    plot = Plot(seed)
    try:
        for _ in range(lives):
            plot.live(plot.rng.randint(20, steps_max))
            plot.end_life()
            assert plot.check() == []
            plot.check_copies()
    except BaseException:
        print(f"seed {seed}: ended by {plot.ends}, durable {plot.is_durable}")
        raise


@pytest.mark.parametrize("seed", SEEDS)
def test_transactions_hold_after_every_end(seed: int) -> None:
    run(seed, lives=3, steps_max=160)


@pytest.mark.long
@pytest.mark.parametrize("seed", LONG_SEEDS)
def test_transactions_hold_over_long_runs(seed: int) -> None:
    run(seed, lives=8, steps_max=400)
