"""Do the rendered programs agree? Read back from their arguments, not from the plan.

vLLM, its LMCache server, the router and the verification must say the same of a dozen things, and
none of them rejects what another one says otherwise: the cache then misses for ever, or answers
wrongly, and every probe is green. The plan says each thing once; this is the check that what was
made of it still does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from kascade.errors import KascadeError
from kascade.kube._labels import (
    ENGINE_LABEL,
    GPU_RESOURCE,
    LMCACHE_PORT,
    ROUTER_PORT,
    VLLM_PORT,
)
from kascade.kube._pods import SHM_VOLUME
from kascade.kube._programs import Object, Program, of_component, pod_spec, programs
from kascade.kube.cache_program import MODULE
from kascade.kube.engine_program import (
    CHECK_CACHE_GPU,
    CHECK_GPU,
    GPUS_FILE,
    HEALTH_ARG,
    PROGRAM_VOLUME,
)
from kascade.kube.l2.attachment import CACHE_VOLUME
from kascade.kube.limits import LIMITS_MIDDLEWARE, SCALE_OUT
from kascade.kube.tenancy import MIDDLEWARE
from kascade.sizing.routing import RENDERING
from kascade.sizing.weights import short_hash

_REAP_SECONDS: Final = 120
"""LMCache's default of ``--worker-reap-timeout-seconds``."""

_GRACE_SECONDS: Final = 3600
"""LMCache's default of ``--worker-registration-grace-seconds``."""

_LONGEST_IDLE_SECONDS: Final = 365 * 86_400
"""Longer than any engine lives."""

_HEARTBEATS: Final = 3
"""LMCache's own rule: a server that forgets an engine sooner loses it between two of them."""

_DEFAULT_POLICY: Final = "cache_aware"
_DEFAULT_ATTEMPTS: Final = 5
_DEFAULT_FAILURES: Final = 10
"""Of vllm-router."""

_DIRECTORY: Final = re.compile(
    r"/(?P<model>[^/]+?)-(?P<weights>[^-/]+)(-(?P<quantization>fp8))?"
    r"/(?P<dtype>[a-z0-9_]+)-tp(?P<gpus>[0-9]+)-c(?P<chunk>[0-9]+)-(?P<hash>[a-z0-9_]+)"
    r"-(?P<seal>[a-z0-9]+)-(?P<image>[0-9a-f]+)$"
)
"""The end of a directory in the pool (``sizing.l2``); what may stand before it is free."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one place says of a thing."""

    thing: str
    place: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """Everything that serves one model, as rendered.

    Attributes:
        router: None where no router stands in front of it.
        verify: None without an L2.
        directory: Directory of the pool or of a claim that its L2 lies in, or None.
    """

    name: str
    deployment: Object
    vllm: Program
    lmcache: Program
    guard: Program | None
    router: Program | None
    router_name: str
    verify: Program | None
    directory: str | None

    @property
    def adapter(self) -> Object:
        """The L2 of its LMCache server; empty without."""
        return self.lmcache.document("--l2-adapter")

    @property
    def connector(self) -> Object:
        """What vLLM's connector was told."""
        found: Object = self.vllm.document("--kv-transfer-config").get(
            "kv_connector_extra_config", {}
        )
        return found


def check_agreement(objects: Sequence[Object]) -> None:
    """Reject a deployment whose programs contradict each other.

    Args:
        objects: Everything that is rendered.

    Raises:
        KascadeError: With one sentence for each disagreement.
    """
    found = disagreements(objects)
    if found:
        lines = "\n".join(f"  {sentence}." for sentence in found)
        msg = f"what is rendered contradicts itself, so nothing is written:\n{lines}"
        raise KascadeError(msg)


def disagreements(objects: Sequence[Object]) -> list[str]:
    """Return one sentence for each disagreement.

    Args:
        objects: Everything that is rendered.
    """
    everything = list(read_serving(list(objects)))
    found = [sentence for serving in everything for sentence in _in_one(serving)]
    owners: dict[str, str] = {}
    for serving in everything:
        if serving.directory is None:
            continue
        other = owners.setdefault(serving.directory, serving.name)
        if other != serving.name:
            found.append(
                f"{other} and {serving.name} keep their blocks in one directory, "
                f"{serving.directory}; each model needs its own"
            )
    return found


def read_serving(objects: list[Object]) -> Iterator[Serving]:
    """Gather what belongs to each engine."""
    claims = {
        item["metadata"]["name"]: item["spec"].get("volumeName", "")
        for item in objects
        if item["kind"] == "PersistentVolumeClaim"
    }
    directories = {
        item["metadata"]["name"]: item["spec"]["csi"]["volumeAttributes"].get("curvine-path")
        for item in objects
        if item["kind"] == "PersistentVolume"
    }
    for deployment in of_component(objects, "Deployment", "engine"):
        name = deployment["metadata"]["name"]
        own = programs(deployment)
        claim = next(
            (
                volume["persistentVolumeClaim"]["claimName"]
                for volume in pod_spec(deployment)["volumes"]
                if volume["name"] == CACHE_VOLUME and "persistentVolumeClaim" in volume
            ),
            "",
        )
        router = _of_engine(of_component(objects, "Deployment", "router"), name)
        verify = _of_engine(of_component(objects, "CronJob", "verify"), name)
        yield Serving(
            name=name,
            deployment=deployment,
            vllm=own["vllm"],
            lmcache=own["lmcache"],
            guard=own.get("check-cache-mount"),
            router=None if router is None else programs(router)["router"],
            router_name="" if router is None else router["metadata"]["name"],
            verify=None if verify is None else programs(verify)["verify"],
            directory=directories.get(claims.get(claim, ""))
            or own["lmcache"].part_of(CACHE_VOLUME),
        )


def _of_engine(items: Iterator[Object], engine: str) -> Object | None:
    return next((i for i in items if i["metadata"]["labels"].get(ENGINE_LABEL) == engine), None)


def _in_one(serving: Serving) -> Iterator[str]:
    told: dict[str, list[Said]] = {}
    for said in _statements(serving):
        told.setdefault(said.thing, []).append(said)
    for thing, places in told.items():
        first = places[0]
        for other in places[1:]:
            if other.value != first.value:
                yield (
                    f"{serving.name}: {thing} is {first.value or 'not said'} by {first.place} and "
                    f"{other.value or 'not said'} by {other.place}; both must say the same"
                )
    yield from _rules(serving)


# --- what must be said alike ------------------------------------------------------------------


def _statements(serving: Serving) -> Iterator[Said]:
    yield from _of_the_pod(serving)
    yield from _of_the_directory(serving)
    yield from _of_the_router(serving)
    yield from _of_the_verification(serving)


def _of_the_pod(serving: Serving) -> Iterator[Said]:
    vllm, lmcache, connector = serving.vllm, serving.lmcache, serving.connector
    limits = vllm.container["resources"]["limits"]
    key = "vLLM's lmcache.mp"
    yield Said("the model", "vLLM", vllm.words[0] if vllm.words else "")
    yield Said("the model", "vLLM's --served-model-name", vllm.flag("--served-model-name"))
    mounted = vllm.mount("weights")
    if (base := vllm.container.get("workingDir")) is not None:
        yield Said("the model", "the mount of its weights", mounted.removeprefix(f"{base}/"))
    yield Said("the image", "vLLM", vllm.image)
    yield Said("the image", "the LMCache server", lmcache.image)
    yield Said("the hash seed", "vLLM's PYTHONHASHSEED", vllm.env("PYTHONHASHSEED"))
    yield Said("the hash seed", "the LMCache server's", lmcache.env("PYTHONHASHSEED"))
    yield Said("the number of GPUs", "vLLM", vllm.flag("--tensor-parallel-size"))
    yield Said("the number of GPUs", "its resource limit", str(limits.get(GPU_RESOURCE, "")))
    yield Said("the number of GPUs", "LMCache's --max-workers", lmcache.flag("--max-workers"))
    yield Said("the address of the cache", f"{key}.host", _host(connector))
    yield Said("the address of the cache", "LMCache's --host", lmcache.flag("--host"))
    yield Said("the port of the cache", f"{key}.port", str(connector.get("lmcache.mp.port", "")))
    yield Said("the port of the cache", "LMCache's --port", lmcache.flag("--port"))
    algorithm = str(connector.get("lmcache.mp.hash_algorithm", ""))
    yield Said("the hash algorithm", f"{key}.hash_algorithm", algorithm)
    yield Said("the hash algorithm", "LMCache", lmcache.flag("--hash-algorithm"))
    isolated = str(bool(connector.get("lmcache.mp.isolated_ipc")))
    yield Said("isolated IPC", f"{key}.isolated_ipc", isolated)
    yield Said("isolated IPC", "LMCache", str(lmcache.switch("--isolated-ipc")))
    yield Said("the place of shared memory", "vLLM", vllm.mount(SHM_VOLUME))
    yield Said("the place of shared memory", "LMCache", lmcache.mount(SHM_VOLUME))
    yield Said("vLLM's port", "--port", vllm.flag("--port"))
    yield Said("vLLM's port", "its container port", vllm.port(VLLM_PORT))
    yield Said("LMCache's HTTP port", "--http-port", lmcache.flag("--http-port"))
    yield Said("LMCache's HTTP port", "its container port", lmcache.port(LMCACHE_PORT))


def _host(connector: Object) -> str:
    return str(connector.get("lmcache.mp.host", "")).removeprefix("tcp://")


def _of_the_directory(serving: Serving) -> Iterator[Said]:
    """Whatever makes two caches incompatible stands in the name of their directory."""
    vllm, lmcache, adapter = serving.vllm, serving.lmcache, serving.adapter
    if serving.guard is not None:
        yield Said("the image", "the guard of the cache", serving.guard.image)
        # Of managed storage it proves one file.
        proven = (
            serving.guard.words[0] if _has_files(serving) else serving.guard.mount(CACHE_VOLUME)
        )
        yield Said("the cache's mount", "the guard", proven)
        yield Said("the cache's mount", "LMCache's volume", lmcache.mount(CACHE_VOLUME))
    if _has_files(serving):
        told = lmcache.document("--server-module").get("config", {}).get("directory", "")
        yield Said("the folder of blocks", "LMCache's base_path", adapter.get("base_path", ""))
        yield Said("the folder of blocks", "the module in LMCache's server", told)
    named = _DIRECTORY.search(serving.directory or "")
    if named is None:
        return
    place = f"the directory {serving.directory}"
    kind = vllm.flag("--kv-cache-dtype", "auto")
    serde = adapter.get("serde", {}).get("type", "none")
    yield Said("the model", place, named["model"].replace("--", "/"))
    yield Said("the KV dtype", "vLLM", vllm.flag("--dtype") if kind == "auto" else kind)
    yield Said("the KV dtype", place, named["dtype"])
    yield Said("the quantization", "vLLM", vllm.flag("--quantization"))
    yield Said("the quantization", place, named["quantization"] or "")
    if vllm.container.get("workingDir") is None:
        yield Said("the revision", "vLLM", vllm.flag("--revision", "main")[:7])
        yield Said("the revision", place, named["weights"])
    yield Said("the number of GPUs", place, named["gpus"])
    yield Said("the chunk size", "LMCache", lmcache.flag("--chunk-size"))
    yield Said("the chunk size", place, named["chunk"])
    yield Said("the hash algorithm", place, named["hash"])
    yield Said("the seal of blocks", "LMCache", serde)
    yield Said("the seal of blocks", place, named["seal"])
    yield Said("the hash of the image", "LMCache's image", short_hash(lmcache.image))
    yield Said("the hash of the image", place, named["image"])


def _of_the_router(serving: Serving) -> Iterator[Said]:
    router = serving.router
    if router is None:
        return
    namespace = serving.deployment["metadata"]["namespace"]
    asked = router.flag("--service-discovery-port")
    yield Said("the namespace", "the engine", namespace)
    yield Said("the namespace", "the router", router.flag("--service-discovery-namespace"))
    yield Said("vLLM's port", "the router's --service-discovery-port", asked)
    yield Said("the hash seed", "the router's", router.env("PYTHONHASHSEED"))
    yield Said("the router's port", "--port", router.flag("--port"))
    yield Said("the router's port", "its container port", router.port("http"))
    yield Said("the router's metrics port", "--prometheus-port", router.flag("--prometheus-port"))
    yield Said("the router's metrics port", "its container port", router.port(ROUTER_PORT))


def _of_the_verification(serving: Serving) -> Iterator[Said]:
    verify = serving.verify
    if verify is None:
        return
    chunk = serving.lmcache.flag("--chunk-size")
    yield Said("the model", "verify", verify.flag("--model"))
    yield Said("the chunk size", "LMCache", chunk)
    yield Said("the chunk size", "verify", verify.flag("--chunk-size"))
    yield Said("vLLM's port", "verify", verify.flag("--engine-port"))
    yield Said("LMCache's HTTP port", "verify", verify.flag("--lmcache-port"))
    if serving.router is None:
        return
    address = urlsplit(verify.flag("--router-url"))
    yield Said("the router's name", "its Deployment", serving.router_name)
    yield Said("the router's name", "verify", address.hostname or "")
    yield Said("the router's port", "verify", str(address.port or ""))
    if metrics := verify.flag("--router-metrics-url"):
        asked = str(urlsplit(metrics).port or "")
        yield Said("the router's metrics port", "verify", asked)
    yield Said("the router's policy", "the router", serving.router.flag("--policy"))
    yield Said("the router's policy", "verify", verify.flag("--router-policy"))


# --- what must fit together -------------------------------------------------------------------


def _rules(serving: Serving) -> Iterator[str]:
    vllm, lmcache, name = serving.vllm, serving.lmcache, serving.name
    chunk, block = _number(lmcache.flag("--chunk-size")), _number(vllm.flag("--block-size"))
    if not chunk or not block or chunk % block:
        yield (
            f"{name}: LMCache's chunk of {chunk} tokens is no multiple of vLLM's block of {block}, "
            "so vLLM does not start"
        )
    if "@" in "".join(vllm.words[:1]):
        yield f"{name}: the model's name holds an @, which separates the parts of a cache key"
    yield from _of_the_registration(serving)
    hashing = vllm.flag("--prefix-caching-hash-algo")
    if not hashing.startswith("sha256") and not vllm.env("PYTHONHASHSEED"):
        yield f"{name}: {hashing or 'the default hash'} differs in every process without a seed"
    yield from _of_the_end(serving)
    yield from _of_the_gpus(serving)
    yield from _of_rendering(serving)
    if serving.router is not None:
        yield from _of_attempts(name, serving.router)
        labels = serving.deployment["spec"]["template"]["metadata"]["labels"]
        for pair in serving.router.after("--selector"):
            key, _, value = pair.partition("=")
            if labels.get(key) != value:
                yield (
                    f"{name}: the router looks for pods with {pair}, but the engine's have "
                    f"{key}={labels.get(key, '')}"
                )
    if _has_files(serving):
        yield from _of_the_adapter(serving)


def _of_the_registration(serving: Serving) -> Iterator[str]:
    """An engine that the server forgets is never taken back."""
    lmcache, connector, name = serving.lmcache, serving.connector, serving.name
    heartbeat = float(connector.get("lmcache.mp.heartbeat_interval", 10))
    reap = _number(lmcache.flag("--worker-reap-timeout-seconds", str(_REAP_SECONDS)))
    if reap and _HEARTBEATS * heartbeat > reap:
        yield (
            f"{name}: LMCache forgets an engine after {reap} s, less than {_HEARTBEATS} of vLLM's "
            f"heartbeats of {heartbeat:g} s"
        )
    grace = _number(lmcache.flag("--worker-registration-grace-seconds", str(_GRACE_SECONDS)))
    if reap and grace < _LONGEST_IDLE_SECONDS:
        yield (
            f"{name}: LMCache forgets an engine that has stored nothing for {grace} s and never "
            "takes it back; give --worker-registration-grace-seconds at least "
            f"{_LONGEST_IDLE_SECONDS}"
        )
    if lmcache.document("--server-module").get("module_path") != MODULE:
        yield (
            f"{name}: LMCache's server is not given the module {MODULE} by --server-module, so a "
            "block that cannot be opened stays a hit and nothing counts registered engines"
        )


def _of_the_end(serving: Serving) -> Iterator[str]:
    """Nothing that the router waits for may be cut by the end of the pod that answers it."""
    name, vllm = serving.name, serving.vllm
    hook = vllm.container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
    notice, drain = (int(word) for word in hook[-2:]) if len(hook) > 1 else (0, 0)
    grace = int(pod_spec(serving.deployment).get("terminationGracePeriodSeconds", 30))
    shutdown = _number(vllm.flag("--shutdown-timeout", "0"))
    if drain + shutdown > grace:
        yield (
            f"{name}: its pod has {grace} s to end, less than the {drain} s of its drain and the "
            f"{shutdown} s of vLLM's --shutdown-timeout"
        )
    if serving.router is not None:
        longest = _number(serving.router.flag("--request-timeout-secs"))
        if drain < notice + longest:
            yield (
                f"{name}: its drain ends after {drain} s, but {notice} s pass until the router "
                f"sends no more, and a request may take {longest} s"
            )
    if HEALTH_ARG not in vllm.words:
        yield f"{name}: vLLM answers /health although its core hangs, without {HEALTH_ARG}"
    elif not vllm.mount(PROGRAM_VOLUME).startswith(f"{vllm.env('PYTHONPATH') or '?'}/"):
        yield f"{name}: {HEALTH_ARG} is not where vLLM's PYTHONPATH leads, so vLLM does not start"


def _of_the_gpus(serving: Serving) -> Iterator[str]:
    """The server is limited to the GPUs that were proved to be the engine's."""
    every = programs(serving.deployment)
    gpus = serving.vllm.flag("--tensor-parallel-size")
    taken = every[CHECK_GPU].words if CHECK_GPU in every else []
    found = every[CHECK_CACHE_GPU].words if CHECK_CACHE_GPU in every else []
    if taken != ["take", gpus, GPUS_FILE] or found != ["find", GPUS_FILE]:
        yield (
            f"{serving.name}: {CHECK_GPU} and {CHECK_CACHE_GPU} have to write the {gpus} GPUs of "
            f"the engine to {GPUS_FILE} and to look for them; they are told {taken} and {found}"
        )
    started = " ".join(serving.lmcache.container.get("command", []))
    if f"CUDA_VISIBLE_DEVICES=$(cat {GPUS_FILE})" not in started:
        yield (
            f"{serving.name}: its LMCache server is not limited to the GPUs in {GPUS_FILE}, so "
            "the servers of a node all take memory of its first GPU"
        )


def _of_rendering(serving: Serving) -> Iterator[str]:
    """A router that asks for tokens and an engine that rejects fail without a word."""
    vllm, router, name = serving.vllm, serving.router, serving.name
    policy = "" if router is None else router.flag("--policy", _DEFAULT_POLICY)
    opened = vllm.switch(SCALE_OUT)
    if policy in RENDERING and not opened:
        yield (
            f"{name}: the router's policy {policy} asks its engines to render each prompt, and "
            f"vLLM without {SCALE_OUT} answers 403, so no prefix of a text is ever found"
        )
    if opened and policy not in RENDERING:
        why = f"the router's policy {policy} renders nothing" if policy else "no router asks it"
        yield f"{name}: vLLM has {SCALE_OUT}, which opens paths, and {why}; leave it out"
    closing = {LIMITS_MIDDLEWARE, MIDDLEWARE}
    if opened and not closing & set(vllm.flags("--middleware")):
        yield (
            f"{name}: vLLM has {SCALE_OUT} and no --middleware of {' or '.join(sorted(closing))}, "
            "so whoever may ask the router may also end the requests of others"
        )


def _of_attempts(name: str, router: Program) -> Iterator[str]:
    attempts = _number(router.flag("--retry-max-retries", str(_DEFAULT_ATTEMPTS)))
    failures = _number(router.flag("--cb-failure-threshold", str(_DEFAULT_FAILURES)))
    if failures >= attempts:
        yield (
            f"{name}: the router tries a request {attempts} times and stops asking an engine after "
            f"{failures} failures, so all attempts may go to one that has died; lower "
            f"--cb-failure-threshold below {attempts}"
        )


def _has_files(serving: Serving) -> bool:
    return bool(serving.adapter.get("type") == "fs_native")


def _of_the_adapter(serving: Serving) -> Iterator[str]:
    adapter, lmcache, name = serving.adapter, serving.lmcache, serving.name
    temporary = str(adapter.get("relative_tmp_dir", ""))
    base, mount = str(adapter.get("base_path", "")), lmcache.mount(CACHE_VOLUME)
    if "$(POD_NAME)" not in temporary or lmcache.field("POD_NAME") != "metadata.name":
        yield (
            f"{name}: relative_tmp_dir is {temporary!r}, the same in every pod, so two replicas "
            "would write one file; it must hold $(POD_NAME), taken from metadata.name"
        )
    if "/" in temporary or temporary.startswith(".."):
        yield f"{name}: relative_tmp_dir is {temporary!r}; it must be one level below base_path"
    if not mount or (base != mount and not base.startswith(f"{mount}/")):
        yield (
            f"{name}: base_path {base!r} is not on the cache's mount {mount!r}, so nothing would "
            "be shared"
        )
    if adapter.get("max_capacity_gb") and not adapter.get("eviction"):
        yield f"{name}: max_capacity_gb bounds nothing without an eviction block"
    if serving.directory is None:
        yield f"{name}: its L2 has no volume whose directory says what the blocks are"
    elif _DIRECTORY.search(serving.directory) is None:
        yield (
            f"{name}: the directory {serving.directory} does not say model, weights, dtype, GPUs, "
            "chunk, hash, seal and image, so two caches that do not fit could share it"
        )


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
