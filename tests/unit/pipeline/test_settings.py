"""Settings by file and flag, and the sentences of those that can't be."""

from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.pipeline.settings import Settings, checked, duration_s, make, size_bytes

GOOD = {"bootstrap_servers": "h:1", "target": "hdfs://n:8020/lake/orders", "topics": ("t",)}


def test_names_and_rooms_come_from_the_target() -> None:
    settings = make(None, GOOD)
    assert settings.name == "lake-orders"
    assert settings.group == "headrace-lake-orders"
    assert settings.checkpoint == "hdfs://n:8020/lake/orders/_headrace/lake-orders"
    assert settings.rooms.staging == "/lake/orders/_headrace/lake-orders/staging"
    assert settings.rooms.checkpoint == "/lake/orders/_headrace/lake-orders"


def test_a_flag_wins_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(
        'bootstrap-servers = "h:1"\ntopic = ["a", "b"]\ntarget = "hdfs://n:1/x"\n'
        'trigger = "5s"\nfile-size = "1MiB"\ncodec = "snappy"\n'
        '"spark.executor.cores" = 2\n"kafka.fetch.max.bytes" = 1000\n'
    )
    settings = make(str(path), {"codec": "zstd", "trigger_s": None})
    assert (settings.topics, settings.trigger_s, settings.file_bytes) == (("a", "b"), 5.0, 1 << 20)
    assert settings.codec == "zstd"
    assert settings.spark == {"spark.executor.cores": "2"}
    assert settings.log.fetch_bytes_max == 1000


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"target": "/lake"}, "hdfs://"),
        ({"target": "hdfs://"}, "hdfs://"),
        ({"topics": ()}, "which topics"),
        ({"topic_pattern": ".*"}, "which topics"),
        ({"codec": "lzo"}, "--codec"),
        ({"name": "a/b"}, "--name"),
        ({"file_bytes": 1}, "--file-size"),
        ({"trigger_s": 0}, "--trigger"),
        ({"starting": "now"}, "--starting"),
        ({"sql": "select 1", "transform": "a:b"}, "either"),
        ({"event_time": "at"}, "--event-time"),
        ({"late": "burn"}, "--late is"),
        ({"late": "drop"}, "--late-after"),
        ({"late_after_s": 1.0, "sql": "select 1"}, "--event-time"),
        ({"late_after_s": -1.0, "sql": "select 1", "event_time": "at"}, "at most"),
        ({"bootstrap_servers": ""}, "--bootstrap-servers"),
        ({"kafka": {"kafka.security.protocol": "SSL"}}, "PLAINTEXT"),
    ],
)
def test_what_can_not_be_is_said(change: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        checked(Settings(**{**GOOD, **change}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[spark]\ncores = 1", "quoted keys"),
        ('colour = "red"', "unknown key"),
        ("trigger = 'soon'", "not a duration"),
        ("= 3", "Invalid"),
    ],
)
def test_a_bad_file_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=sentence):
        make(str(path), GOOD)


def test_rules_for_late_rows_are_in_the_file_and_in_every_plan(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(
        'schema = "infer"\nevent-time = "at"\nlate-after = "10m"\nlate = "dead-letter"\n'
    )
    settings = make(str(path), GOOD)
    assert not settings.is_raw
    planned = settings.file_settings
    assert (planned["late_after_s"], planned["late"]) == (600.0, "dead-letter")
    assert "late" not in make(None, {**GOOD, "schema": "id INT"}).file_settings


def test_sizes_and_durations() -> None:
    assert [size_bytes(text) for text in ("100", "2KiB", "1.5 MiB", "1g")] == [
        100,
        2048,
        1572864,
        1 << 30,
    ]
    assert [duration_s(text) for text in ("500ms", "2s", "1m", "3")] == [0.5, 2.0, 60.0, 3.0]
