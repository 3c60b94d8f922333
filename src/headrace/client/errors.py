"""What can go wrong between this client and a cluster, as sentences for people.

Owns: the types a caller of `headrace.client` may catch. Each message says what happened
and, where it is known, what to do. Must not know: how anything is retried.
"""

from headrace.base.errors import HeadraceError
from headrace.wire.kafka.errors import ErrorCode


class ClientError(HeadraceError):
    """A request to a cluster did not succeed."""


class Unreachable(ClientError):
    """No connection, or it broke: the request may be sent again elsewhere or later."""


class TimedOut(ClientError):
    """All attempts within the time allowed failed; the message says how the last one did."""


class DamagedBatch(ClientError):
    """A fetched batch is not what was written: its bytes can't be shown as records."""

    def __init__(self, topic: str, partition: int, offset: int, reason: str) -> None:
        super().__init__(
            f"topic {topic}, partition {partition}: "
            f"the batch at offset {offset} is damaged: {reason}"
        )
        self.topic = topic
        self.partition = partition
        self.offset = offset


class UnsupportedByServer(ClientError):
    """The server does not serve the API, or no version of it that this client speaks."""


class ServerError(ClientError):
    """The server answered with an error code. `doing` says what was asked of it."""

    def __init__(self, doing: str, code: int, message: str | None = None) -> None:
        self.code = code
        self.name = name_of(code)
        reason = (message or ErrorCode.of(code).message).rstrip(".")
        super().__init__(f"{doing}: {reason} ({self.name}){_advice(code)}")

    @property
    def retriable(self) -> bool:
        return is_retriable(self.code)


_ADVICE: dict[int, str] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "; `headrace topic list` shows what is there",
    ErrorCode.TOPIC_ALREADY_EXISTS: "; use `--if-not-exists` if that is fine",
    ErrorCode.UNKNOWN_MEMBER_ID: "; if this is a reset, stop the group's consumers first",
    ErrorCode.NON_EMPTY_GROUP: "; stop the group's consumers first",
    ErrorCode.MESSAGE_TOO_LARGE: "; raise the topic's max.message.bytes or send smaller records",
    ErrorCode.OFFSET_OUT_OF_RANGE: "; `--from beginning` starts at the oldest record kept",
}


def _advice(code: int) -> str:
    return _ADVICE.get(code, "")


def name_of(code: int) -> str:
    """The protocol's name of an error code, also for codes newer than our table."""
    known = ErrorCode.of(code)
    return known.name if known == code else f"error code {code}"


def is_retriable(code: int) -> bool:
    return ErrorCode.of(code).retriable


def raise_for(code: int, doing: str, message: str | None = None) -> None:
    """Raise `ServerError` unless `code` is 0."""
    if code != 0:
        raise ServerError(doing, code, message)
