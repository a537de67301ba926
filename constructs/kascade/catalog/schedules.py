"""When HyperPod renews software: what it takes as a schedule."""

from __future__ import annotations

import re
from typing import Final

SCHEDULE: Final = re.compile(
    r"cron\((?:[0-5]?[0-9]|) (?:[01]?[0-9]|2[0-3]) (?:0?[1-9]|[12][0-9]|3[01]|\?)"
    r" (?:0?[1-9]|1[0-2]|\*|\*/(?:[1-9]|1[0-2])|)"
    r" (?:MON|TUE|WED|THU|FRI|SAT|SUN|[1-7]|\?|L|[1-7]#[1-5]|[1-7]L) (?:20[2-9][0-9]|\*|)\)"
)
"""As CloudFormation's registry has it (AWS::SageMaker::Cluster, ScheduleExpression): fewer forms
than EventBridge takes."""

SCHEDULE_WORDS: Final = (
    "a schedule that HyperPod takes, such as cron(0 3 ? * SUN *): one minute, one hour in UTC, a "
    "day of the month or ?, a month or *, a day of the week or ?, a year or *; no lists, no ranges"
)
"""The same for a person, behind "is not"."""
