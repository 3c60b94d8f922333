"""How a request becomes a decision: refused in safe mode, answered again as a retry, or decided.

Owns: that order, which every change of the tree goes through, and no state of its own.
Must not know: what requests mean, who waits for an answer, DataNodes.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from headrace.base.clock import Clock
from headrace.base.promise import Promise
from headrace.namespace import retries
from headrace.namespace.caller import Caller
from headrace.namespace.edits import Record
from headrace.namespace.filesystem import Namespace
from headrace.namespace.journal import Journal
from headrace.namespace.ops import complete
from headrace.namespace.requests import AT_MOST_ONCE, Create
from headrace.namespace.safemode import SafeMode
from headrace.wire.hadoop import exceptions
from headrace.wire.hadoop.exceptions import RemoteError

R = TypeVar("R")
Decide = Callable[[Namespace, Any, Caller, int], tuple[Sequence[Record], R]]


class Decisions:
    def __init__(
        self,
        ns: Namespace,
        journal: Journal,
        safe_mode: SafeMode,
        clock: Clock,
        *,
        refusal: Callable[[Any], BaseException],
        drain: Callable[[], None],
    ) -> None:
        """`refusal` says why a request waits for the end of safe mode; `drain` has the soft state
        follow what was replayed."""
        self._ns = ns
        self._journal = journal
        self._safe_mode = safe_mode
        self._clock = clock
        self._refusal = refusal
        self._drain = drain

    def decide(self, decide: Decide[R], request: Any, caller: Caller) -> R:
        """The answer, which may leave when it is durable. Refusals raise."""
        if self._safe_mode.is_on:
            raise self._refusal(request)
        ns = self._ns
        if caller.client_id and type(request) in AT_MOST_ONCE:
            entry = ns.retry_cache.find(caller.client_id, caller.call_id)
            if entry is not None and entry.request == retries.fingerprint(request):
                if isinstance(request, Create):
                    self.resume(int(entry.result), request.client_name, caller)
                answer: R = retries.answer_again(ns, request, entry.result)
                return answer
        response = self._journal.decide_now(decide, request, caller, self._clock.now_ms())
        if ns.reopened or ns.completed or ns.to_review:
            self._drain()
        return response

    def resume(self, file_id: int, client_name: str, caller: Caller) -> None:
        """Open a file again that a start took for closed, for its writer. Refusals raise."""
        if not self._ns.leases.resumable:
            return
        records = complete.resume(self._ns, file_id, client_name, caller.address)
        if records:
            opened: Promise[None] = self._journal.submit(lambda _: (records, None))
            if opened.error is not None:
                raise opened.error

    def decide_opening(
        self,
        decide: Decide[R],
        request: Any,
        caller: Caller,
        recover_if_silent: Callable[[str, str, Caller], None],
    ) -> R:
        """The same for what opens a file: its writer was heard of, and a file whose writer has gone
        silent is recovered."""
        try:
            return self.decide(decide, request, caller)
        except RemoteError as error:
            if error.class_name != exceptions.ALREADY_BEING_CREATED:
                raise
            recover_if_silent(request.src, request.client_name, caller)
            return self.decide(decide, request, caller)
        finally:
            self._ns.leases.renew(request.client_name, self._clock.monotonic_ms())
