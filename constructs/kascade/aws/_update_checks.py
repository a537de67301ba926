"""What HyperPod would reject in scheduled updates, a sentence each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import aws_cdk as cdk

from kascade.aws._given import (
    WHOLE,
    WORD,
    Kind,
    an,
    having,
    is_token,
    listed,
    one_of,
    repeated,
    sift_fields,
)
from kascade.aws.instance_group import Batch, SoftwareUpdates
from kascade.catalog.hyperpod import MAX_ALARMS, MAX_PERCENTAGE, MAX_WAIT_SECONDS
from kascade.catalog.schedules import SCHEDULE, SCHEDULE_WORDS

_UPDATES: Final[Mapping[str, Kind]] = {
    "schedule": WORD,
    "batch": an(Batch, "Batch.nodes(1) or Batch.percentage(10)"),
    "wait": an(cdk.Duration, "a Duration such as Duration.minutes(10)"),
    "rollback_alarms": listed(
        having("an alarm of aws_cloudwatch, such as Alarm.from_alarm_name(...)", "alarm_name"),
        "a list of alarms of aws_cloudwatch",
    ),
}
_BATCH: Final[Mapping[str, Kind]] = {
    "kind": one_of("INSTANCE_COUNT", "CAPACITY_PERCENTAGE"),
    "value": WHOLE,
}


def update_mistakes(updates: SoftwareUpdates) -> Iterator[str]:
    """Find them, whatever the fields are."""
    place = "software_updates."
    updates, texts = sift_fields(updates, _UPDATES, {"schedule": "cron(0 3 ? * SUN *)"}, place)
    yield from texts
    if not SCHEDULE.fullmatch(updates.schedule):
        yield f"{updates.schedule!r} is not {SCHEDULE_WORDS}"
    neutral = {"kind": "INSTANCE_COUNT", "value": 1}
    batch, texts = sift_fields(updates.batch, _BATCH, neutral, f"{place}batch.")
    yield from texts
    if batch.kind == "CAPACITY_PERCENTAGE" and not 1 <= batch.value <= MAX_PERCENTAGE:
        yield f"a batch of {batch.value} percent; allowed: 1 to {MAX_PERCENTAGE}"
    if batch.kind == "INSTANCE_COUNT" and batch.value < 1:
        yield f"a batch of {batch.value} nodes; it must be 1 at least"
    yield from _of_wait(updates.wait)
    if len(updates.rollback_alarms) > MAX_ALARMS:
        yield f"{len(updates.rollback_alarms)} rollback alarms; HyperPod takes {MAX_ALARMS}"
    for name in repeated([alarm.alarm_name for alarm in updates.rollback_alarms]):
        what = "an alarm" if is_token(name) else f"the alarm {name}"
        yield f"{place}rollback_alarms has {what} twice; name each once"


def _of_wait(wait: cdk.Duration) -> Iterator[str]:
    try:
        seconds = wait.to_seconds()
    except RuntimeError:  # jsii's, for half a second or a token of minutes
        yield (
            f"software_updates.wait is {wait.to_string()}, no whole number of seconds; give "
            "Duration.seconds(60), say"
        )
        return
    if is_token(seconds):
        yield (
            "software_updates.wait is a token, whose value only CloudFormation knows, and is "
            "checked at synth; give Duration.seconds(60), say"
        )
    elif seconds > MAX_WAIT_SECONDS:
        yield f"a wait of {seconds:g} seconds; allowed: {MAX_WAIT_SECONDS}"
