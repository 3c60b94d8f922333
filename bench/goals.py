"""What each work is to reach, and how figures become rows of a table.

A goal compares one figure of ours with Kafka's, with the floor's, or with a fixed number. Rates
bind only where the client is not the limit; CPU always does.
"""

from dataclasses import dataclass

Figures = dict[str, float]

CLIENT_BOUND_CORES = 0.9
"""A client that uses this much of a core is the limit, not the server."""

FLOOR_BEATEN = 0.9
"""Nobody beats a floor by more than its own spread: such a run says that the machine was busy."""


@dataclass(frozen=True)
class Goal:
    work: str
    figure: str
    label: str
    higher_is_better: bool = False
    times_kafka: float | None = None
    times_floor: float | None = None
    at_most: float | None = None
    binds_if_client_bound: bool = True


GOALS = (
    Goal(
        "produce",
        "rate",
        "librdkafka 1 KiB, 6 partitions, acks=1: msg/s",
        higher_is_better=True,
        times_kafka=1.2,
        binds_if_client_bound=False,
    ),
    Goal("produce", "cpu_s_per_gb", "… server CPU s/GB", times_kafka=0.6, times_floor=1.3),
    Goal(
        "requests",
        "rate",
        "one 100-byte record a request, 8 connections: requests/s",
        higher_is_better=True,
        times_kafka=2.0,
        binds_if_client_bound=False,
    ),
    Goal("requests", "cpu_us_per_request", "… server CPU µs/request", times_kafka=0.4),
    Goal("consume", "mb_per_s", "consume from page cache: MB/s", higher_is_better=True),
    Goal("consume", "cpu_s_per_gb", "… server CPU s/GB", times_kafka=0.75, times_floor=1.4),
    Goal("latency", "ack_p50_ms", "2 000 msg/s × 1 KiB unbatched, acks=1: ack p50 ms"),
    Goal("latency", "ack_p99_ms", "… ack p99 ms", times_kafka=1.0, at_most=5.0),
    Goal("latency", "end_to_end_p99_ms", "… end-to-end p99 ms", times_kafka=1.0, at_most=5.0),
    Goal(
        "transactions",
        "rate",
        "6 partitions × 50 records, 4 producers: transactions/s",
        higher_is_better=True,
        times_kafka=1.0,
        binds_if_client_bound=False,
    ),
    Goal("transactions", "cpu_us_per_transaction", "… server CPU µs/transaction", times_kafka=1.0),
    Goal(
        "classic-groups", "form_s", "1 000 members of 100 classic groups join: s", times_kafka=1.0
    ),
    Goal("classic-groups", "churn_s", "… two of each leave, two join: s", times_kafka=1.0),
    Goal("consumer-groups", "form_s", "… of 100 KIP-848 groups join: s", times_kafka=1.0),
    Goal("consumer-groups", "churn_s", "… two of each leave, two join: s", times_kafka=1.0),
    Goal(
        "compaction",
        "mb_per_s",
        "compaction of 100-byte values: MB/s",
        higher_is_better=True,
        times_kafka=1.0,
    ),
    Goal("compaction", "cpu_s_per_gb", "… server CPU s/GB", times_kafka=1.0),
    Goal(
        "compaction-latency",
        "ack_p50_ms",
        "2 000 msg/s unbatched while a log is cleaned: ack p50 ms",
    ),
    Goal("compaction-latency", "ack_p99_ms", "… ack p99 ms", times_kafka=1.0),
    Goal("compaction-latency", "ack_max_ms", "… longest ack ms", times_kafka=1.0),
    Goal("connections", "served", "idle and active connections served", higher_is_better=True),
    Goal("connections", "rate", "… requests/s of the active", higher_is_better=True),
    Goal("connections", "p99_ms", "… p99 ms"),
    Goal("memory", "rss_mb", "RSS after the traffic over 100 partitions: MB", at_most=120.0),
    Goal(
        "replicated",
        "rate",
        "3 brokers, 3 replicas, acks=all, 1 KiB: msg/s",
        higher_is_better=True,
        times_kafka=1.5,
    ),
    Goal("replicated", "cpu_s_per_gb", "… CPU s/GB of the three", times_kafka=0.5),
    Goal("replicated", "rss_mb", "… RSS of the three: MB", at_most=350.0),
    Goal(
        "replicated-latency",
        "ack_p99_ms",
        "… 2 000 msg/s unbatched, acks=all: p99 ms",
        at_most=10.0,
    ),
    Goal("start", "start_s", "start to first answered Metadata: s", at_most=0.6),
)


@dataclass(frozen=True)
class Row:
    """One line of the table: a figure of each server, ratios, and whether the goal is reached."""

    goal: Goal
    kafka: float | None
    ours: float | None
    floor: float | None
    client_bound: bool

    @property
    def kafka_ratio(self) -> float | None:
        return self.ours / self.kafka if self.ours is not None and self.kafka else None

    @property
    def floor_ratio(self) -> float | None:
        return self.ours / self.floor if self.ours is not None and self.floor else None

    def verdict(self) -> str:
        """`reached`, `missed`, `client-bound` or `noisy floor`; nothing where a side is missing."""
        wanted = (
            (self.kafka_ratio, self.goal.times_kafka),
            (self.floor_ratio, self.goal.times_floor),
            (self.ours, self.goal.at_most),
        )
        limits = [(had, limit) for had, limit in wanted if limit is not None]
        pairs = [(had, limit) for had, limit in limits if had is not None]
        if not limits or len(pairs) < len(limits):
            return ""
        if self.goal.higher_is_better:
            reached = all(had >= limit for had, limit in pairs)
        else:
            reached = all(had <= limit for had, limit in pairs)
        if not reached and self.client_bound and not self.goal.binds_if_client_bound:
            return "client-bound"
        if reached and self.goal.times_floor and (self.floor_ratio or 1.0) < FLOOR_BEATEN:
            return "noisy floor"
        return "reached" if reached else "missed"

    def wanted(self) -> str:
        sign = "≥" if self.goal.higher_is_better else "≤"
        parts = []
        if self.goal.times_kafka is not None:
            parts.append(f"{sign} {self.goal.times_kafka:g}× Kafka")
        if self.goal.times_floor is not None:
            parts.append(f"{sign} {self.goal.times_floor:g}× floor")
        if self.goal.at_most is not None:
            parts.append(f"≤ {self.goal.at_most:g}")
        return ", ".join(parts)


def best(goal: Goal, runs: list[Figures]) -> float | None:
    values = [run[goal.figure] for run in runs if goal.figure in run]
    if not values:
        return None
    return max(values) if goal.higher_is_better else min(values)


def rows(runs: dict[str, dict[str, list[Figures]]]) -> list[Row]:
    """Rows from runs by work and server: the best of each server's runs, figure by figure."""
    table = []
    for goal in GOALS:
        by_server = runs.get(goal.work)
        if by_server is None:
            continue
        ours = by_server.get("headrace", [])
        bound = any(run.get("client_cores", 0.0) >= CLIENT_BOUND_CORES for run in ours)
        found = [best(goal, by_server.get(name, [])) for name in ("kafka", "headrace", "floor")]
        table.append(Row(goal, found[0], found[1], found[2], bound))
    return table
