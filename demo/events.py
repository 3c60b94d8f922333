"""The chapters of the event log: events go in and out, the broker dies, files explained."""

import json
import shutil
import subprocess
import time

from demo.clients import consume_events, have_confluent, produce_events
from demo.files import explain_files
from demo.stage import Stage, StoryError

TOPIC = "orders"
GROUP = "demo-readers"
EVENT_COUNT = 20_000
PARTITION_COUNT = 3


def events_go_in(stage: Stage) -> None:
    stage.title("Events go in", "A Kafka client that knows nothing of Headrace; lz4, idempotent.")
    stage.headrace("topic", "create", TOPIC, "-p", str(PARTITION_COUNT), *stage.here)
    began = time.monotonic()
    produce_events(stage.servers, TOPIC, EVENT_COUNT)
    took_s = time.monotonic() - began
    who = "confluent-kafka" if have_confluent() else "headrace.client"
    stage.done(
        f"{EVENT_COUNT:,} events acknowledged to {who} in {took_s:.2f} s "
        f"({EVENT_COUNT / took_s:,.0f}/s)"
    )


def events_come_out(stage: Stage) -> None:
    stage.title("Events come out", "By a consumer group, by kcat, and by our own command line.")
    orders = consume_events(stage.servers, TOPIC, GROUP, EVENT_COUNT, stage.console)
    _check(stage, orders, "the group")
    _show_with_kcat(stage)
    stage.headrace("consume", TOPIC, *stage.here, "--max", "2", "--json")
    stage.headrace("group", "describe", GROUP, *stage.here)


def the_broker_is_killed(stage: Stage) -> None:
    stage.title("The broker is killed", "kill -9, and the supervisor brings it back.")
    stage.kill("broker-1")
    values = stage.headrace("consume", TOPIC, *stage.here, "--until-end", quiet=True).splitlines()
    orders = [json.loads(value)["order"] for value in values]
    _check(stage, orders, "after the crash a new reader")


def what_is_on_disk(stage: Stage) -> None:
    stage.title("What is on disk", "Kafka's own formats: Kafka's dump-log tool reads them too.")
    log = stage.data / "broker-1" / "log"
    explain_files(log, TOPIC, stage.console)
    segment = sorted(log.glob(f"{TOPIC}-*/*.log"))[0]
    words = ("log", "dump", "--records", str(segment))
    stage.command(f"headrace {' '.join(words)}")
    for line in stage.headrace(*words, quiet=True).splitlines()[:4]:
        stage.console.print(
            f"  {line}", overflow="ellipsis", no_wrap=True, style="dim", markup=False
        )


def _check(stage: Stage, orders: list[int], who: str) -> None:
    stage.check(
        sorted(orders) == list(range(EVENT_COUNT)),
        f"{who} got {len(orders):,} events, {len(set(orders)):,} of them different, "
        f"instead of {EVENT_COUNT:,}",
    )
    stage.done(f"{who} got all {EVENT_COUNT:,} events, none twice")


def _show_with_kcat(stage: Stage) -> None:
    kcat = shutil.which("kcat")
    if kcat is None:
        stage.say("kcat is not installed here; it would work too.", style="dim")
        return
    words = ["kcat", "-b", stage.servers, "-t", TOPIC, "-C", "-o", "beginning", "-c", "2", "-q"]
    stage.command(" ".join(words))
    done = subprocess.run(
        [kcat, *words[1:]], capture_output=True, text=True, check=False, timeout=60
    )
    if done.returncode != 0 or len(done.stdout.splitlines()) != 2:
        raise StoryError(f"kcat could not read: {done.stderr.strip()}")
    for line in done.stdout.splitlines():
        stage.say(f"  {line}")
