"""Wrong settings of the cluster half: each is one clear sentence at synth."""

from pathlib import Path

from kascade import plan_file
from tests.unit.config.builders import base, write


def test_the_base_is_right(tmp_path: Path) -> None:
    """Or every row above would be rejected for another reason."""
    assert plan_file(write(tmp_path, base())).name == "demo"
