"""Long work in slices: some milliseconds a turn of the loop, one piece of work after the other.

Owns: the queue. What must not wait behind a block report has a queue of its own.
"""

from collections import deque
from collections.abc import Callable, Generator

from headrace.base.clock import Timers
from headrace.base.promise import Promise


class Slices:
    def __init__(self, timers: Timers, after_each: Callable[[], None]) -> None:
        self._timers = timers
        self._after_each = after_each
        self._queue: deque[tuple[Generator[None, None, None], Promise[None]]] = deque()
        self._is_running = False

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, steps: Generator[None, None, None]) -> Promise[None]:
        """Resolved when all steps are done. The first is done at once if nothing waits."""
        done: Promise[None] = Promise()
        self._queue.append((steps, done))
        if not self._is_running:
            self._is_running = True
            self._run()
        return done

    def _run(self) -> None:
        while self._queue:
            steps, done = self._queue[0]
            try:
                next(steps)
            except StopIteration:
                self._queue.popleft()
                self._after_each()
                done.resolve(None)
                continue
            self._after_each()
            self._timers.call_soon(self._run)
            return
        self._is_running = False
