"""What a SageMaker training plan can reserve."""

from __future__ import annotations

from typing import Final

RESERVABLE_TYPES: Final = (
    "ml.p4d.24xlarge",
    "ml.p4de.24xlarge",
    "ml.p5.4xlarge",
    "ml.p5.48xlarge",
    "ml.p5e.48xlarge",
    "ml.p5en.48xlarge",
    "ml.p6-b200.48xlarge",
    "ml.p6-b300.48xlarge",
    "ml.p6e-gb200.36xlarge",
    "ml.trn1.32xlarge",
    "ml.trn2.48xlarge",
)
"""Values of ``ReservedCapacityInstanceType`` in SageMaker's API model (botocore 1.44.8)."""
