"""The key that encrypts cached blocks, made inside the cluster.

A key that stands in a manifest stands in the repository, in the CloudFormation template and in its
asset bucket. So a Job draws it and writes the Secret; nobody outside the cluster ever holds it. All
replicas of an engine read the same Secret, and a deleted one merely makes the cache cold.
"""

from __future__ import annotations

from typing import Final, Literal

from constructs import Construct

from kascade.kube._labels import labels, selector
from kascade.kube._objects import Fields, Metadata, add_object, content_hash, pod_template
from kascade.kube._pods import (
    HELPER_RESOURCES,
    NON_ROOT,
    NON_ROOT_POD,
    ON_SYSTEM_NODES,
    field_env,
)
from kascade.kube._policies import add_policy, api_server_egress
from kascade.kube._rbac import account, add_role, add_service_account, rule
from kascade.plan import EnginePlan, NetworkPlan

KEY_FILE: Final = "key"
"""Key of the Secret's data and name of the file in the pod."""

KEY_BITS: Final[Literal[256]] = 256

_BACKOFF_LIMIT: Final = 50
"""Hours of attempts, see the bootstrap Job of Curvine."""

# Raw bytes: LMCache takes the file as it is, and a newline at its end would be part of the key.
# 409 means that somebody else was first, which is as good.
_SCRIPT: Final = """\
import base64, json, os, ssl, sys, urllib.error, urllib.request

account = "/var/run/secrets/kubernetes.io/serviceaccount/"
with open(account + "token") as file:
    token = file.read()
host = os.environ["KUBERNETES_SERVICE_HOST"]
if ":" in host:
    host = "[" + host + "]"
port = os.environ["KUBERNETES_SERVICE_PORT"]
secrets = f"https://{host}:{port}/api/v1/namespaces/{os.environ['NAMESPACE']}/secrets"
trust = ssl.create_default_context(cafile=account + "ca.crt")


def call(url, body=None):
    headers = {"Authorization": "Bearer " + token, "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data=data, headers=headers)
        with urllib.request.urlopen(request, context=trust, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


for name in sys.argv[3:]:
    status = call(secrets + "/" + name)
    if status == 404:
        key = base64.b64encode(os.urandom(int(sys.argv[2]) // 8)).decode()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name},
            "type": "Opaque",
            "immutable": True,
            "data": {sys.argv[1]: key},
        }
        status = call(secrets, secret)
    if status not in (200, 201, 409):
        sys.exit(f"Secret {name}: the API server answered {status}")
    print(f"Secret {name} is there")
"""


class CacheKeys(Construct):
    """The Job that makes the engines' key Secrets where they are absent."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        engines: tuple[EnginePlan, ...],
        image: str,
        network: NetworkPlan,
    ) -> None:
        """Add the Job and its rights, or nothing when no engine encrypts its blocks.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            engines: All engines; those with a key must be in one namespace.
            image: Any image with a Python 3.
            network: Addresses of the VPC, where the API server is.
        """
        super().__init__(scope, construct_id)
        encrypted = [engine for engine in engines if _secret(engine)]
        if not encrypted:
            return
        names = sorted({_secret(engine) for engine in encrypted})
        selecting = selector(name="cache-keys", instance="kascade", component="cache-keys")
        meta = Metadata(
            name="kascade-cache-keys", namespace=encrypted[0].namespace, labels=labels(selecting)
        )
        add_service_account(self, meta=meta)
        add_role(
            self,
            meta=meta,
            rules=[
                rule([""], ["secrets"], ["get"], names),
                # "create" cannot be narrowed to a name: the object does not exist yet.
                rule([""], ["secrets"], ["create"]),
            ],
            subjects=[account(meta)],
        )
        add_policy(
            self,
            meta=meta,
            selecting=selecting,
            ingress=[],
            egress=[api_server_egress(network.vpc_cidrs)],
        )
        pod = _pod(meta.name, image, names)
        add_object(
            self,
            api_version="batch/v1",
            kind="Job",
            meta=meta.named(f"{meta.name}-{content_hash(pod)}"),
            body={
                "spec": {
                    "backoffLimit": _BACKOFF_LIMIT,
                    "template": pod_template(labels(selecting), pod),
                }
            },
        )


def _secret(engine: EnginePlan) -> str:
    l2 = engine.lmcache.l2
    return (l2.key_secret or "") if l2 else ""


def _pod(account_name: str, image: str, names: list[str]) -> Fields:
    return {
        "restartPolicy": "OnFailure",
        "serviceAccountName": account_name,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": NON_ROOT_POD,
        # Engines wait for the key, so it must not wait for a GPU node.
        "affinity": ON_SYSTEM_NODES,
        "containers": [
            {
                "name": "make-keys",
                "image": image,
                "command": ["python3", "-c", _SCRIPT],
                "args": [KEY_FILE, str(KEY_BITS), *names],
                "env": [field_env("NAMESPACE", "metadata.namespace")],
                "resources": HELPER_RESOURCES,
                "securityContext": NON_ROOT,
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
    }
