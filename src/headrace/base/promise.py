"""A result that comes later, for code that must not know asyncio.

Owns: one value or one exception, and who waits for it. Everything happens on the one
thread of the node's loop: callbacks run at once, in the order they were added.
Must not know: loops, threads, clocks.

Invariants: a promise is settled at most once; a callback runs exactly once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


class Promise(Generic[T]):
    """A value to come. `then` looks at the settled promise; `value` raises what failed."""

    __slots__ = ("_callbacks", "_error", "_settled", "_value")

    def __init__(self) -> None:
        self._settled = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] | None = None

    if not TYPE_CHECKING:

        def __class_getitem__(cls, _: Any) -> type:
            """Annotations of a nested function are evaluated each time that it is made."""
            return cls

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
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def map(self, function: Callable[[T], U]) -> "Promise[U]":
        """A promise of `function(value)`; a failure passes through."""
        mapped: Promise[U] = Promise()
        if self._settled:
            _pass_on(self, function, mapped)
        else:
            self.then(lambda source: _pass_on(source, function, mapped))
        return mapped

    def _settle(self) -> None:
        self._settled = True
        callbacks, self._callbacks = self._callbacks, None
        if callbacks is not None:
            for callback in callbacks:
                callback(self)


def _pass_on(source: Promise[T], function: Callable[[T], U], target: Promise[U]) -> None:
    error = source.error
    if error is None:
        try:
            result = function(source.value())
        except Exception as raised:
            error = raised
        else:
            target.resolve(result)
            return
    target.reject(error)
