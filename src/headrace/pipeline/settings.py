"""What a pipeline is told: by flags, by a TOML file, or from Python.

Owns: names, defaults and what is refused, each with a sentence. Must not know: typer, Spark.
Keys of the file are the flags' names: `bootstrap-servers`, `topic`, `target`, …, and quoted
`"kafka.…"` and `"spark.…"` keys, which go to the log's client and to Spark.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headrace.base.errors import UsageError
from headrace.base.sizes import size_bytes
from headrace.pipeline.late import FATES, KEEP
from headrace.pipeline.layout import PRIVATE, Rooms
from headrace.pipeline.options import LogOptions
from headrace.pipeline.target_files import split_url

MASTER = "local[*,4]"
TRIGGER_S = 60.0
FILE_BYTES = 128 * 1024 * 1024
"""Where the file system does not tell its block size."""
FILE_BYTES_MIN = 64 * 1024
RESTARTS_MAX = 10
LATE_AFTER_S_MAX = 100 * 366 * 24 * 3600
CODECS = ("zstd", "snappy")
STARTS = ("earliest", "latest")

_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_DURATION_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, None: 1.0}
_MASTER = re.compile(
    r"local(\[\s*([1-9]\d*|\*)\s*(,\s*[1-9]\d*\s*)?\])?"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|yarn|(spark|k8s)://\S+"
)
_PORT_MAX = 65535


@dataclass(frozen=True, slots=True)
class Settings:
    bootstrap_servers: str
    target: str
    """`hdfs://HOST:PORT/folder`."""
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    name: str = ""
    checkpoint: str = ""
    codec: str = "zstd"
    file_bytes: int = 0
    """Of a whole file; 0 the block size of the target's file system."""
    trigger_s: float = TRIGGER_S
    available_now: bool = False
    starting: str = "earliest"
    master: str | None = MASTER
    restarts_max: int = RESTARTS_MAX
    compact_every_s: float = 0.0
    """How often small files are merged while the pipeline runs; 0 never."""
    metrics_port: int = 0
    """Of /metrics on loopback; 0 a free one, -1 none."""
    sql: str | None = None
    transform: str | None = None
    """`module:function`, a function of a DataFrame."""
    schema: str | None = None
    """Of JSON values: Spark's DDL, or `infer`."""
    event_time: str | None = None
    """A column that decides date and hour, after a transformation."""
    late_after_s: float | None = None
    """Rows whose event time is so much before their record's time are late; None: no row is."""
    late: str = KEEP
    dead_letter_topic: str | None = None
    kafka: dict[str, str] = field(default_factory=dict)
    spark: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", default_name(self.target))
        if not self.checkpoint:
            object.__setattr__(
                self, "checkpoint", f"{self.target.rstrip('/')}/{PRIVATE}/{self.name}"
            )

    @property
    def group(self) -> str:
        return f"headrace-{self.name}"

    @property
    def target_url(self) -> str:
        return split_url(self.target)[0]

    @property
    def checkpoint_url(self) -> str:
        return split_url(self.checkpoint)[0]

    @property
    def rooms(self) -> Rooms:
        return Rooms(split_url(self.target)[1], split_url(self.checkpoint)[1], self.name)

    @property
    def log(self) -> LogOptions:
        return LogOptions.of(
            {
                "kafka.client.id": f"headrace-{self.name}",
                **self.kafka,
                "kafka.bootstrap.servers": self.bootstrap_servers,
            }
        )

    @property
    def dead_letters(self) -> str:
        """The topic for records that do not fit."""
        return self.dead_letter_topic or f"{self.name}-dead-letters"

    @property
    def is_raw(self) -> bool:
        return self.sql is None and self.transform is None and self.schema is None

    @property
    def file_settings(self) -> dict[str, Any]:
        """What fixes the bytes of files: it is in each plan."""
        content: dict[str, Any] = {"codec": self.codec, "raw": self.is_raw}
        if not self.is_raw:
            content |= {
                "sql": self.sql,
                "transform": self.transform,
                "schema": self.schema,
                "event_time": self.event_time,
            }
            if self.late_after_s is not None:
                content |= {"late_after_s": self.late_after_s, "late": self.late}
        return content


def checked(settings: Settings) -> Settings:
    """The same settings; raises UsageError for what can't be."""
    if not settings.bootstrap_servers:
        raise UsageError("where is the log? Give --bootstrap-servers HOST:PORT")
    if not settings.target.startswith("hdfs://"):
        raise UsageError(f"the target is hdfs://HOST:PORT/FOLDER, not {settings.target!r}")
    split_url(settings.target)
    split_url(settings.checkpoint)
    if bool(settings.topics) == bool(settings.topic_pattern):
        raise UsageError("which topics? Give --topic NAME (again and again) or --topic-pattern")
    if not _ID.fullmatch(settings.name):
        raise UsageError(f"--name is made of letters, digits, . _ -, not {settings.name!r}")
    if settings.codec not in CODECS:
        raise UsageError(f"--codec is {' or '.join(CODECS)}, not {settings.codec!r}")
    if settings.starting not in STARTS:
        raise UsageError(f"--starting is {' or '.join(STARTS)}, not {settings.starting!r}")
    if settings.file_bytes != 0 and settings.file_bytes < FILE_BYTES_MIN:
        raise UsageError(f"--file-size is at least {FILE_BYTES_MIN} bytes")
    if settings.trigger_s <= 0:
        raise UsageError("--trigger is longer than nothing")
    if settings.sql and settings.transform:
        raise UsageError("give either --sql or --transform, not both")
    if settings.event_time and settings.is_raw:
        raise UsageError("--event-time names a column of --sql or --transform: neither is given")
    _check_run(settings)
    _check_late(settings)
    _ = settings.log
    return settings


def _check_run(settings: Settings) -> None:
    if settings.topic_pattern:
        try:
            re.compile(settings.topic_pattern)
        except re.error as error:
            raise UsageError(
                f"--topic-pattern {settings.topic_pattern!r} is not a regular expression: {error}"
            ) from None
    if settings.master is not None and not _MASTER.fullmatch(settings.master):
        raise UsageError(
            f"--master is local[THREADS,FAILURES], spark://HOST:PORT, yarn or k8s://…, "
            f"not {settings.master!r}"
        )
    if settings.restarts_max < 0:
        raise UsageError(f"--max-restarts is 0 or more, not {settings.restarts_max}")
    if settings.compact_every_s < 0:
        raise UsageError(f"--compact-every is 0 or longer, not {settings.compact_every_s} s")
    if not -1 <= settings.metrics_port <= _PORT_MAX:
        raise UsageError(
            f"--metrics-port is a port up to {_PORT_MAX}, 0 for a free one or -1 for none, "
            f"not {settings.metrics_port}"
        )


def _check_late(settings: Settings) -> None:
    if settings.late not in FATES:
        raise UsageError(f"--late is {', '.join(FATES)}, not {settings.late!r}")
    if settings.late_after_s is None:
        if settings.late != KEEP:
            raise UsageError(f"--late {settings.late}: from when on? Give --late-after TIME")
        return
    if not 0 <= settings.late_after_s <= LATE_AFTER_S_MAX:
        raise UsageError(f"--late-after is at most {LATE_AFTER_S_MAX} s")
    if settings.event_time is None:
        raise UsageError("--late-after compares with an event's time: give --event-time COLUMN")


def default_name(target: str) -> str:
    """From the target's path: `hdfs://…/lake/orders` is `lake-orders`."""
    path = split_url(target)[1].strip("/")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", path) or "root"


def duration_s(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r} is not a duration: write 500ms, 1s, 10m or 1h")
    return float(found[1]) * _DURATION_S[found[2]]


# -- from a file -------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(each) for each in (value if isinstance(value, list) else [value]))


def _integer(value: Any) -> int:
    # Python takes true for 1.
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


_KEYS: dict[str, tuple[str, Any]] = {
    "bootstrap-servers": ("bootstrap_servers", _text),
    "topic": ("topics", _texts),
    "topic-pattern": ("topic_pattern", _text),
    "target": ("target", _text),
    "name": ("name", _text),
    "checkpoint": ("checkpoint", _text),
    "codec": ("codec", _text),
    "file-size": ("file_bytes", lambda v: size_bytes(str(v))),
    "trigger": ("trigger_s", lambda v: duration_s(str(v))),
    "available-now": ("available_now", _boolean),
    "starting": ("starting", _text),
    "master": ("master", _text),
    "max-restarts": ("restarts_max", _integer),
    "compact-every": ("compact_every_s", lambda v: duration_s(str(v))),
    "metrics-port": ("metrics_port", _integer),
    "sql": ("sql", _text),
    "transform": ("transform", _text),
    "schema": ("schema", _text),
    "event-time": ("event_time", _text),
    "late-after": ("late_after_s", lambda v: duration_s(str(v))),
    "late": ("late", _text),
    "dead-letter-topic": ("dead_letter_topic", _text),
}


def read_file(path: str) -> dict[str, Any]:
    """Fields of Settings from a TOML file."""
    try:
        content = tomllib.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    return parse(content, path)


def parse(content: Mapping[str, Any], path: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            raise UsageError(f'{path}: [{key}] is a table; write quoted keys: "{key}.…" = …')
        if key.startswith("kafka."):
            found.setdefault("kafka", {})[key] = str(value)
        elif key.startswith("spark."):
            found.setdefault("spark", {})[key] = str(value)
        elif key in _KEYS:
            name, convert = _KEYS[key]
            try:
                found[name] = convert(value)
            except (TypeError, ValueError):
                raise UsageError(f"{path}: {key} = {value!r} is not understood") from None
        else:
            raise UsageError(f"{path}: unknown key {key!r}; known: {', '.join(_KEYS)}")
    return found


def make(config: str | None, given: Mapping[str, Any]) -> Settings:
    """A flag wins over the file; None is a flag that was not given."""
    chosen: dict[str, Any] = {} if config is None else read_file(config)
    chosen |= {name: value for name, value in given.items() if value is not None}
    known = {each.name for each in fields(Settings)}
    assert chosen.keys() <= known, chosen.keys() - known
    for name, flag in (("bootstrap_servers", "--bootstrap-servers"), ("target", "--target")):
        if not chosen.get(name):
            raise UsageError(f"{flag} is missing")
    return checked(Settings(**chosen))


def with_name(settings: Settings, name: str) -> Settings:
    return replace(settings, name=name)
