"""The options of Spark's kafka source: all of them known, wrong ones refused in a sentence."""

import pickle

import pytest

from headrace.base.errors import UsageError
from headrace.pipeline.source.source_options import EARLIEST, LATEST, Selection, SourceOptions

BASE = {"kafka.bootstrap.servers": "a:1", "subscribe": "t"}


def of(*, is_streaming: bool = True, **given: str) -> SourceOptions:
    return SourceOptions.of(BASE | given, is_streaming=is_streaming)


def test_defaults_are_those_of_sparks_source() -> None:
    stream, once = of(), of(is_streaming=False)
    assert (stream.starting.everywhere, once.starting.everywhere) == (LATEST, EARLIEST)
    assert once.ending.everywhere == LATEST
    assert stream.fail_on_data_loss
    assert not stream.include_headers
    assert stream.offsets_per_trigger_max == stream.min_partitions == 0
    assert stream.trigger_delay_ms_max == 900_000
    assert pickle.loads(pickle.dumps(stream)) == stream


def test_names_are_not_case_sensitive() -> None:
    options = of(FAILONDATALOSS="False", maxOffsetsPerTrigger="7", MAXTRIGGERDELAY="2m")
    assert not options.fail_on_data_loss
    assert options.offsets_per_trigger_max == 7
    assert options.trigger_delay_ms_max == 120_000


def test_selection() -> None:
    assert of(subscribe=" b,a,b ").selection == Selection(subscribe=("a", "b"))
    base = {"kafka.bootstrap.servers": "a:1"}
    assigned = SourceOptions.of(base | {"assign": '{"t":[1,0]}'}, is_streaming=True)
    assert assigned.selection == Selection(assign=(("t", 0), ("t", 1)))


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"assign": '{"t":[0]}'}, "not subscribe and assign"),
        ({"subscribePattern": "x"}, "not subscribe and subscribePattern"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startingOffsets": "newest"}, "earliest, latest or JSON"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "JSON like"),
        ({"startingOffsets": '{"t":[0]}'}, "JSON like"),
        ({"startingOffsets": "[]"}, "JSON like"),
        ({"startingTimestamp": "noon"}, "milliseconds since 1970"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "JSON like"),
        ({"startingOffsetsByTimestampStrategy": "skip"}, "error or latest"),
        ({"endingOffsets": "latest"}, "it has no end"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "a number from 1 on"),
        ({"minPartitions": "-2"}, "a number from 1 on"),
        ({"maxTriggerDelay": "soon"}, "a time like"),
        ({"maxOffsetPerTrigger": "5"}, "not known"),
        ({"kafka.security.protocol": "SSL"}, "only PLAINTEXT"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        of(**given)


def test_nothing_selected_is_refused() -> None:
    with pytest.raises(UsageError, match="subscribe, subscribePattern and assign"):
        SourceOptions.of({"kafka.bootstrap.servers": "a:1"}, is_streaming=True)
    for text in ("{", "[]", '{"t":0}', '{"t":["0"]}'):
        with pytest.raises(UsageError, match="assign is"):
            SourceOptions.of({"kafka.bootstrap.servers": "a:1", "assign": text}, is_streaming=True)
    with pytest.raises(UsageError, match="regular expression"):
        SourceOptions.of(
            {"kafka.bootstrap.servers": "a:1", "subscribePattern": "("}, is_streaming=True
        )


def test_a_read_has_bounds_that_make_sense() -> None:
    with pytest.raises(UsageError, match="can't be latest"):
        of(is_streaming=False, startingOffsets="latest")
    for text in ("earliest", '{"t":{"0":-2}}'):
        with pytest.raises(UsageError, match="can't be earliest"):
            of(is_streaming=False, endingOffsets=text)


def test_options_of_sparks_pools_are_taken_and_mean_nothing() -> None:
    assert of(groupIdPrefix="x", **{"kafkaConsumer.pollTimeoutMs": "5"}) == of()
