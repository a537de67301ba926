"""The whole proof, against fakes that count as the real programs do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kascade.programs.verify.checks import verify
from kascade.programs.verify.command import main
from kascade.programs.verify.discover import replicas_of
from kascade.programs.verify.facts import observe
from kascade.programs.verify.report import FAILED, OPEN, Report
from kascade.programs.verify.verification import UnusableError, VerifyOptions
from tests.unit.programs.fakes import FakeReplica, FakeServer, FakeSystem

Start = Callable[..., FakeSystem]
PROGRAMS = Path(__file__).parents[3] / "constructs" / "kascade" / "programs"


def run(system: FakeSystem, **settings: object) -> Report:
    given = {"seed": 1, "prompt_tokens": 2000, "ttft_ratio": None, "store_seconds": 0.3}
    return verify(
        system.target,
        VerifyOptions(**(given | settings)),  # type: ignore[arg-type]
        look=None,
        say=lambda _: None,
    )


def failed(report: Report) -> list[str]:
    return [check.name for check in report.checks if check.verdict == FAILED]


def kinds(report: Report) -> list[list[str]]:
    return [[cause.kind for cause in diagnosis.causes] for diagnosis in report.diagnoses]


def test_a_system_that_shares_passes(system: Start) -> None:
    report = run(system(), router_policy="cache_aware")
    assert failed(report) == []
    assert report.exit_code == 0
    assert report.diagnoses == ()
    names = [check.name for check in report.checks]
    assert "pod-a > pod-b: taken from L2" in names
    assert "pod-b > pod-a: taken from L2" in names
    assert "router (cache_aware): a prompt stays" in names
    assert "router (cache_aware): it knows a chat's tokens" in names


def test_a_router_that_knows_no_tokens_fails_although_a_prompt_stays(system: Start) -> None:
    """An idle router sends what it does not know to one replica, always the same."""
    report = run(system(learns=False), router_policy="cache_aware")
    assert failed(report) == ["router (cache_aware): it knows a chat's tokens"]
    (check,) = [c for c in report.checks if c.verdict == FAILED]
    assert "--enable-scale-out" in check.measured
    assert failed(run(system(learns=False), router_policy="round_robin")) == []


def test_the_same_seed_sends_the_same_prompts(system: Start) -> None:
    sent = []
    for _ in range(2):
        running = system()
        run(running, seed=5)
        sent.append([replica.requests for replica in running.replicas])
    assert sent[0] == sent[1]
    every = {prompt[:200] for prompts in sent[0] for prompt in prompts}
    # Two warm-ups, one prompt for each direction and one for the router.
    assert len(every) == 5


def test_without_a_hit_nothing_is_said_about_the_time(system: Start) -> None:
    report = run(system(base_path="/elsewhere"), ttft_ratio=0.0001)
    times = [check for check in report.checks if check.name.endswith("first token")]
    assert [(check.verdict, check.wanted) for check in times] == [(OPEN, "(no hit)")] * 2


def test_a_seed_that_was_used_before_proves_nothing(system: Start) -> None:
    running = system()
    run(running)
    report = run(running)
    assert kinds(report) == [["seen-before"], ["seen-before"]]
    assert report.exit_code == 1


def test_replicas_are_found_by_a_name_and_called_as_their_servers_are(system: Start) -> None:
    running = system()
    port = running.servers[0].server_address[1]
    cache = FakeServer(running.replicas[0], prefix="/lmcache")
    try:
        (found,) = replicas_of("127.0.0.1", engine_port=port, lmcache_port=cache.server_address[1])
        (unknown,) = replicas_of("127.0.0.1", engine_port=port, lmcache_port=port)
    finally:
        cache.end()
    assert (found.name, found.engine_url) == ("pod-a", f"http://127.0.0.1:{port}")
    assert unknown.name == "127.0.0.1"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"chunk_size": 128}, [["chunk-size"], ["chunk-size"]]),
        ({"hash_algorithm": "sha256_cbor"}, [["hash-algorithm"], ["hash-algorithm"]]),
        ({"base_path": "/elsewhere"}, [["base-path"], ["base-path"]]),
        ({"root": "/weights/model"}, [["model-path"], ["model-path"]]),
        ({"l2": set()}, [["mount-differs"], ["mount-differs"]]),
        ({"stores": False}, [["store-failed"]]),
        ({"cache_answers": False}, [["lmcache-unreachable"]]),
        ({"tokens": (9,) * 8}, [["other-tokens"], ["other-tokens"]]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_planted_fault_is_named(
    system: Start, fault: dict[str, object], expected: list[list[str]]
) -> None:
    report = run(system(**fault))
    assert report.exit_code == 1
    if fault == {"cache_answers": False}:
        # The fake goes on sharing, so both directions hit; only the check of the servers fails.
        assert failed(report) == [
            "LMCache servers with their engine",
            "pod-b > pod-a: stored in L2",
        ]
        return
    assert kinds(report) == expected


def test_requests_of_others_make_it_try_again_and_then_fail(system: Start) -> None:
    running = system(others_tokens=100)
    report = run(running)
    assert failed(report) == ["pod-a > pod-b: taken from L2"]
    (check,) = [c for c in report.checks if c.verdict == FAILED]
    assert "others' requests" in check.measured
    # A warm-up, three prompts to read, and one to write.
    assert len(running.replicas[1].requests) == 5


def test_a_router_in_turn_is_not_expected_to_keep_a_prompt(system: Start) -> None:
    report = run(system(in_turn=True), router_policy="round_robin")
    stays, cached = report.checks[-2:]
    assert (stays.verdict, stays.wanted) == (OPEN, "(not expected)")
    assert stays.measured == "pod-b, pod-a"
    # The second replica takes it from L2.
    assert cached.verdict == "ok"


def test_a_prefix_aware_router_that_scatters_fails(system: Start) -> None:
    report = run(system(in_turn=True), router_policy="cache_aware")
    assert failed(report) == ["router (cache_aware): a prompt stays"]


@pytest.mark.parametrize(
    ("settings", "second", "words"),
    [
        ({"prompt_tokens": 100}, {}, "the prompt was to have 100 tokens, .* --tokens"),
        ({}, {"max_model_len": 200}, "tiny takes requests of 192 tokens, .* raise max_model_len"),
    ],
)
def test_what_cannot_be_proved_is_a_sentence(
    system: Start, settings: dict[str, object], second: dict[str, object], words: str
) -> None:
    with pytest.raises(UnusableError, match=words):
        run(system(**second), **settings)


def test_the_program_runs_alone_with_its_folder_on_the_path(system: Start, tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text(system().target.to_json())
    done = subprocess.run(
        [sys.executable, "-I", "-c", BARE, str(target)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={},
    )
    assert done.returncode == 0, done.stderr
    assert "all 8 checks passed" in done.stdout
    assert "verify: pod-a computes prompt 1" in done.stderr


BARE = f"""
import runpy, sys
sys.path[:] = [path for path in sys.path if "site-packages" not in path]
sys.path.insert(0, {str(PROGRAMS)!r})
sys.argv[1:] = ["--target", sys.argv[1], "--seed", "3", "--tokens", "2000", "--ttft-ratio", "0"]
runpy.run_module("verify", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no json", "cannot be used"),
        ("{}", "cannot be used"),
        (
            json.dumps({"engine": "a", "model": "m", "chunk_size": 1, "replicas": []}),
            "add another one to",
        ),
    ],
)
def test_a_target_that_is_none_ends_with_2(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target.json"
    target.write_text(text)
    assert main(["--target", str(target)]) == 2
    assert words in capsys.readouterr().err


def test_a_name_without_address_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--discover=no-such-name.invalid", "--engine=a", "--model=m", "--chunk-size=256"]
    assert main([*arguments, "--engine-port=1"]) == 2
    assert "--discover needs --lmcache-port" in capsys.readouterr().err
    assert main([*arguments, "--engine-port=1", "--lmcache-port=2"]) == 2
    assert "no-such-name.invalid has no address" in capsys.readouterr().err


@pytest.mark.parametrize("page", ["/v1/models", "/version"])
def test_an_engine_that_answers_no_objects_ends_with_a_sentence(
    page: str, system: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = system()
    before = FakeReplica.pages
    monkeypatch.setattr(FakeReplica, "pages", lambda self: before(self) | {page: [1]})
    with pytest.raises(UnusableError, match="other than a JSON object"):
        run(started)


@pytest.mark.parametrize("page", ["/lmcache/status", "/lmcache/config"])
def test_a_cache_server_of_another_form_gives_no_answer(
    page: str, system: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = system()
    before = FakeReplica.pages
    for body in ([1], {"storage_manager": 3}):
        pages = {page: body}
        monkeypatch.setattr(FakeReplica, "pages", lambda self, p=pages: before(self) | p)
        seen = observe(started.target.replicas[0], "model")
        assert seen.cache is None
        assert "answered" in seen.problem


@pytest.mark.parametrize("flag", ["--tokens", "--request-seconds", "--ttft-ratio"])
@pytest.mark.parametrize("value", ["x", "-1", "nan", "inf", ""])
def test_an_argument_that_is_no_number_is_a_sentence(
    flag: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--target=x", f"{flag}={value}"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert f"argument {flag}: {value!r} is not allowed; give a " in said
    assert "_" not in said.splitlines()[-1]
