"""What runs is what was rendered, but for this list."""

from pathlib import Path

from tools.local.pods import pods
from tools.local.substitutions import NOT_STARTED, SUBSTITUTIONS, Place, differences, substituted
from tools.local.system import Deployment

EXPECTED = {
    "tiny-0": [
        "check-gpu: not started",
        "check-cache-gpu: not started",
        "check-cache-mount: not started",
        ("lmcache: /dev/shm/kascade-lmcache-started -> /here/shm/kascade-lmcache-started"),
        "lmcache: --host=127.0.0.1 -> --host=127.88.0.11",
        "lmcache: --http-host=0.0.0.0 -> --http-host=127.88.0.11",
        "lmcache: --server-module: config.directory /mnt/kv -> /here/cache",
        "lmcache: --isolated-ipc left out",
        "lmcache: --l2-adapter: base_path /mnt/kv -> /here/cache",
        (
            "lmcache: --l2-adapter: serde.master_key_path /var/run/kascade/cache-key/key -> "
            "/here/cache-key/key"
        ),
        "lmcache: --supported-transfer-mode=auto added",
        "lmcache: PYTHONPATH=/opt/kascade -> PYTHONPATH=/here",
        "vllm: --host=0.0.0.0 -> --host=127.88.0.11",
        (
            "vllm: --kv-transfer-config: kv_connector_extra_config.lmcache.mp.host "
            "tcp://127.0.0.1 -> tcp://127.88.0.11"
        ),
        "vllm: --kv-transfer-config: kv_connector_extra_config.lmcache.mp.isolated_ipc left out",
        "vllm: --load-format=dummy added",
        "vllm: --enforce-eager added",
        "vllm: http://127.0.0.1:8000 -> http://127.88.0.11:8000",
        "vllm: HF_HOME=/weights -> HF_HOME=/here/weights",
        "vllm: PYTHONPATH=/opt/kascade -> PYTHONPATH=/here",
        "vllm: HF_HUB_OFFLINE=1 added",
        "vllm: VLLM_CPU_KVCACHE_SPACE=1 added",
        "vllm: VLLM_CPU_OMP_THREADS_BIND=nobind added",
        "vllm: OMP_NUM_THREADS=2 added",
    ],
    "tiny-janitor-0": [
        "janitor: --directory=/mnt/kv -> --directory=/here/cache",
        "janitor: --filesystem=fuse left out",
        "janitor: --host=0.0.0.0 -> --host=127.88.0.11",
        "janitor: --api-url=http://127.88.0.1:6443 added",
        "janitor: PYTHONPATH=/opt/kascade -> PYTHONPATH=/here",
    ],
    "tiny-router-0": [
        "router: --host=0.0.0.0 -> --host=127.88.0.11",
        "router: --prometheus-host=0.0.0.0 -> --prometheus-host=127.88.0.11",
        "router: HOME=/tmp -> HOME=/here/tmp",
        "router: KUBECONFIG=/here/kubeconfig added",
    ],
}


def place(volumes: list[str]) -> Place:
    here = Path("/here")
    return Place(
        address="127.88.0.11",
        volumes={name: here / name for name in volumes},
        kubeconfig=here / "kubeconfig",
        api_url="http://127.88.0.1:6443",
        cores=2,
    )


def test_the_list_of_differences_is_this_one(deployment: Deployment) -> None:
    """Every line that is added here is something that the run does not prove."""
    found = {pod.name: pod for pod in pods(deployment.objects) if pod.name in EXPECTED}
    told = {name: differences(pod, place(list(pod.volumes))) for name, pod in found.items()}
    assert told == EXPECTED


def test_every_substitution_is_needed(deployment: Deployment) -> None:
    """One that changes nothing has outlived its reason."""
    changed = set()
    for pod in pods(deployment.objects):
        where = place(list(pod.volumes))
        for container in pod.containers:
            for one in SUBSTITUTIONS:
                if (
                    one.container in (None, container.name)
                    and one.change(container, where) != container
                ):
                    changed.add((one.container, one.name))
    assert changed == {(one.container, one.name) for one in SUBSTITUTIONS}


def test_every_container_but_the_listed_ones_runs(deployment: Deployment) -> None:
    for pod in pods(deployment.objects):
        if pod.name in EXPECTED:
            runs = {container.name for container in substituted(pod, place([])).containers}
            assert runs | set(NOT_STARTED) >= {container.name for container in pod.containers}
            assert not runs & set(NOT_STARTED)
