"""One model whose pods HyperPod's inference operator makes: what it is asked for, and around it.

Fields are those of the CRD of operator 3.2. The operator checks rules across fields itself; those
that are known are kept here or rejected by the configuration's checks.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.catalog.operator import OPERATOR_NAMESPACE
from kascade.kube._labels import ENGINE_LABEL, GPU_RESOURCE, OPERATOR_PORT, engine_selector, labels
from kascade.kube._objects import Fields, Metadata, add_object
from kascade.kube._pods import resources
from kascade.kube._policies import add_policy, ingress_from, internet_egress, scrape_ingress
from kascade.kube._rbac import add_service_account
from kascade.kube.admission import CascadeAdmission, operator_selector
from kascade.kube.l2.attachment import attach
from kascade.kube.vllm import engine_env, model_args, probes
from kascade.kube.weights import TOKEN_KEY, weights_mount, weights_volume, working_directory
from kascade.plan import AdmissionPlan, EnginePlan, NetworkPlan, OperatorPlan

_USER_ASSIGNABLE: Final = "sagemaker.amazonaws.com/user-assignable"
"""Without this label on a ServiceAccount the operator gives it to no pod (reported: developer
guide, deployment with kubectl)."""


class InferenceEndpoint(Construct):
    """InferenceEndpointConfig, admission policies, disruption budget and NetworkPolicy."""

    def __init__(  # noqa: PLR0913 - four of its own, keyword-only
        self,
        scope: Construct,
        construct_id: str,
        *,
        engine: EnginePlan,
        operator: OperatorPlan,
        admission: AdmissionPlan,
        network: NetworkPlan,
    ) -> None:
        """Add what one model needs.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            engine: The plan's slice.
            operator: What the operator is asked for.
            admission: Who puts the cache into its pods.
            network: Addresses of the VPC, where the collector of metrics comes from.
        """
        super().__init__(scope, construct_id)
        written = {**labels(engine_selector(engine.name)), ENGINE_LABEL: engine.name}
        meta = Metadata(name=engine.name, namespace=engine.namespace, labels=written)
        l2 = attach(engine, network)
        CascadeAdmission(self, "Admission", engine=engine, l2=l2, admission=admission)
        add_service_account(
            self,
            meta=Metadata(
                name=engine.name,
                namespace=engine.namespace,
                labels={**written, _USER_ASSIGNABLE: "true"},
            ),
        )
        add_object(
            self,
            api_version="inference.sagemaker.aws.amazon.com/v1",
            kind="InferenceEndpointConfig",
            meta=meta,
            body={"spec": endpoint(engine, operator)},
        )
        selecting = operator_selector(engine)
        add_object(
            self,
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            meta=meta,
            body={"spec": {"maxUnavailable": 1, "selector": {"matchLabels": selecting}}},
        )
        add_policy(
            self,
            meta=meta,
            # By the operator's own label: these rules must not depend on the admission policies.
            selecting=selecting,
            ingress=[
                # Its routers live there, and its load balancer sends to them. Which of the two
                # ports they use is not published.
                ingress_from(
                    [
                        {
                            "namespaceSelector": {
                                "matchLabels": {"kubernetes.io/metadata.name": OPERATOR_NAMESPACE}
                            }
                        }
                    ],
                    engine.port,
                    operator.proxy_port,
                ),
                *scrape_ingress(network.collector_cidrs, engine.port, engine.lmcache.http_port),
            ],
            # Weights, and what the operator's own collector sends.
            egress=[internet_egress(network.vpc_cidrs), *(() if l2 is None else l2.egress)],
        )


def endpoint(engine: EnginePlan, operator: OperatorPlan) -> Fields:
    """Specification of the InferenceEndpointConfig."""
    spec: dict[str, object] = {
        "modelName": engine.name,
        "replicas": engine.replicas,
        # The group's own nodes are chosen at admission; the three ways to name nodes exclude one
        # another here.
        "instanceType": engine.instance_type,
        "invocationEndpoint": operator.invocation_path,
        "maxDeployTimeInSeconds": operator.max_deploy_seconds,
        "modelSourceConfig": _source(engine),
        "worker": _worker(engine),
        # Both would give vLLM a connector and variables of the operator's own.
        "kvCacheSpec": {"enableL1Cache": False, "enableL2Cache": False},
        # It cannot be switched on later.
        "intelligentRoutingSpec": {"enabled": True, "routingStrategy": operator.strategy},
        # vLLM has no /ping, the default.
        "loadBalancer": {"healthCheckPath": "/health"},
        "metrics": {
            "enabled": True,
            # The default port is 8080, where LMCache's server listens.
            "modelMetrics": {"path": "/metrics", "port": engine.port},
        },
        "kubernetes": _kubernetes(engine),
    }
    if operator.endpoint_name:
        spec["endpointName"] = operator.endpoint_name
    if tls := _tls(operator):
        spec["tlsConfig"] = tls
    return spec


def _source(engine: EnginePlan) -> Fields:
    """Weights from Hugging Face, or from a claim that the worker mounts.

    The operator leaves the download to vLLM (reported: awslabs/ai-on-sagemaker-hyperpod), so the
    worker is given the token as well. A bucket is mounted as in our own pods and not by the
    operator, whose path for it would be another model in the cache's keys.
    """
    if engine.mounted_weights is not None:
        return {"modelSourceType": "kubernetesVolume"}
    model: dict[str, object] = {"modelId": engine.model}
    if engine.revision is not None:
        model["commitSHA"] = engine.revision
    if engine.huggingface_secret is not None:
        model["tokenSecretRef"] = {"name": engine.huggingface_secret, "key": TOKEN_KEY}
    return {"modelSourceType": "huggingface", "huggingFaceModel": model}


def _worker(engine: EnginePlan) -> Fields:
    return {
        "image": engine.image,
        "command": ["vllm", "serve"],
        # The argument that reaches for an LMCache server comes with the server, at admission: a pod
        # that got neither serves without a cache, and an alert says so.
        "args": model_args(engine),
        "environmentVariables": engine_env(engine),
        "modelInvocationPort": {"containerPort": engine.port, "name": OPERATOR_PORT},
        **working_directory(engine),
        "modelVolumeMount": _model_mount(engine),
        "probes": probes(engine, OPERATOR_PORT),
        "resources": resources(engine.size, {GPU_RESOURCE: engine.gpus}),
    }


def _model_mount(engine: EnginePlan) -> Fields:
    """The one volume that the endpoint lets the worker mount, by name and path alone."""
    if engine.mounted_weights is None:
        # Required; with weights from Hugging Face nothing is put there.
        return {"name": "model", "mountPath": "/opt/ml/model"}
    mount = weights_mount(engine)
    return {"name": mount["name"], "mountPath": mount["mountPath"]}


def _kubernetes(engine: EnginePlan) -> Fields:
    account = {"serviceAccountName": engine.name}
    if engine.mounted_weights is None:
        return account
    return {**account, "volumes": [weights_volume(engine)]}


def _tls(operator: OperatorPlan) -> Fields:
    tls: dict[str, object] = {}
    if operator.certificate_output is not None:
        tls["tlsCertificateOutputS3Uri"] = operator.certificate_output
    if operator.certificate_arn is not None:
        tls["customCertificateConfig"] = {
            "acmArn": operator.certificate_arn,
            "domainName": operator.certificate_domain,
        }
    return tls
