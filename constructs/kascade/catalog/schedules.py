"""When HyperPod renews software: what it takes as a schedule."""

from __future__ import annotations

import re
from typing import Final

_MONTH: Final = r"(?:0?[1-9]|1[0-2]|\*|\*/(?:[1-9]|1[0-2]))"
_DAY_OF_MONTH: Final = r"(?:0?[1-9]|[12][0-9]|3[01])"
_DAY_OF_WEEK: Final = r"(?:MON|TUE|WED|THU|FRI|SAT|SUN|[1-7]|L|[1-7]#[1-5]|[1-7]L)"

SCHEDULE: Final = re.compile(
    r"cron\([0-5]?[0-9] (?:[01]?[0-9]|2[0-3]) "
    rf"(?:\? {_MONTH} {_DAY_OF_WEEK}|{_DAY_OF_MONTH} {_MONTH} \?)"
    r" (?:20[2-9][0-9]|\*)\)"
)
"""As CloudFormation's registry has it (AWS::SageMaker::Cluster, ScheduleExpression), which takes
fewer forms than EventBridge; and of the two days one is ?, as EventBridge wants it."""

SCHEDULE_WORDS: Final = (
    "a schedule that HyperPod takes, such as cron(0 3 ? * SUN *): one minute, one hour in UTC, a "
    "day of the month, a month or *, a day of the week, a year or *; one of the two days is ?, and "
    "there are no lists and no ranges"
)
"""The same for a person, behind "is not"."""
