"""A result that comes later, for code that must not know asyncio.

Owns: one value or one exception, and who waits for it. Everything happens on the one
thread of the node's loop: callbacks run at once, in the order they were added.
Must not know: loops, threads, clocks.

Invariants: a promise is settled at most once; a callback runs exactly once.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Promise(Generic[T]):
    """A value to come. `then` looks at the settled promise; `value` raises what failed."""

    __slots__ = ("_callbacks", "_error", "_settled", "_value")

    def __init__(self) -> None:
        self._settled = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] = []

    @classmethod
    def resolved(cls, value: T) -> "Promise[T]":
        promise = cls()
        promise.resolve(value)
        return promise

    @property
    def settled(self) -> bool:
        return self._settled

    @property
    def error(self) -> BaseException | None:
        return self._error

    def value(self) -> T:
        assert self._settled, "value() of a promise that is not settled"
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def resolve(self, value: T) -> None:
        assert not self._settled, "a promise is settled once"
        self._value = value
        self._settle()

    def reject(self, error: BaseException) -> None:
        assert not self._settled, "a promise is settled once"
        self._error = error
        self._settle()

    def then(self, callback: "Callable[[Promise[T]], None]") -> None:
        """Call `callback(self)` once settled; at once if it already is."""
        if self._settled:
            callback(self)
        else:
            self._callbacks.append(callback)

    def map(self, function: Callable[[T], U]) -> "Promise[U]":
        """A promise of `function(value)`; a failure passes through."""
        mapped: Promise[U] = Promise()

        def on_settled(source: Promise[T]) -> None:
            if source._error is not None:
                mapped.reject(source._error)
                return
            try:
                result = function(source.value())
            except Exception as error:
                mapped.reject(error)
                return
            mapped.resolve(result)

        self.then(on_settled)
        return mapped

    def _settle(self) -> None:
        self._settled = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)
