"""The options of Spark's own `kafka` source, for ours: people switch by changing one word.

Owns: their names, defaults, and the sentences that refuse wrong ones. Must not know: Spark, the
cluster. Names are not case sensitive, as in Spark.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.base.errors import UsageError
from headrace.pipeline.options import PREFIX, LogOptions

TopicPartition = tuple[str, int]

EARLIEST = -2
LATEST = -1

TRIGGER_DELAY_MS = 15 * 60_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions: topics by name, by pattern, or single partitions. One is set."""

    subscribe: tuple[str, ...] = ()
    pattern: str = ""
    assign: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """Where to start or stop: at EARLIEST, LATEST or each partition's own offset or time.

    The first of these that is set counts: `timestamp_ms`, `timestamps_ms`, `offsets`, `everywhere`.
    """

    everywhere: int
    offsets: Mapping[TopicPartition, int] | None = None
    timestamps_ms: Mapping[TopicPartition, int] | None = None
    timestamp_ms: int | None = None
    is_late_time_latest: bool = False
    """A time behind the last record is the log's end; else it is an error."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """All options; `of` makes them."""

    log: LogOptions
    selection: Selection
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool = True
    include_headers: bool = False
    min_partitions: int = 0
    records_per_partition_max: int = 0
    offsets_per_trigger_max: int = 0
    offsets_per_trigger_min: int = 0
    trigger_delay_ms_max: int = TRIGGER_DELAY_MS

    @classmethod
    def of(cls, options: Mapping[str, str], *, is_streaming: bool) -> "SourceOptions":
        given = {name.lower(): str(value).strip() for name, value in options.items()}
        _refuse_unknown(given)
        if is_streaming:
            _refuse_ending(given)
        return cls(
            log=LogOptions.of(given),
            selection=_selection(given),
            starting=_starting(given, is_streaming=is_streaming),
            ending=_ending(given),
            fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
            include_headers=_flag(given, "includeHeaders", default=False),
            min_partitions=_count(given, "minPartitions"),
            records_per_partition_max=_count(given, "maxRecordsPerPartition"),
            offsets_per_trigger_max=_count(given, "maxOffsetsPerTrigger"),
            offsets_per_trigger_min=_count(given, "minOffsetsPerTrigger"),
            trigger_delay_ms_max=_duration(given, "maxTriggerDelay", TRIGGER_DELAY_MS),
        )


_KNOWN = frozenset(
    name.lower()
    for name in (
        "subscribe",
        "subscribePattern",
        "assign",
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "failOnDataLoss",
        "includeHeaders",
        "minPartitions",
        "maxRecordsPerPartition",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        # Of Spark's source and without a meaning here: how its JVM consumers are pooled.
        "groupIdPrefix",
        "kafkaConsumer.pollTimeoutMs",
        "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
        # Spark's own.
        "path",
    )
)


def _refuse_unknown(given: Mapping[str, str]) -> None:
    for name in given:
        if name not in _KNOWN and not name.startswith((PREFIX, "kafkaconsumer.", "__")):
            raise UsageError(f"option {name} is not known to format('headrace')")


def _refuse_ending(given: Mapping[str, str]) -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if name.lower() in given:
            raise UsageError(f"option {name} has no meaning in a stream: it has no end")


def _selection(given: Mapping[str, str]) -> Selection:
    names = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
    if len(names) != 1:
        raise UsageError(
            "give one of the options subscribe, subscribePattern and assign"
            + (f", not {' and '.join(names)}" if names else "")
        )
    text = given[names[0].lower()]
    if names == ["subscribe"]:
        topics = tuple(sorted({name.strip() for name in text.split(",") if name.strip()}))
        if not topics:
            raise UsageError("option subscribe names no topic")
        return Selection(subscribe=topics)
    if names == ["subscribePattern"]:
        try:
            re.compile(text)
        except re.error as error:
            raise UsageError(
                f"option subscribePattern is no regular expression: {error}"
            ) from error
        return Selection(pattern=text)
    assigned = _json_of("assign", text)
    pairs = {
        (topic, int(partition)) for topic, parts in assigned.items() for partition in _list(parts)
    }
    if not pairs:
        raise UsageError("option assign names no partition")
    return Selection(assign=tuple(sorted(pairs)))


def _list(parts: Any) -> list[int]:
    if not isinstance(parts, list) or not all(type(each) is int and each >= 0 for each in parts):
        raise UsageError('option assign is JSON like {"orders":[0,1]}')
    return parts


def _starting(given: Mapping[str, str], *, is_streaming: bool) -> Bound:
    bound = _bound(given, "starting", LATEST if is_streaming else EARLIEST)
    if not is_streaming and bound.everywhere == LATEST:
        raise UsageError("startingOffsets can't be latest when a DataFrame is read once")
    strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise UsageError("option startingOffsetsByTimestampStrategy is error or latest")
    return Bound(
        bound.everywhere,
        bound.offsets,
        bound.timestamps_ms,
        bound.timestamp_ms,
        is_late_time_latest=strategy == "latest",
    )


def _ending(given: Mapping[str, str]) -> Bound:
    bound = _bound(given, "ending", LATEST)
    if bound.everywhere == EARLIEST or EARLIEST in (bound.offsets or {}).values():
        raise UsageError("endingOffsets can't be earliest")
    return Bound(
        bound.everywhere,
        bound.offsets,
        bound.timestamps_ms,
        bound.timestamp_ms,
        is_late_time_latest=True,
    )


def _bound(given: Mapping[str, str], side: str, default: int) -> Bound:
    offsets_text = given.get(f"{side}offsets", "")
    times_text = given.get(f"{side}offsetsbytimestamp", "")
    time_text = given.get(f"{side}timestamp", "")
    everywhere, offsets = default, None
    if offsets_text.lower() in ("earliest", "latest"):
        everywhere = EARLIEST if offsets_text.lower() == "earliest" else LATEST
    elif offsets_text:
        offsets = _by_partition(f"{side}Offsets", offsets_text, EARLIEST)
    times = None
    if times_text:
        times = _by_partition(f"{side}OffsetsByTimestamp", times_text, 0)
    time = None
    if time_text:
        if not time_text.isdigit():
            raise UsageError(
                f"option {side}Timestamp is milliseconds since 1970, not {time_text!r}"
            )
        time = int(time_text)
    return Bound(everywhere, offsets, times, time)


def _by_partition(name: str, text: str, low: int) -> dict[TopicPartition, int]:
    """`{"orders": {"0": 23, "1": -2}}` by partition."""
    found: dict[TopicPartition, int] = {}
    for topic, partitions in _json_of(name, text).items():
        if not isinstance(partitions, dict):
            _bad_json(name)
        for partition, offset in partitions.items():
            if not partition.isdigit() or type(offset) is not int or offset < low:
                _bad_json(name)
            found[topic, int(partition)] = offset
    return found


def _json_of(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        _bad_json(name)
    if not isinstance(found, dict):
        _bad_json(name)
    return found


def _bad_json(name: str) -> NoReturn:
    form = '{"orders":[0,1]}' if name == "assign" else '{"orders":{"0":23,"1":-2}}'
    words = "earliest, latest or " if name.endswith("Offsets") else ""
    raise UsageError(f"option {name} is {words}JSON like {form}")


def _flag(given: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name.lower(), "true" if default else "false").lower()
    if text not in ("true", "false"):
        raise UsageError(f"option {name} is true or false, not {text!r}")
    return text == "true"


def _count(given: Mapping[str, str], name: str) -> int:
    text = given.get(name.lower())
    if text is None:
        return 0
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"option {name} is a number from 1 on, not {text!r}")
    return int(text)


_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration(given: Mapping[str, str], name: str, default_ms: int) -> int:
    text = given.get(name.lower())
    if text is None:
        return default_ms
    match = re.fullmatch(r"(\d+)\s*(ms|s|min|m|h|d)?", text.lower())
    if match is None:
        raise UsageError(f"option {name} is a time like 15m or 30s, not {text!r}")
    return int(match[1]) * _UNITS_MS[match[2] or "ms"]
