"""The node's configuration: what wins, and what is refused before anything is opened."""

from pathlib import Path

import pytest

from headrace.base.broker_config import BrokerConfig
from headrace.base.errors import UsageError
from headrace.node.configuration import load_config, refuse_exposed_listeners


def loaded(
    tmp_path: Path, *, listen: str | None = None, file: str | None = None, **settings: str
) -> BrokerConfig:
    path = None
    if file is not None:
        path = tmp_path / "broker.toml"
        path.write_text(file)
    flags = {key.replace("_", "."): value for key, value in settings.items()}
    return load_config(
        str(tmp_path / "data"),
        listen=listen,
        config_file=None if path is None else str(path),
        settings=flags,
    )


def test_flags_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = '"num.partitions" = 2\n"message.max.bytes" = 2000\n"log.retention.ms" = 2\n'
    monkeypatch.setenv("HEADRACE_NUM_PARTITIONS", "3")
    monkeypatch.setenv("HEADRACE_MESSAGE_MAX_BYTES", "3000")
    config = loaded(tmp_path, file=file, num_partitions="4")
    assert config["num.partitions"] == 4
    assert config["message.max.bytes"] == 3000
    assert config["log.retention.ms"] == 2


def test_the_data_folder_holds_the_log_unless_told_otherwise(tmp_path: Path) -> None:
    assert list(loaded(tmp_path).log_dirs) == [str(tmp_path / "data" / "log")]
    elsewhere = str(tmp_path / "elsewhere")
    assert list(loaded(tmp_path, log_dirs=elsewhere).log_dirs) == [elsewhere]


def test_a_file_that_is_not_there_is_told_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"can't read .*missing\.toml: No such file"):
        load_config(str(tmp_path), config_file=str(tmp_path / "missing.toml"))


def test_an_unknown_key_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no\.such\.key"):
        loaded(tmp_path, no_such_key="1")


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:9092", "127.3.2.1:5", "[::1]:0"])
def test_loopback_needs_no_permission(tmp_path: Path, address: str) -> None:
    refuse_exposed_listeners(loaded(tmp_path, listen=address), insecure=False)


@pytest.mark.parametrize(
    "address",
    ["0.0.0.0:9092", "[::]:9092", "192.168.0.1:9092", "example.org:9092", ":9092"],
)
def test_listening_beyond_loopback_has_to_be_asked_for(tmp_path: Path, address: str) -> None:
    config = loaded(tmp_path, listen=address)
    with pytest.raises(UsageError, match="--insecure"):
        refuse_exposed_listeners(config, insecure=False)
    refuse_exposed_listeners(config, insecure=True)


@pytest.mark.parametrize("address", ["127.example.org:9092", "localhost.example.org:9092"])
def test_a_name_that_only_begins_like_loopback_is_not_loopback(
    tmp_path: Path, address: str
) -> None:
    with pytest.raises(UsageError, match="--insecure"):
        refuse_exposed_listeners(loaded(tmp_path, listen=address), insecure=False)
