"""The error table against kio's: names, numbers and who may retry."""

from kio.schema.errors import ErrorCode as KioErrorCode

from headrace.wire.kafka.errors import ErrorCode


def test_the_table_is_kafkas() -> None:
    ours = {(code.name, int(code), code.retriable) for code in ErrorCode}
    theirs = {(code.name.upper(), int(code), code.retriable) for code in KioErrorCode}
    assert ours == theirs


def test_each_has_a_sentence_of_its_own() -> None:
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)


def test_codes_are_numbers() -> None:
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER == 6
    assert ErrorCode.of(87) is ErrorCode.INVALID_RECORD
    assert ErrorCode.of(31000) is ErrorCode.UNKNOWN_SERVER_ERROR
