"""The router in front of one model: PyPI vllm-router 0.1.17, written in Rust."""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import (
    ENGINE_LABEL,
    ROUTER_PORT,
    engine_selector,
    labels,
    router_selector,
    verify_selector,
)
from kascade.kube._objects import Fields, Metadata, add_object, expect, pod_template
from kascade.kube._pods import (
    ENGINE_PRIORITY,
    NON_ROOT,
    NON_ROOT_POD,
    ON_SYSTEM_NODES,
    http_probe,
    plain_env,
    resources,
    spread_widely,
)
from kascade.kube._policies import (
    add_policy,
    api_server_egress,
    egress_to,
    ingress_from,
    labelled,
    pods,
    scrape_ingress,
)
from kascade.kube._rbac import account, add_role, add_service_account, rule
from kascade.plan import NetworkPlan, RouterPlan
from kascade.units import MIB

_API_PORT: Final = "http"

ATTEMPTS: Final = 5
FAILURES: Final = 2
"""Of an engine in a row, until its breaker opens."""

_POLICY_ARGS: Final = {
    # A prompt without a known prefix goes to the least loaded engine, and to the first one as long
    # as loads differ by less than this. With the defaults (64 and 1.5) sixty concurrent requests
    # of unrelated prefixes all stood on one of three engines; with these they split 21/18/21.
    "cache_aware": ["--balance-abs-threshold=4", "--balance-rel-threshold=1.1"],
}

_NOTICE_SECONDS: Final = 5
"""Until the endpoints of the Service no longer list a terminating router."""


class Router(Construct):
    """Deployment, Service, rights and NetworkPolicy of one router.

    It stands on the namespace of its engines, :class:`~kascade.kube.Classes` and nodes outside any
    HyperPod instance group. It answers pods, and all pods of namespaces, that carry the label
    ``kascade.dev/client: "true"``.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, router: RouterPlan, network: NetworkPlan
    ) -> None:
        """Add the router.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            router: The plan's slice.
            network: Addresses of the VPC: of the API server and the collector of metrics.

        Raises:
            KascadeError: A plan is not the one that the argument takes.
        """
        super().__init__(scope, construct_id)
        expect(router=(router, RouterPlan), network=(network, NetworkPlan))
        self._plan = router
        self._selector = router_selector(router.name)
        self._labels = {**labels(self._selector), ENGINE_LABEL: router.engine}
        self._meta = Metadata(name=router.name, namespace=router.namespace, labels=self._labels)
        add_service_account(self, meta=self._meta)
        add_role(
            self,
            meta=self._meta,
            # It lists and watches every pod of the namespace and picks its engines itself.
            rules=[rule([""], ["pods"], ["get", "list", "watch"])],
            subjects=[account(self._meta)],
        )
        self._add_deployment()
        add_object(
            self,
            api_version="v1",
            kind="Service",
            meta=self._meta,
            body={
                "spec": {
                    "type": "ClusterIP",
                    "selector": self._selector,
                    "ports": [
                        {"name": "http", "port": router.port, "targetPort": _API_PORT},
                        # For the verification, which asks what the router did not know. One that
                        # learns prompts has one replica, so there is one page.
                        *(
                            [
                                {
                                    "name": "metrics",
                                    "port": router.metrics_port,
                                    "targetPort": ROUTER_PORT,
                                }
                            ]
                            if router.rendering is not None
                            else []
                        ),
                    ],
                }
            },
        )
        # For one replica a budget would either allow its eviction anyway or block every drain.
        if router.replicas > 1:
            add_object(
                self,
                api_version="policy/v1",
                kind="PodDisruptionBudget",
                meta=self._meta,
                body={"spec": {"maxUnavailable": 1, "selector": {"matchLabels": self._selector}}},
            )
        self._add_policy(network)

    def _add_deployment(self) -> None:
        plan = self._plan
        pod: Fields = {
            "serviceAccountName": self._meta.name,
            # Discovery asks the API server; of all other pods here only the janitors have a token.
            "automountServiceAccountToken": True,
            "enableServiceLinks": False,
            "priorityClassName": ENGINE_PRIORITY,
            # No request lasts longer, so none is cut off.
            "terminationGracePeriodSeconds": plan.request_timeout_seconds + _NOTICE_SECONDS,
            "securityContext": NON_ROOT_POD,
            "affinity": ON_SYSTEM_NODES,
            "topologySpreadConstraints": spread_widely(self._selector, zones=plan.spread_zones),
            "containers": [
                {
                    "name": "router",
                    "image": plan.image,
                    "command": ["vllm-router"],
                    "args": router_args(plan),
                    "env": plain_env({"PYTHONHASHSEED": "0", "HOME": "/tmp"}),  # noqa: S108
                    "ports": [
                        {"name": _API_PORT, "containerPort": plan.port},
                        {"name": ROUTER_PORT, "containerPort": plan.metrics_port},
                    ],
                    # Ready means that it knows a healthy engine.
                    "readinessProbe": http_probe("/readiness", _API_PORT, period=2, failures=3),
                    "livenessProbe": http_probe("/liveness", _API_PORT, period=10, failures=3),
                    "lifecycle": {"preStop": {"sleep": {"seconds": _NOTICE_SECONDS}}},
                    "resources": resources(plan.size),
                    "securityContext": NON_ROOT,
                    "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
                }
            ],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
        }
        add_object(
            self,
            api_version="apps/v1",
            kind="Deployment",
            meta=self._meta,
            body={
                "spec": {
                    "replicas": plan.replicas,
                    "selector": {"matchLabels": self._selector},
                    "strategy": {
                        "type": "RollingUpdate",
                        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
                    },
                    "template": pod_template(self._labels, pod),
                }
            },
        )

    def _add_policy(self, network: NetworkPlan) -> None:
        plan = self._plan
        add_policy(
            self,
            meta=self._meta,
            selecting=self._selector,
            ingress=[
                # /add_worker, /remove_worker and /flush_cache share the API's port and ask for no
                # login: whoever may send a prompt may also redirect everybody's. So clients are
                # let in by label only, and never the VPC as a whole.
                ingress_from(_clients(plan), plan.port),
                *scrape_ingress(network.collector_cidrs, plan.metrics_port),
                *(
                    [ingress_from([pods(verify_selector(plan.engine))], plan.metrics_port)]
                    if plan.rendering is not None
                    else []
                ),
            ],
            egress=[
                egress_to([pods(engine_selector(plan.engine))], plan.engine_port),
                api_server_egress(network.vpc_cidrs),
            ],
        )


def _clients(plan: RouterPlan) -> list[Fields]:
    """Who may send requests: any client, the one tenant's, or the gateways of all tenants."""
    # Where all share, the verification is a client like others.
    verification = [] if plan.tenancy is None else [pods(verify_selector(plan.engine))]
    if plan.client_label is None:
        return [
            pods({"app.kubernetes.io/component": "tenant-gateway", ENGINE_LABEL: plan.engine}),
            *verification,
        ]
    return [*labelled(plan.client_label), *verification]


def router_args(plan: RouterPlan) -> list[str]:
    """Arguments of ``vllm-router`` (names and defaults: its ``router_args.py``)."""
    selecting = [f"{key}={value}" for key, value in engine_selector(plan.engine).items()]
    return [
        "--host=0.0.0.0",
        f"--port={plan.port}",
        f"--policy={plan.policy}",
        *_POLICY_ARGS.get(plan.policy, []),
        "--service-discovery",
        "--selector",
        *selecting,
        f"--service-discovery-port={plan.engine_port}",
        # Without it the router watches the whole cluster, which its Role does not allow.
        f"--service-discovery-namespace={plan.namespace}",
        # The default, 127.0.0.1, is out of the collector's reach.
        "--prometheus-host=0.0.0.0",
        f"--prometheus-port={plan.metrics_port}",
        # Of these five attempts, all by affinity go to an engine that has died, until its breaker
        # opens or health checks find it out; so the breaker opens after fewer. Measured: none lost
        # of 160 requests at one a second, where with the default (10) half of the first were.
        f"--retry-max-retries={ATTEMPTS}",
        f"--cb-failure-threshold={FAILURES}",
        # A request that every engine answers with 500 opens every breaker. Attempts of others
        # outlast that: 160 + 240 + 360 + 540 ms (20 % more or less) is longer than it takes a
        # breaker to let the next one through. With 50 ms and 3 s half of all others were lost.
        "--retry-initial-backoff-ms=160",
        "--cb-timeout-duration-secs=1",
        # With the default (60 s) an engine that came back got no request for a minute; with
        # these it was in use after one second. Two failures: one slow answer is no outage. With
        # cache_aware a frozen engine holds every request up until it is found out.
        "--health-check-interval-secs=1",
        "--health-check-timeout-secs=3",
        "--health-failure-threshold=2",
        # The only limit on a request that the program knows, of its first token, of silence and of
        # the whole: past it a stream is cut in the middle, and what does not stream is tried again.
        f"--request-timeout-secs={plan.request_timeout_seconds}",
        f"--max-payload-size={plan.max_payload_mib * MIB}",
        f"--max-concurrent-requests={plan.max_concurrent_requests}",
        # At "info" two of the policies wrote tens of MB within minutes.
        "--log-level=warning",
    ]
