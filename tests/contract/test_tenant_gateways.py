"""Tenant gateways, router and middleware in a row, each the real program; vLLM is played."""

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kascade import ServingPlan
from kascade.plan import TenantGatewayPlan
from tests.contract.pods import containers
from tests.contract.test_tenancy import CONFIG, job_of
from tools import nginx
from tools.debian import NoProgramError
from tools.outputs import Document, Outputs
from tools.servers import Server, free_ports

ROOT = Path(__file__).parents[2]
LONGEST_SECONDS = 300
BODY = {"model": "m", "prompt": "hello", "max_tokens": 3, "cache_salt": "mallory"}


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    seconds: tuple[float, ...] = ()

    @property
    def salt(self) -> str:
        found: str = json.loads(self.text)["choices"][0]["text"]
        return found


def ask(port: int, path: str, body: Any = None, method: str = "", **headers: str) -> Answer:
    """Ask once, and note when each line of the answer came."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    sent = {"Content-Type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
    connection.request(method or ("GET" if body is None else "POST"), path, content, sent)
    response = connection.getresponse()
    lines, times = [], []
    while line := response.readline():
        lines.append(line.decode())
        times.append(time.monotonic())
    connection.close()
    return Answer(response.status, "".join(lines), tuple(times))


def on_loopback(
    config: str, gateway: TenantGatewayPlan, *, port: int, router: int, folder: Path
) -> str:
    """Change a tenant gateway's configuration where a machine has one address and one /tmp."""
    for real, here in (
        (f"listen {gateway.port};", f"listen 127.0.0.1:{port};"),
        (f"server {gateway.router}:{gateway.router_port};", f"server 127.0.0.1:{router};"),
        ("/tmp/", f"{folder}/"),  # noqa: S108 - what is replaced
        ("/dev/stdout", f"{folder}/access.log"),
    ):
        assert real in config
        config = config.replace(real, here)
    return config


@dataclass(frozen=True)
class Row:
    """Running programs: ports of the tenant gateways by tenant, of the router and of the engine.

    Attributes:
        pids: Of the tenant gateways, by tenant.
        pre_stop: What the kubelet runs before it ends a tenant gateway.
    """

    tenant_gateways: dict[str, int]
    router: int
    engine: int
    folders: dict[str, Path]
    pids: dict[str, int]
    pre_stop: list[str]


@pytest.fixture(scope="module")
def row(
    synthesized: Callable[[str], Outputs],
    plan: Callable[[str], ServingPlan],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Row]:
    try:
        program = nginx.program()
    except NoProgramError as error:
        pytest.fail(f"the tenant gateways were NOT tried: {error}", pytrace=False)
    whole = plan(CONFIG)
    objects = [document for _, document in synthesized(CONFIG).objects()]
    tenant_gateways = {gateway.tenant: gateway for gateway in whole.tenant_gateways}
    (router,) = (r for r in whole.routers if r.name == whole.tenant_gateways[0].router)
    (engine,) = (e for e in whole.engines if e.name == router.engine)
    engine_port, router_port, metrics_port, *gateway_ports = free_ports(3 + len(tenant_gateways))
    folder = tmp_path_factory.mktemp("row")
    servers: list[Server] = []

    def start(name: str, *argv: str | Path, **environment: str) -> Server:
        path = os.pathsep.join((str(ROOT), str(ROOT / "constructs")))
        server = Server(
            name,
            argv,
            folder=folder,
            directory=ROOT,
            environment={**os.environ, "PYTHONPATH": path, **environment},
            seconds=LONGEST_SECONDS,
        )
        servers.append(server)
        return server

    def up(port: int, path: str) -> bool:
        try:
            return ask(port, path).status == 200
        except (OSError, http.client.HTTPException):
            return False

    try:
        env = job_of(engine, synthesized(CONFIG))["env"]
        stub = start(
            "engine", sys.executable, "-m", "tests.contract.salted_stub", str(engine_port), **env
        )
        stub.wait_until(lambda: up(engine_port, "/health"), seconds=30)
        (rendered,) = (c for o, c in containers(objects, "router") if o.endswith(f"/{router.name}"))
        kept = [word for word in rendered["args"] if word.startswith(("--policy", "--balance"))]
        start(
            "router",
            Path(sys.executable).parent / "vllm-router",
            "--host=127.0.0.1",
            f"--port={router_port}",
            f"--worker-urls=http://127.0.0.1:{engine_port}",
            f"--prometheus-port={metrics_port}",
            "--log-level=warning",
            *kept,
        ).wait_until(lambda: up(router_port, "/readiness"), seconds=30)
        folders, pids = {}, {}
        for (tenant, gateway), port in zip(tenant_gateways.items(), gateway_ports, strict=True):
            folders[tenant] = folder / gateway.name
            folders[tenant].mkdir()
            config = on_loopback(
                written(objects, gateway),
                gateway,
                port=port,
                router=router_port,
                folder=folders[tenant],
            )
            (folders[tenant] / "nginx.conf").write_text(config)
            (container,) = (
                c for o, c in containers(objects, "tenant-gateway") if o.endswith(gateway.name)
            )
            words = [
                str(folders[tenant] / "nginx.conf") if word.endswith(".conf") else word
                for word in container["args"]
            ]
            server = start(f"tenant gateway-{tenant}", program, *words)
            pids[tenant] = server.pid
            server.wait_until(
                lambda port=port: up(port, "/healthz"),  # type: ignore[misc]
                seconds=10,
            )
        yield Row(
            tenant_gateways=dict(zip(tenant_gateways, gateway_ports, strict=True)),
            router=router_port,
            engine=engine_port,
            folders=folders,
            pids=pids,
            pre_stop=container["lifecycle"]["preStop"]["exec"]["command"],
        )
    finally:
        for server in reversed(servers):
            server.stop()


def written(objects: list[Document], gateway: TenantGatewayPlan) -> str:
    (data,) = (
        item["data"]
        for item in objects
        if item["kind"] == "ConfigMap" and item["metadata"]["name"] == gateway.name
    )
    text: str = data["nginx.conf"]
    return text


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_a_gateway_decides_whose_a_request_is(row: Row, path: str) -> None:
    body = {**BODY, "messages": [{"role": "user", "content": "hello"}]}
    for tenant, port in row.tenant_gateways.items():
        answer = ask(
            port, path, body, X_Kascade_Tenant="mallory", x_kascade_tenant="kascade-verifier"
        )
        assert (answer.status, answer.salt) == (200, tenant)


def test_headers_that_look_alike_do_not_count(row: Row) -> None:
    for tenant, port in row.tenant_gateways.items():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.putrequest("POST", "/v1/completions")
        content = json.dumps(BODY).encode()
        for name, value in (
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(content))),
            ("x-kascade-tenant", "kascade-verifier"),
            ("X-KASCADE-TENANT", "kascade-verifier"),
            ("x_kascade_tenant", "kascade-verifier"),
            ("Connection", "x-kascade-tenant"),
        ):
            connection.putheader(name, value)
        connection.endheaders(content)
        answer = json.loads(connection.getresponse().read())
        assert answer["choices"][0]["text"] == tenant
        connection.close()


def test_without_a_gateway_nobody_is_served(row: Row) -> None:
    for port in (row.router, row.engine):
        answer = ask(port, "/v1/completions", BODY)
        assert answer.status == 403
        assert "no known tenant" in answer.text
        assert ask(port, "/v1/completions", BODY, x_kascade_tenant="zoe").status == 403


def test_the_verification_gets_through_the_router(row: Row) -> None:
    answer = ask(row.router, "/v1/completions", BODY, x_kascade_tenant="kascade-verifier")
    assert (answer.status, answer.salt) == (200, "kascade-verifier")


def test_the_router_drops_the_header_of_other_paths(row: Row) -> None:
    """Why gateways do not lead there. Where it fails, the router has learnt to hand it on."""
    body = {"model": "m", "input": "hello"}
    answer = ask(row.router, "/v1/responses", body, x_kascade_tenant="kascade-verifier")
    assert answer.status == 403
    direct = ask(row.engine, "/v1/responses", body, x_kascade_tenant="kascade-verifier")
    assert direct.status == 200


def test_a_gateway_leads_nowhere_else(row: Row) -> None:
    port = next(iter(row.tenant_gateways.values()))
    for path in ("/v1/responses", "/add_worker", "/flush_cache", "/workers", "/v1/completions/"):
        assert ask(port, path, BODY).status == 404, path
    assert ask(port, "/add_worker?url=http://127.0.0.1:1", b"").status == 404
    assert ask(port, "/v1/completions").status == 403
    assert ask(port, "/v1/models", BODY).status == 403
    assert ask(port, "/v1/models").status == 200


def test_an_answer_streams_through(row: Row) -> None:
    port = next(iter(row.tenant_gateways.values()))
    answer = ask(port, "/v1/completions", {**BODY, "stream": True})
    events = [line for line in answer.text.splitlines() if line.startswith("data: {")]
    assert len(events) == 3
    # The stub sends them a second apart; held back they would come at once.
    assert answer.seconds[-1] - answer.seconds[0] > 1.5


def test_a_body_in_pieces_passes(row: Row) -> None:
    (tenant, port), *_ = row.tenant_gateways.items()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    content = json.dumps({**BODY, "prompt": "x" * 100_000}).encode()
    pieces = [content[:10], content[10:70_000], content[70_000:]]
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/completions", iter(pieces), headers, encode_chunked=True)
    assert json.loads(connection.getresponse().read())["choices"][0]["text"] == tenant
    connection.close()


def test_a_long_body_is_refused(row: Row, plan: Callable[[str], ServingPlan]) -> None:
    (gateway, *_) = plan(CONFIG).tenant_gateways
    port = row.tenant_gateways[gateway.tenant]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Content-Length", str(gateway.max_payload_mib * 1024 * 1024 + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_only_failures_are_logged_and_no_text_of_theirs(row: Row) -> None:
    (tenant, port), *_ = row.tenant_gateways.items()
    ask(port, "/v1/nothing?secret=1", {"prompt": "secret"})
    ask(port, "/v1/completions", BODY)
    log = (row.folders[tenant] / "access.log").read_text()
    assert "/v1/nothing 404" in log
    assert "secret" not in log
    assert " 200 " not in log


def test_a_gateway_that_ends_ends_its_answers_first(row: Row) -> None:
    """The last test: one tenant gateway less. nginx would cut them at SIGTERM."""
    *_, (tenant, port) = row.tenant_gateways.items()
    shell, flag, script = row.pre_stop
    script = script.replace("sleep 5", "sleep 0.1")
    for signal in ("-QUIT", "-0"):
        assert f"{signal} 1" in script
        script = script.replace(f"{signal} 1", f"{signal} {row.pids[tenant]}")
    with ThreadPoolExecutor(max_workers=1) as pool:
        pending = pool.submit(ask, port, "/v1/completions", {**BODY, "stream": True})
        time.sleep(0.5)
        subprocess.run([shell, flag, script], check=True, timeout=60)
        ended = time.monotonic()
        answer = pending.result()
    assert answer.text.rstrip().endswith("data: [DONE]")
    assert answer.seconds[-1] <= ended, "it waits for the end of the answer"
    with pytest.raises(OSError, match="refused"):
        ask(port, "/healthz")
