"""Files, environment and precedence."""

import pytest

from headrace.base.config import ConfigDef, ConfigError, ConfigKey, ConfigType
from headrace.base.config_sources import (
    Source,
    environment_name,
    read_config_text,
    read_properties,
    read_toml,
    resolve,
)

DEFINITION = ConfigDef(
    "broker",
    [
        ConfigKey(name, ConfigType.INT, 0, "")
        for name in ("num.partitions", "log.segment.bytes", "fetch.max.bytes", "a.b-c")
    ],
)


def test_flag_over_environment_over_file_over_default() -> None:
    resolved = resolve(
        DEFINITION,
        flags={"num.partitions": "1"},
        environment={"HEADRACE_NUM_PARTITIONS": "2", "HEADRACE_LOG_SEGMENT_BYTES": "2"},
        file={"num.partitions": 3, "log.segment.bytes": 3, "fetch.max.bytes": 3},
    )
    assert resolved.values == {
        "num.partitions": 1,
        "log.segment.bytes": 2,
        "fetch.max.bytes": 3,
        "a.b-c": 0,
    }
    assert resolved.sources == {
        "num.partitions": Source.FLAG,
        "log.segment.bytes": Source.ENVIRONMENT,
        "fetch.max.bytes": Source.FILE,
        "a.b-c": Source.DEFAULT,
    }


def test_dots_and_dashes_are_underscores_in_the_environment() -> None:
    assert environment_name("a.b-c") == "HEADRACE_A_B_C"
    assert resolve(DEFINITION, environment={"HEADRACE_A_B_C": "5"}).values["a.b-c"] == 5


def test_variables_of_commands_are_left_alone() -> None:
    assert resolve(DEFINITION, environment={"HEADRACE_BOOTSTRAP_SERVERS": "x"}).values["a.b-c"] == 0


@pytest.mark.parametrize(
    ("layer", "word"), [("flags", "flag"), ("file", "file"), ("environment", "environment")]
)
def test_a_bad_value_names_its_source(layer: str, word: str) -> None:
    name = "HEADRACE_NUM_PARTITIONS" if layer == "environment" else "num.partitions"
    with pytest.raises(ConfigError, match=rf"num\.partitions.*from the {word}"):
        resolve(DEFINITION, **{layer: {name: "many"}})  # type: ignore[arg-type]


def test_an_unknown_key_in_a_file_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"Unknown broker config name: no\.such"):
        resolve(DEFINITION, file={"no.such": 1})


def test_toml_with_quoted_keys() -> None:
    text = '"log.segment.bytes" = 5\n"listeners" = ["a", "b"]\n"flag" = true\n'
    assert read_toml(text) == {"log.segment.bytes": 5, "listeners": ["a", "b"], "flag": True}


@pytest.mark.parametrize("text", ["log.segment.bytes = 5", "[log.segment]\nbytes = 5"])
def test_a_nested_table_is_refused_with_the_hint_to_quote(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_toml(text, "node.toml")
    assert 'quote the whole key, as "log.segment.bytes" = 5' in caught.value.reason
    assert "node.toml" in caught.value.reason


def test_broken_toml_says_where() -> None:
    with pytest.raises(ConfigError, match="not valid TOML"):
        read_toml("= 5")


def test_properties() -> None:
    text = """
# comment
! another
a=1
b : two words
c three
d = x,\\
    y
e\\=f=g
path=C:\\\\temp
tab=\\t|
unicode=\\u00e4
empty=
"""
    assert read_properties(text) == {
        "a": "1",
        "b": "two words",
        "c": "three",
        "d": "x,y",
        "e=f": "g",
        "path": "C:\\temp",
        "tab": "\t|",
        "unicode": "ä",
        "empty": "",
    }


def test_the_file_name_decides_the_format() -> None:
    assert read_config_text("a.b=1", "server.properties") == {"a.b": "1"}
    assert read_config_text('"a.b" = 1', "server.toml") == {"a.b": 1}
