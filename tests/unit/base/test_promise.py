"""A value to come: settled once, told to everyone, in order."""

import pytest

from headrace.base.promise import Promise


def test_callbacks_run_in_their_order_once_it_is_settled() -> None:
    promise: Promise[int] = Promise()
    heard: list[str] = []
    promise.then(lambda p: heard.append(f"first {p.value()}"))
    promise.then(lambda p: heard.append(f"second {p.value()}"))
    assert heard == []
    promise.resolve(5)
    assert heard == ["first 5", "second 5"]
    promise.then(lambda p: heard.append(f"late {p.value()}"))
    assert heard[2:] == ["late 5"]


def test_it_is_settled_once() -> None:
    promise = Promise.resolved(1)
    with pytest.raises(AssertionError):
        promise.resolve(2)
    with pytest.raises(AssertionError):
        promise.reject(ValueError())
    assert promise.value() == 1


def test_there_is_no_value_before() -> None:
    promise: Promise[int] = Promise()
    assert not promise.settled
    with pytest.raises(AssertionError):
        promise.value()


def test_a_failure_is_raised_by_value_and_passed_on_by_map() -> None:
    promise: Promise[int] = Promise()
    mapped = promise.map(lambda value: value + 1)
    error = OSError("no")
    promise.reject(error)
    assert promise.settled
    assert promise.error is error
    assert mapped.error is error
    with pytest.raises(OSError, match="no"):
        mapped.value()


def test_map_chains_and_holds_what_its_function_raises() -> None:
    promise: Promise[int] = Promise()
    doubled = promise.map(lambda value: value * 2)
    text = doubled.map(str)
    broken = doubled.map(lambda value: value // 0)
    promise.resolve(21)
    assert (doubled.value(), text.value()) == (42, "42")
    assert isinstance(broken.error, ZeroDivisionError)


def test_a_map_of_none_is_a_value() -> None:
    promise: Promise[None] = Promise.resolved(None)
    assert promise.value() is None
    assert promise.map(lambda _: "done").value() == "done"


def test_a_callback_may_add_callbacks() -> None:
    promise: Promise[int] = Promise()
    heard: list[str] = []

    def first(_: Promise[int]) -> None:
        promise.then(lambda _: heard.append("inner"))
        heard.append("first")

    promise.then(first)
    promise.then(lambda _: heard.append("second"))
    promise.resolve(0)
    assert heard == ["inner", "first", "second"]
