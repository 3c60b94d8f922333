"""Staging by Spark: the tasks of a plan, run where Spark runs them.

Owns: how a plan becomes Spark jobs and their answers the facts of its slices. Must not know: what
happens to the facts.
"""

import os
import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.base.errors import HeadraceError
from headrace.pipeline import dead_letters, transform
from headrace.pipeline.errors import CorruptRecords, DataLost
from headrace.pipeline.flush import FileSettings, FlushTask, flush_slice
from headrace.pipeline.late import DEAD_LETTER, KEEP, rule_of
from headrace.pipeline.plan import Plan, SliceFacts
from headrace.pipeline.ranges import OffsetRange
from headrace.pipeline.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stage(spark: "SparkSession", settings: Settings, plan: Plan, label: str) -> list[SliceFacts]:
    """Every slice of the plan written aside. `label` is this driver's and this attempt's own."""
    settings = obeying(settings, plan)
    tasks = [
        FlushTask(
            log=settings.log,
            work=work,
            topic_id=plan.topic_ids[work.topic],
            target_url=settings.target_url,
            staging=settings.rooms.staging_of(plan.number),
            label=f"{label}-{index}",
            pipeline=settings.name,
            number=plan.number,
            file=FileSettings(plan.settings["codec"]),
        )
        for index, work in enumerate(plan.slices)
    ]
    spark.sparkContext.setJobDescription(f"batch {plan.number}: {plan.offsets_count} offsets")
    if settings.is_raw:
        return _stage_raw(spark, tasks)
    return _stage_transformed(spark, settings, tasks)


def obeying(settings: Settings, plan: Plan) -> Settings:
    """The settings as they were when the plan was made, as far as they fix the files."""
    told = plan.settings
    return replace(
        settings,
        codec=told["codec"],
        sql=told.get("sql"),
        transform=told.get("transform"),
        schema=told.get("schema"),
        event_time=told.get("event_time"),
        late_after_s=told.get("late_after_s"),
        late=told.get("late", KEEP),
    )


def _stage_raw(spark: "SparkSession", tasks: list[FlushTask]) -> list[SliceFacts]:
    answers = spark.sparkContext.parallelize(tasks, len(tasks)).map(_run_task).collect()
    for answer in answers:
        if isinstance(answer, HeadraceError):
            raise answer
    return [answer for answer in answers if isinstance(answer, SliceFacts)]


def _run_task(task: FlushTask) -> SliceFacts | HeadraceError:
    """In Spark's worker. What no attempt can change is an answer; the rest Spark tries again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = "0" if context is None else str(context.taskAttemptId())
    try:
        return flush_slice(task, f"{attempt}-{os.getpid()}")
    except (DataLost, CorruptRecords) as error:
        return error


def _stage_transformed(
    spark: "SparkSession", settings: Settings, tasks: list[FlushTask]
) -> list[SliceFacts]:
    counts = spark.sparkContext.accumulator({}, _counts_param())
    numbers = spark.range(0, len(tasks), 1, len(tasks))
    events = numbers.mapInArrow(transform.slice_reader(tasks, counts), transform.EVENTS_DDL)
    rows = transform.build(spark, settings, events)
    rule = rule_of(settings.late_after_s, settings.late)
    write = transform.row_writer(tasks, settings.event_time, rule)
    answers = rows.transformed.mapInArrow(write, transform.FACTS_DDL).collect()
    done: list[transform.Written] = [pickle.loads(bytes(answer.facts)) for answer in answers]
    files = [file for each in done for file in each.files]
    late: dict[int, list[int]] = {}
    for each in done:
        for index, offsets in each.late.items():
            late.setdefault(index, []).extend(offsets)
    read = {**counts.value, **_unread(tasks, counts.value)}
    dead: dict[int, int] = {}
    if rows.corrupt is not None and rows.may_have_corrupt():
        dead = _bury(settings, tasks, rows.corrupt)
    late_counts = {index: len(offsets) for index, offsets in late.items()}
    if rule is not None and rule.fate == DEAD_LETTER and late:
        cause = f"late: {settings.event_time} is over {settings.late_after_s} s before the record"
        dead_letters.send(
            settings.log, settings.dead_letters, late_letters(settings, tasks, late, cause)
        )
        dead = {
            index: dead.get(index, 0) + late_counts.get(index, 0)
            for index in dead.keys() | late_counts.keys()
        }
    return transform.facts_of(tasks, read, dead, files, late_counts)


def _unread(tasks: list[FlushTask], read: dict[int, int]) -> dict[int, int]:
    """Records of slices that Spark did not ask for, as with `WHERE false`: they were filtered."""
    from headrace.pipeline.log_reader import read_range

    missing = {}
    for index, task in enumerate(tasks):
        if index not in read:
            work = task.work
            wanted = OffsetRange(work.topic, work.partition, work.start, work.end, task.topic_id)
            missing[index] = sum(batch.num_rows for batch in read_range(task.log, wanted))
    return missing


def late_letters(
    settings: Settings, tasks: list[FlushTask], late: dict[int, list[int]], cause: str
) -> Iterator[dead_letters.DeadLetter]:
    """Those records as the log has them: a transformation may have kept nothing of the value."""
    from headrace.pipeline.log_reader import read_range

    for index in sorted(late):
        task, wanted = tasks[index], set(late[index])
        where = (task.work.topic, task.work.partition)
        ends = OffsetRange(*where, min(wanted), max(wanted) + 1, task.topic_id)
        for batch in read_range(task.log, ends):
            is_wanted = [offset in wanted for offset in batch.column("offset").to_pylist()]
            rows = batch.filter(pa.array(is_wanted))
            times_us = rows.column("timestamp").cast(pa.int64()).to_pylist()
            columns = ["offset", "key", "value", "headers"]
            for time_us, row in zip(times_us, rows.select(columns).to_pylist(), strict=True):
                yield dead_letters.DeadLetter(
                    topic=task.work.topic,
                    partition=task.work.partition,
                    offset=row["offset"],
                    timestamp_ms=time_us // 1000,
                    key=row["key"],
                    value=row["value"],
                    headers=tuple((h["key"], h["value"]) for h in row["headers"] or ()),
                    cause=cause,
                    pipeline=settings.name,
                )


def _counts_param() -> Any:
    """Records read a slice: the same in every attempt, so the largest, not the sum."""
    from pyspark.accumulators import AccumulatorParam

    class Counts(AccumulatorParam[dict[int, int]]):
        def zero(self, value: dict[int, int]) -> dict[int, int]:
            del value
            return {}

        def addInPlace(self, value1: dict[int, int], value2: dict[int, int]) -> dict[int, int]:
            for number, count in value2.items():
                value1[number] = max(value1.get(number, 0), count)
            return value1

    return Counts()


def _bury(settings: Settings, tasks: list[FlushTask], corrupt: "DataFrame") -> dict[int, int]:
    """Send what did not fit to the dead letters; how many, by slice."""
    dead: dict[int, int] = {}

    def letters() -> Any:
        for row in corrupt.toLocalIterator():
            for index, task in enumerate(tasks):
                work = task.work
                is_here = (work.topic, work.partition) == (row.topic, row.partition)
                if is_here and work.start <= row.offset < work.end:
                    dead[index] = dead.get(index, 0) + 1
            yield dead_letters.DeadLetter(
                topic=row.topic,
                partition=row.partition,
                offset=row.offset,
                timestamp_ms=round(row.timestamp.timestamp() * 1000),
                key=None if row.key is None else bytes(row.key),
                value=None if row.value is None else bytes(row.value),
                headers=tuple((h.key, h.value) for h in row.headers or ()),
                cause=f"the value does not fit the schema {settings.schema}",
                pipeline=settings.name,
            )

    dead_letters.send(settings.log, settings.dead_letters, letters())
    return dead
