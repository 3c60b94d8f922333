from headrace.log.config import NEVER, LogConfig


def test_defaults_are_kafkas() -> None:
    config = LogConfig()
    assert config.segment_bytes == 1073741824
    assert config.retention_ms == 604800000
    assert config.index_interval_bytes == 4096
    assert config.flush_messages == NEVER == 9223372036854775807
    assert LogConfig.of_topic({}) == config


def test_kafkas_names_are_understood() -> None:
    config = LogConfig.of_topic(
        {
            "segment.bytes": "1000",
            "retention.ms": "-1",
            "preallocate": "true",
            "message.timestamp.type": "LogAppendTime",
            "cleanup.policy": "compact, delete",
            "flush.messages": "1",
            "some.other": "x",
        }
    )
    assert config == LogConfig(
        segment_bytes=1000,
        retention_ms=-1,
        preallocate=True,
        log_append_time=True,
        compact=True,
        delete=True,
        flush_messages=1,
    )
    assert not LogConfig.of_topic({"cleanup.policy": "compact"}).delete
