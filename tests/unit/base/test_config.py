"""Keys, types and validators: what is accepted, and the sentence for what is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.base.config import (
    ConfigDef,
    ConfigError,
    ConfigKey,
    ConfigType,
    ListOf,
    OneOf,
    Range,
    format_value,
)


def key(type_: ConfigType, validator: object = None) -> ConfigKey:
    return ConfigKey("some.key", type_, None, "A key.", validator)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("type_", "raw", "value"),
    [
        (ConfigType.BOOLEAN, "TRUE", True),
        (ConfigType.BOOLEAN, " false ", False),
        (ConfigType.BOOLEAN, True, True),
        (ConfigType.INT, " 5 ", 5),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.LONG, 7, 7),
        (ConfigType.SHORT, "-1", -1),
        (ConfigType.DOUBLE, "0.5", 0.5),
        (ConfigType.STRING, " a b ", "a b"),
        (ConfigType.LIST, "a, b ,c", ("a", "b", "c")),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, ["a", "b"], ("a", "b")),
    ],
)
def test_a_text_becomes_a_typed_value(type_: ConfigType, raw: object, value: object) -> None:
    assert key(type_).parse(raw) == value


@pytest.mark.parametrize(
    ("type_", "raw"),
    [
        (ConfigType.BOOLEAN, "yes"),
        (ConfigType.INT, "x"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "1.5"),
        (ConfigType.INT, "1_000"),
        (ConfigType.INT, "٣"),
        (ConfigType.INT, True),
        (ConfigType.INT, "2147483648"),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "99999999999999999999"),
        (ConfigType.DOUBLE, "half"),
        (ConfigType.DOUBLE, "nan"),
    ],
)
def test_a_bad_value_is_refused_with_key_value_and_reason(type_: ConfigType, raw: object) -> None:
    with pytest.raises(ConfigError) as caught:
        key(type_).parse(raw)
    assert caught.value.key == "some.key"
    assert f"Invalid value {raw} for configuration some.key: " in caught.value.reason


@pytest.mark.parametrize(
    ("validator", "good", "bad"),
    [
        (Range(1), 1, 0),
        (Range(0, 1), 1, 2),
        (Range(1, 9, also=(-1,)), -1, 0),
        (OneOf(("a", "b")), "a", "A"),
        (OneOf(("a",), any_case=True), "A", "c"),
        (ListOf(("a", "b")), ("b", "a"), ("a", "c")),
        (ListOf(("a",), may_be_empty=False), ("a",), ()),
    ],
)
def test_validators(validator: Range, good: object, bad: object) -> None:
    assert validator.refusal(good) is None
    assert validator.refusal(bad)
    assert str(validator)


def test_a_password_is_never_told() -> None:
    secret = ConfigKey("pass", ConfigType.PASSWORD, None, "", OneOf(("other",)))
    with pytest.raises(ConfigError) as caught:
        secret.parse("hunter2")
    assert "hunter2" not in caught.value.reason


def test_a_definition_fills_in_defaults_and_refuses_unknown_names() -> None:
    definition = ConfigDef(
        "mill",
        [
            ConfigKey("wheels", ConfigType.INT, 2, "Count.", Range(1)),
            ConfigKey("name", ConfigType.STRING, "old", "Name."),
        ],
    )
    assert definition.parse({"wheels": "3"}) == {"wheels": 3, "name": "old"}
    with pytest.raises(ConfigError, match="Unknown mill config name: sails"):
        definition.parse({"sails": "4"})


@given(
    st.one_of(
        st.tuples(st.just(ConfigType.LONG), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just(ConfigType.BOOLEAN), st.booleans()),
        st.tuples(st.just(ConfigType.DOUBLE), st.floats(allow_nan=False)),
        st.tuples(
            st.just(ConfigType.LIST),
            st.lists(st.text("abc.-", min_size=1), min_size=1).map(tuple),
        ),
    )
)
def test_a_formatted_value_parses_to_itself(typed: tuple[ConfigType, object]) -> None:
    type_, value = typed
    assert key(type_).parse(format_value(value)) == value
