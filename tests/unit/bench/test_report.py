"""What is written: equal results are equal bytes, and a page needs nothing but itself."""

import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kascade.bench.document import (
    UnreadableResultError,
    csv_text,
    json_text,
    read_document,
)
from kascade.bench.report import summary_lines, write_report
from kascade.bench.result import SCHEMA
from tests.unit.bench.builders import result

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_same_result_is_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_report(result(), tmp_path / name)
        files = sorted((tmp_path / name).iterdir())
        digests.append({f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in files})
    assert digests[0] == digests[1]
    assert list(digests[0]) == [
        "bench.json",
        "load.png",
        "report.html",
        "requests.csv",
        "tiers.png",
    ]
    assert (tmp_path / "a" / "tiers.png").read_bytes().startswith(PNG)


def test_the_document_has_its_schema_and_reads_back(tmp_path: Path) -> None:
    (tmp_path / "bench.json").write_text(json_text(result()))
    found = read_document(tmp_path)
    assert found["schema"] == SCHEMA
    assert found == json.loads(json_text(result()))
    assert found["sound"] is True
    assert list(found) == sorted(found)


def test_the_table_has_a_row_for_each_request() -> None:
    rows = list(csv.DictReader(io.StringIO(csv_text(result()))))
    assert [row["phase"] for row in rows] == ["cold"] * 5 + ["l2"] * 3 + ["load"] * 30
    assert rows[0]["ttft_seconds"] == "2.0"
    assert rows[0]["error"] == ""


def test_the_page_carries_everything_and_escapes_what_it_was_given(tmp_path: Path) -> None:
    write_report(result(), tmp_path)
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 2
    assert re.findall(r"(?:src|href)=\"(?!data:)", page) == []
    assert "<script" not in page
    assert "cut &amp; dried" in page
    assert "L1 was left out: L0 cannot be emptied" in page
    assert "Take care: not the plan&#x27;s hardware" in page


def test_a_phase_that_measured_something_else_says_so_everywhere(tmp_path: Path) -> None:
    fine = result()
    flawed = replace(fine.phases[1], flaw="L0 served 98% of the prompt tokens")
    run = replace(fine, phases=(fine.phases[0], flawed, fine.phases[2]))
    write_report(run, tmp_path)
    assert not run.sound
    assert "L2 did not measure what it is named after" in (tmp_path / "report.html").read_text()
    assert "L2 (not isolated)" in (tmp_path / "report.html").read_text()
    assert "L2    not isolated: L0 served 98% of the prompt tokens" in list(summary_lines(run))


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (["workload"], None, "workload.digest"),
        (["versions"], [], "versions"),
        (["cost", "usd_per_million_tokens"], "1", "cost.usd_per_million_tokens"),
        (["phases", 0], "cold", "phases[0].name"),
        (["phases", 0, "name"], "l9", "phases[0].name"),
        (["phases", 1, "served"], {"l0": 1}, "phases[1].served.computed"),
        (["phases", 2, "summary", "goodput"], None, "phases[2].summary.goodput"),
        (["phases", 2, "samples", 3, "ttft_seconds"], "x", "phases[2].samples[3].ttft_seconds"),
    ],
)
def test_a_result_that_is_not_whole_names_the_file_and_the_field(
    tmp_path: Path, path: list[str | int], value: object, named: str
) -> None:
    changed = json.loads(json_text(result()))
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    file = tmp_path / "bench.json"
    file.write_text(json.dumps(changed))
    with pytest.raises(UnreadableResultError) as caught:
        read_document(tmp_path)
    assert str(caught.value) == (
        f"{file} was changed by hand or is not whole: it has no usable {named}; run it anew"
    )


def test_a_file_that_is_no_json_is_a_sentence(tmp_path: Path) -> None:
    for data in (b"{", b"\xff\xfe", b"[" * 100_000):
        (tmp_path / "bench.json").write_bytes(data)
        with pytest.raises(UnreadableResultError, match=r"bench\.json is no JSON; name"):
            read_document(tmp_path)


@pytest.mark.parametrize("text", ["[]", '{"schema": "other/1"}'])
def test_a_file_that_is_no_result_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "bench.json").write_text(text)
    with pytest.raises(UnreadableResultError, match="is no result that can be read here"):
        read_document(tmp_path)
    with pytest.raises(UnreadableResultError, match="cannot be read: No such file"):
        read_document(tmp_path / "none")
