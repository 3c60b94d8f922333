"""`headrace config`: every configuration key, documented."""

from typing import Annotated, Any

import typer

from headrace.base.broker_keys import BROKER_CONFIG
from headrace.base.config import SAME, ConfigDef, ConfigKey, format_value
from headrace.base.config_sources import environment_name
from headrace.base.errors import UsageError
from headrace.base.hdfs_keys import HDFS_CONFIG
from headrace.base.topic_config import TOPIC_CONFIG
from headrace.cli.app import Json, group
from headrace.cli.output import print_json, print_table

commands = group("config", "Document the configuration keys.")

_DEFINITIONS: dict[str, ConfigDef] = {
    "broker": BROKER_CONFIG,
    "topic": TOPIC_CONFIG,
    "hdfs": HDFS_CONFIG,
}


def register(app: typer.Typer) -> None:
    app.add_typer(commands)
    # A group with one command would otherwise swallow the command's name.
    commands.callback()(lambda: None)


@commands.command("list")
def list_keys(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="A key, or the beginning of some.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="broker|topic|hdfs", help="One kind of keys.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the keys of --set, --config and the environment, or explain one.

    \b
    Examples:
      headrace config list
      headrace config list log.retention
      headrace config list retention.ms
      headrace config list dfs.namenode
      headrace config list --only topic --json
    """
    if only is not None and only not in _DEFINITIONS:
        raise UsageError(f"--only is broker, topic or hdfs, not {only!r}")
    found = [
        (kind, each)
        for kind, definition in _DEFINITIONS.items()
        if only in (None, kind)
        for each in definition.keys.values()
        if key is None or each.name.startswith(key)
    ]
    exact = [(kind, each) for kind, each in found if each.name == key]
    if not found:
        raise UsageError(f"no key begins with {key!r}; `headrace config list` shows all")
    shown = exact or [(kind, each) for kind, each in found if not each.internal]
    if as_json:
        print_json([_to_json(kind, each) for kind, each in shown])
    elif exact:
        for kind, each in exact:
            _explain(kind, each)
    else:
        rows = [(each.name, kind, _type(each), _default(each), each.doc) for kind, each in shown]
        print_table(("key", "of", "type", "default", "what it does"), rows)


def _explain(kind: str, key: ConfigKey) -> None:
    described = _to_json(kind, key)
    print(f"{key.name}  ({kind} configuration)")
    print(f"  {key.doc}")
    defaults = ("default", "kafka_default", "hdfs_default")
    for name in ("type", *defaults, "valid", "update", "environment", "synonyms"):
        value = described.get(name)
        if value not in (None, [], ""):
            shown = ", ".join(value) if isinstance(value, list) else value
            print(f"  {name.replace('_', ' ')}: {shown}")
    if not key.honoured:
        print("  accepted, so that existing files work; it changes nothing here")


def _to_json(kind: str, key: ConfigKey) -> dict[str, Any]:
    described: dict[str, Any] = {
        "key": key.name,
        "of": kind,
        "type": _type(key),
        "default": format_value(key.default),
        "valid": None if key.validator is None else str(key.validator),
        "importance": key.importance.value,
        "honoured": key.honoured,
        "synonyms": list(key.synonyms),
        "doc": key.doc,
    }
    if key.kafka_default is not SAME:
        original = "hdfs" if kind == "hdfs" else "kafka"
        described[f"{original}_default"] = format_value(key.kafka_default)
    if kind != "topic":
        described["environment"] = environment_name(key.name)
    if kind == "broker":
        described["update"] = key.update_mode.value
    return described


def _type(key: ConfigKey) -> str:
    return key.type.name.lower()


def _default(key: ConfigKey) -> str:
    value = format_value(key.default)
    return "-" if value is None else value
