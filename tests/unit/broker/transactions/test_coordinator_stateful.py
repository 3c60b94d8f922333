"""Any order of questions, held answers, moved partitions and restarts: what must hold of them.

epochs       no epoch of a producer id is handed out to two producers; it never goes back
outcomes     a transaction that was told committed is committed in every partition it wrote
             to, one that was told aborted in none, and none is both
log          what a coordinator says, another that reads the same log says too
"""

from dataclasses import replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.broker.transactions.stage import MemoryStateLog, Stage

from headrace.broker.transactions.metadata import VERSION_EPOCH_BUMP, VERSION_OLD
from headrace.broker.transactions.store import read_state
from headrace.broker.transactions.verdicts import ProducerAnswer
from headrace.wire.kafka.errors import ErrorCode

PARTITIONS = [("t", index) for index in range(3)]
FATAL = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
}


class Writer:
    """A producer that keeps to the protocol of its version."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.answer: ProducerAnswer | None = None
        self.added: set[tuple[str, int]] = set()
        self.is_over = False


class Coordination(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(log=MemoryStateLog(1))
        self.writers: list[Writer] = []
        self.handed_out: dict[tuple[int, int], Writer] = {}
        self.markers_read = 0
        self.outcomes: dict[tuple[int, int, tuple[str, int]], bool] = {}
        self.promised: list[tuple[int, int, tuple[str, int], bool]] = []

    # What happens

    @rule(version=st.sampled_from([VERSION_OLD, VERSION_EPOCH_BUMP]))
    def init(self, version: int) -> None:
        writer = Writer(version)
        answer = self.stage.init()

        def on_answer() -> None:
            if answer.value().error is ErrorCode.NONE:
                self.hand_out(writer, answer.value())
                self.writers.append(writer)

        answer.then(lambda _: on_answer())

    def hand_out(self, writer: Writer, answer: ProducerAnswer) -> None:
        key = (answer.producer_id, answer.producer_epoch)
        assert self.handed_out.setdefault(key, writer) is writer, f"{key} was given twice"
        writer.answer = answer
        writer.added = set()

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), partition=st.sampled_from(PARTITIONS))
    def add(self, data: st.DataObject, partition: tuple[str, int]) -> None:
        writer = data.draw(st.sampled_from(self.writers))
        if writer.is_over or writer.answer is None:
            return
        asked = writer.answer
        added = self.stage.add(asked, partition, version=writer.version)

        def on_added() -> None:
            if added.value() is ErrorCode.NONE and writer.answer is asked:
                writer.added.add(partition)
            elif added.value() in FATAL:
                writer.is_over = True

        added.then(lambda _: on_added())

    @precondition(lambda self: self.writers)
    @rule(data=st.data(), commit=st.booleans())
    def end(self, data: st.DataObject, commit: bool) -> None:
        writer = data.draw(st.sampled_from(self.writers))
        if writer.is_over or writer.answer is None or not writer.added:
            return
        asked, added = writer.answer, set(writer.added)
        ended = self.stage.end(asked, commit=commit, version=writer.version)

        def on_ended() -> None:
            answer = ended.value()
            if answer.error in FATAL:
                writer.is_over = True
            elif answer.error is ErrorCode.NONE and writer.answer is asked:
                # With v2 the markers carry the epoch of the answer, else the one asked with.
                epoch = asked.producer_epoch + (writer.version == VERSION_EPOCH_BUMP)
                for key in added:
                    self.promised.append((asked.producer_id, epoch, key, commit))
                self.hand_out(writer, answer)

        ended.then(lambda _: on_ended())

    @rule()
    def hold(self) -> None:
        self.stage.log.is_holding = True

    @rule(error=st.sampled_from([0, 0, 0, int(ErrorCode.NOT_ENOUGH_REPLICAS)]))
    def release(self, error: int) -> None:
        if error:
            # Refused: what was held never came to be in the log.
            held = len(self.stage.log.held)
            if held:
                del self.stage.log.partitions[0][-held:]
        self.stage.log.is_holding = False
        self.stage.log.release(error)

    @rule()
    def hold_markers(self) -> None:
        self.stage.peers.is_holding = True

    @rule()
    def release_markers(self) -> None:
        self.stage.peers.is_holding = False
        self.stage.peers.release()

    @rule(delta_ms=st.sampled_from([50, 10_000, 70_000]))
    def tick(self, delta_ms: int) -> None:
        self.stage.timers.advance(delta_ms)

    @rule()
    def restart(self) -> None:
        stage = self.stage
        stage.coordinator.shutdown()
        stage.log.is_holding = False
        stage.log.release()
        stage.log.epoch += 1
        stage.open()

    # What must hold

    @invariant()
    def markers_agree(self) -> None:
        sent = self.stage.peers.sent
        for marker in sent[self.markers_read :]:
            for key in marker.partitions:
                where = (marker.producer_id, marker.producer_epoch, key)
                if self.is_final(marker.producer_id, marker.producer_epoch):
                    before = self.outcomes.setdefault(where, marker.is_commit)
                    assert before == marker.is_commit, f"{where} ended both ways"
        self.markers_read = len(sent)

    def is_final(self, producer_id: int, producer_epoch: int) -> bool:
        """With v2 an epoch ends one transaction; in the old protocol many share it."""
        writer = self.handed_out.get((producer_id, producer_epoch))
        return writer is None or writer.version == VERSION_EPOCH_BUMP

    @invariant()
    def another_reads_the_same(self) -> None:
        stage = self.stage
        mine = stage.coordinator.describe("id")
        if stage.log.held or isinstance(mine, ErrorCode) or mine.producer_epoch < 0:
            return
        key, value = stage.log.partitions[0][-1]
        # The epoch before the last is not in the log: a repeated question is lost with it.
        assert read_state(key, value) == ("id", replace(mine, last_producer_epoch=-1))

    def teardown(self) -> None:
        """After everything has been let go, what was promised is what the markers say."""
        self.release(0)
        self.release_markers()
        for _ in range(5):
            self.stage.timers.advance(1_000)
        for producer_id, epoch, key, commit in self.promised:
            told = [
                marker.is_commit
                for marker in self.stage.peers.sent
                if (marker.producer_id, marker.producer_epoch) == (producer_id, epoch)
                and key in marker.partitions
            ]
            assert told, f"no marker for {(producer_id, epoch, key)}"
            if self.is_final(producer_id, epoch):
                assert set(told) == {commit}
            else:
                assert commit in told


TestCoordination = Coordination.TestCase
TestCoordination.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
