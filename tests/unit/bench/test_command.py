"""`kascade bench` as a person runs it, on played replicas with a played load generator."""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kascade.bench import client
from kascade.bench.settings import LINK, find_generator, out_problems
from kascade.cli import main
from tests.unit.bench.builders import result
from tests.unit.bench.fake_system import fake_system

ROOT = Path(__file__).parents[3]
LAPTOP = ROOT / "config" / "laptop.yaml"
STAND_IN = Path(__file__).with_name("stand_in.py")
SMALL = [
    *("--requests", "6", "--groups", "2", "--prefix-tokens", "1000", "--question-tokens", "60"),
    *("--output-tokens", "3", "--tier-prompts", "3", "--warmup-requests", "1", "--rate", "50"),
]

Command = Callable[..., int]


@pytest.fixture
def generator(tmp_path: Path) -> Path:
    program = tmp_path / "bin" / "aiperf"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{STAND_IN}" "$@"\n')
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Played counters stand still at once, so nothing has to be waited for."""

    def until(deadline_seconds: float, **_: float) -> Iterator[None]:
        return patient(deadline_seconds, every_seconds=0.01)

    patient = client.until
    monkeypatch.setattr(client, "until", until)


@pytest.fixture
def bench(tmp_path: Path, generator: Path) -> Command:
    def run(*arguments: str, target: Path | None = None) -> int:
        argv = ["bench", str(LAPTOP), "--target", str(target or tmp_path / "target.json")]
        argv += ["--out", str(tmp_path / "out"), "--load-generator", str(generator)]
        return main([*argv, *arguments])

    return run


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name not in ("bin", "target.json"))


@pytest.mark.parametrize("dev_mode", [True, False])
def test_every_tier_is_isolated_with_and_without_the_way_to_reset_l0(
    tmp_path: Path, bench: Command, capsys: pytest.CaptureFixture[str], dev_mode: bool
) -> None:
    with fake_system(l0_tokens=8192, dev_mode=dev_mode) as (target, _):
        (tmp_path / "target.json").write_text(target.to_json())
        code = bench(*SMALL, "--slo-ttft-seconds", "5", "--measured-on", "a played system")
    captured = capsys.readouterr()
    assert code == 0, captured
    document = json.loads((tmp_path / "out" / "bench.json").read_text())
    phases = {phase["name"]: phase for phase in document["phases"]}
    assert list(phases) == ["cold", "l0", "l1", "l2", "load"]
    for name in ("l0", "l1", "l2"):
        served = phases[name]["served"]
        assert served[name] > 0.7 * sum(served.values())
        assert phases[name]["flaw"] is None
    assert phases["l2"]["where"] == "tiny-1"
    how = "POST /reset_prefix_cache" if dev_mode else "filled with 71 other prompts of 128 tokens"
    assert how in phases["l1"]["how"]
    assert phases["load"]["summary"]["good"] == 6
    assert document["versions"]["vllm"] == "0.32.0"
    assert document["cost"]["caveat"].startswith("the rates were not measured on the plan's")
    assert left(tmp_path) == ["out"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [
        "bench.json",
        "load.png",
        "report.html",
        "requests.csv",
        "tiers.png",
    ]
    assert "l1: making L0 let go" in captured.err
    assert captured.out.startswith("measured on a played system\n")


@pytest.mark.parametrize("tenant", ["kascade-verifier", None])
def test_every_request_is_the_targets_tenants(
    tmp_path: Path, bench: Command, tenant: str | None
) -> None:
    """Warm-up, filling L0, tier phases and load; without a tenant none carries the header."""
    with fake_system(l0_tokens=8192, dev_mode=False) as (target, replicas):
        (tmp_path / "target.json").write_text(replace(target, tenant=tenant).to_json())
        assert bench(*SMALL) == 0
    assert [replica.tenants for replica in replicas] == [{tenant}, {tenant}]


def test_a_second_run_with_the_same_salt_says_that_nothing_was_cold(
    tmp_path: Path, bench: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_system() as (target, _):
        (tmp_path / "target.json").write_text(target.to_json())
        arguments = (*SMALL, "--tiers", "cold", "--no-load", "--salt", "same")
        assert bench(*arguments) == 0
        (tmp_path / "out").rename(tmp_path / "first")
        assert "cold  TTFT" in capsys.readouterr().out
        assert bench(*arguments) == 1
    out = capsys.readouterr().out
    assert "cold  not isolated: other tiers served part of the prompt tokens: L0" in out
    assert "TTFT" not in out


def test_failed_requests_are_counted_and_end_with_1(
    tmp_path: Path, bench: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_system() as (target, replicas):
        (tmp_path / "target.json").write_text(target.to_json())
        replicas[1].fail_from = 3
        code = bench(*SMALL, "--tiers", "none")
    assert code == 1
    assert '1 failed, the first: {"error":"made to fail"}' in capsys.readouterr().out
    document = json.loads((tmp_path / "out" / "bench.json").read_text())
    assert document["failed"] == 1


def test_one_replica_leaves_l2_out_and_says_so(
    tmp_path: Path, bench: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_system() as (target, _):
        fields = json.loads(target.to_json())
        fields["replicas"] = fields["replicas"][:1]
        (tmp_path / "target.json").write_text(json.dumps(fields))
        assert bench(*SMALL, "--no-load") == 0
    assert "L2    left out: the target names one replica" in capsys.readouterr().out


def test_all_mistakes_come_at_once_and_nothing_is_written(
    tmp_path: Path, bench: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "target.json").write_text('{"replicas": []}')
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").touch()
    arguments = ["--rate", "0", "--requests", "-1", "--tiers", "l0,l7", "--request-fields", "[1"]
    arguments += ["--trace", "x.jsonl", "--salt", "a b", "--pause-seconds", "nan"]
    arguments += ["--load-generator", str(tmp_path / "none")]
    assert bench(*arguments) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "kascade bench: 10 problems, nothing was measured"
    for words in (
        "--requests is -1; it has to be from 1 to 1,000,000",
        "--rate is 0; it has to be from 0.0001 to 100,000",
        "--pause-seconds is nan; it has to be 0 or more and finite",
        "--trace belongs to --workload trace, and the workload is shared-prefix",
        "--tiers has l7; it takes cold, l0, l1, l2, or none alone",
        "--salt is 'a b'; it takes 1 to 32 letters, digits, dots, dashes",
        f"--out {tmp_path / 'out'} is there already: name a folder that is new or empty",
        f"--target {tmp_path / 'target.json'} cannot be used: it does not describe a running",
        f"the load generator aiperf 0.13.0 is missing ({tmp_path / 'none'} is not there)",
        "--request-fields is '[1'; it takes a JSON object",
    ):
        assert any(line.strip().startswith(words) for line in lines), words
    assert left(tmp_path) == ["out"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--workload", "trace"], "--workload trace needs --trace FILE, a Mooncake trace"),
        (["--tiers", "none", "--no-load"], "leave nothing to measure"),
        (["--prefix-tokens", "9000"], "the longest request of shared-prefix has 9,232 tokens"),
        (["--workload", "trace", "--trace", "none.jsonl"], "the trace cannot be read: No such"),
        (["--request-fields", '{"model": "x"}'], "has model, which the workload sets"),
        (["--request-fields", '{"a": NaN}'], "'{\"a\": NaN}'; JSON has no NaN and no Infinity"),
        (["--request-fields", '{"a": [1e999]}'], "JSON has no NaN and no Infinity"),
        (["--request-fields", "[" * 100_000], "'; it takes a JSON object"),
        (["--tiers", "cold,l1,l0,l1"], "--tiers has l1 more than once; name each tier once"),
        (["--tiers", ",,"], "--tiers has an empty name; it takes cold, l0, l1, l2, or none alone"),
        (["--tiers", "none,cold"], "--tiers has none; it takes cold, l0, l1, l2, or none alone"),
        (["--rate", "1e-300"], "--rate is 1e-300; it has to be from 0.0001 to 100,000"),
        (["--rate", "1e6"], "--rate is 1e+06; it has to be from 0.0001 to 100,000"),
        (["--trace-speed", "nan"], "--trace-speed is nan; it has to be from 0.0001 to 100,000"),
        (["--request-timeout-seconds", "1e300"], "it has to be from 0.001 to 604,800"),
    ],
)
def test_what_does_not_fit_is_a_sentence(
    tmp_path: Path,
    bench: Command,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    with fake_system() as (target, _):
        (tmp_path / "target.json").write_text(target.to_json())
        assert bench(*arguments) == 2
    assert words in capsys.readouterr().err
    assert left(tmp_path) == []


def test_a_system_that_does_not_answer_is_named_part_by_part(
    tmp_path: Path, bench: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_system() as (target, _):
        (tmp_path / "target.json").write_text(target.to_json())
    assert bench(*SMALL) == 2
    err = capsys.readouterr().err
    assert "6 problems, nothing was measured" in err
    for replica in target.replicas:
        assert f"{replica.engine_url}/health did not answer: " in err
    assert left(tmp_path) == []


def test_another_system_than_the_plans_is_a_sentence(
    tmp_path: Path, bench: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    with fake_system() as (target, _):
        text = target.to_json()
    (tmp_path / "target.json").write_text(text.replace('"engine": "tiny"', '"engine": "huge"'))
    assert bench() == 2
    assert "is of engine huge;" in capsys.readouterr().err
    (tmp_path / "target.json").write_text(text.replace('"chunk_size": 256', '"chunk_size": 64'))
    assert bench() == 2
    assert "they are of different systems" in capsys.readouterr().err


def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path,
    bench: Command,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with fake_system() as (target, _):
        (tmp_path / "target.json").write_text(target.to_json())
        monkeypatch.setattr("kascade.bench.report.write_report", interrupt)
        assert bench(*SMALL, "--tiers", "none") == 130
    assert capsys.readouterr().err.endswith("interrupted, nothing was written\n")
    assert left(tmp_path) == []


def test_a_terminated_run_ends_the_load_generator_and_leaves_nothing(
    tmp_path: Path, bench: Command, generator: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scratch = tmp_path / "bin" / "scratch"
    generator.write_text(
        f"#!/bin/sh\nsleep 60 & echo $! > {tmp_path / 'bin' / 'child'}\n"
        f'for word; do last="$word"; done; echo "$last" > {scratch}\n'
        "sleep 0.5; kill -TERM $PPID; wait\n"
    )
    before = signal.getsignal(signal.SIGTERM)
    with fake_system() as (target, _):
        (tmp_path / "target.json").write_text(target.to_json())
        assert bench(*SMALL, "--tiers", "none") == 130
    assert capsys.readouterr().err.endswith("interrupted, nothing was written\n")
    assert left(tmp_path) == []
    assert signal.getsignal(signal.SIGTERM) == before
    assert not Path(scratch.read_text().strip()).parents[1].exists()
    child = Path("/proc", (tmp_path / "bin" / "child").read_text().strip(), "stat")
    # The signal is sent before the run returns; the process ends when it is scheduled.
    end = time.monotonic() + 10
    while (alive := child.exists() and child.read_text().split()[2] != "Z") and (
        time.monotonic() < end
    ):
        time.sleep(0.05)
    assert not alive


def test_a_place_that_cannot_be_written_is_refused_at_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("empty").mkdir()
    Path("link").symlink_to("nowhere")
    below = tmp_path / "file"
    for out, words in (
        ("file/a/b", f"--out file/a/b cannot be made: {below} is a file; name a place in a folder"),
        ("link", "--out link is there already: name a folder that is new or empty"),
        ("link/a", "--out link/a cannot be made: "),
        ("/proc/none/a", "--out /proc/none/a cannot be made: /proc cannot be written to ("),
    ):
        (problem,) = out_problems(Path(out))
        assert problem.startswith(words)
    for out in ("empty", "new/er/est", "new"):
        assert list(out_problems(Path(out))) == []
    assert left(tmp_path) == ["empty", "file", "link"]


def test_a_load_generator_of_another_release_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "aiperf"
    program.parent.mkdir()
    program.touch(0o755)
    found = tmp_path / "lib" / "python3.11" / "site-packages" / "aiperf-0.12.0.dist-info"
    found.mkdir(parents=True)
    with pytest.raises(ValueError, match=r"is aiperf 0\.12\.0; this needs 0\.13\.0"):
        find_generator(program)


def test_the_load_generator_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, elsewhere = tmp_path / "checkout", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setattr(sys, "prefix", str(checkout / ".venv"))
    monkeypatch.setenv("PATH", str(elsewhere))
    beside = checkout / LINK
    with pytest.raises(ValueError, match="is missing") as caught:
        find_generator(None)
    assert f"(it is neither {LINK} here, nor {beside}, nor on PATH)" in str(caught.value)
    for program, found in (
        (elsewhere / "aiperf", elsewhere / "aiperf"),
        (beside, beside),
        (elsewhere / LINK, LINK),
    ):
        program.parent.mkdir(parents=True, exist_ok=True)
        program.touch(0o755)
        assert find_generator(None) == found


def test_a_load_generator_that_cannot_be_run_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is a folder: name the file aiperf in it"):
        find_generator(tmp_path)
    (tmp_path / "aiperf").touch(0o644)
    with pytest.raises(ValueError, match="is not executable: name the file bin/aiperf"):
        find_generator(tmp_path / "aiperf")


def test_two_runs_are_compared_by_their_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kascade.bench.report import write_report

    for name, factor in (("a", 1.0), ("b", 0.5)):
        (tmp_path / name).mkdir()
        write_report(result(factor=factor), tmp_path / name)
    runs = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["bench", "--compare", *runs, "--out", str(tmp_path / "c")]) == 0
    assert "better" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["compare.html", "compare.png"]
    assert main(["bench", "--compare", str(tmp_path / "none"), runs[0]]) == 2
    assert "cannot be read: No such file or directory" in capsys.readouterr().err
    (tmp_path / "a" / "bench.json").write_text('{"schema": "kascade-bench/1"}')
    assert main(["bench", "--compare", *runs]) == 2
    file = tmp_path / "a" / "bench.json"
    (line,) = capsys.readouterr().err.splitlines()[1:]
    assert line.startswith(f"  {file} was changed by hand or is not whole: it has no usable work")
    assert main(["bench"]) == 2
    assert "kascade bench needs CONFIG, --target, --out" in capsys.readouterr().err
