"""Settings by file and flag, and the sentences of those that can't be."""

from pathlib import Path

import pytest

from headrace.base.errors import UsageError
from headrace.base.sizes import size_bytes
from headrace.pipeline import submit
from headrace.pipeline.metrics import PipelineMetrics
from headrace.pipeline.settings import Settings, checked, duration_s, make

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
        ({"topics": (), "topic_pattern": "("}, "regular expression"),
        ({"master": "nonsense"}, "--master"),
        ({"master": "local[0]"}, "--master"),
        ({"restarts_max": -5}, "--max-restarts"),
        ({"compact_every_s": -1.0}, "--compact-every"),
        ({"metrics_port": 99999}, "--metrics-port"),
        ({"metrics_port": -2}, "--metrics-port"),
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
        ('available-now = "false"', "available-now = 'false' is not understood"),
        ("topic = [1]", r"topic = \[1\] is not understood"),
        ("max-restarts = true", "max-restarts = True is not understood"),
        ("sql = 1", "sql = 1 is not understood"),
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


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[2]",
        "local[*,4]",
        "local[*, 4]",
        "local-cluster[1,2,1024]",
        "yarn",
        "spark://a:7077,b:7077",
        "k8s://https://a:443",
        None,
    ],
)
def test_masters_that_spark_knows(master: str | None) -> None:
    assert make(None, {**GOOD}).master == "local[*,4]"
    assert checked(Settings(**GOOD, master=master)).master == master  # type: ignore[arg-type]


def test_a_metrics_port_that_is_taken_is_wrong_usage() -> None:
    first, second = PipelineMetrics("p"), PipelineMetrics("q")
    port = first.serve(0)
    try:
        with pytest.raises(UsageError, match=f"--metrics-port {port} .*in use"):
            second.serve(port)
    finally:
        first.close()


def test_spark_submit_tells_wrong_usage_by_its_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text('bootstrap-servers = "h:1"\ntarget = "hdfs://n:1/x"\nmetrics-port = 99999\n')
    assert submit.main([str(path)]) == 2
    path.write_text('bootstrap-servers = "127.0.0.1:1"\ntarget = "hdfs://n:1/x"\ntopic = "t"\n')
    assert submit.main([str(path)]) == 1
    assert submit.main([]) == 2
    assert "Traceback" not in capsys.readouterr().err
