"""A cleaner without a process: the same work on a simulated disk, at once or when told to."""

from collections.abc import Callable

from headrace.base.errors import StorageError
from headrace.base.storage import Storage
from headrace.broker.cleaner import OnCleaned, Outcome
from headrace.log.compaction.cleaning import clean
from headrace.log.compaction.engine import PythonEngine
from headrace.log.compaction.job import CleaningJob


class SimulatedCleaner:
    """`broker.cleaner.CleaningWorker`; with `is_held` answers wait for `release`."""

    def __init__(self, storage: Storage, *, is_held: bool = False) -> None:
        self._storage = storage
        self._is_held = is_held
        self._waiting: list[Callable[[], None]] = []
        self.rest_count = 0

    def clean(self, job: CleaningJob, on_done: OnCleaned) -> None:
        outcome = self._outcome(job)
        if self._is_held:
            self._waiting.append(lambda: on_done(outcome))
        else:
            on_done(outcome)

    def _outcome(self, job: CleaningJob) -> Outcome:
        engine = PythonEngine(job.buffer_bytes, job.load_factor, bytes(16))
        try:
            return clean(self._storage, job, engine)
        except StorageError as error:
            return error

    def release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer()

    def rest(self) -> None:
        self.rest_count += 1

    def close(self) -> None:
        self._waiting.clear()
