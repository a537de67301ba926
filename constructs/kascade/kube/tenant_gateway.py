"""One tenant's gateway: nginx in front of the router, which says whose a request is.

It sets the tenant's header over whatever the client sent, and lets two paths through. The router's
other paths, of which some redirect everybody's requests, are out of a tenant's reach.
"""

from __future__ import annotations

from typing import Final

from constructs import Construct

from kascade.kube._labels import (
    CONFIG_HASH_ANNOTATION,
    ENGINE_LABEL,
    gateway_selector,
    labels,
    router_selector,
)
from kascade.kube._objects import Fields, Metadata, add_object, content_hash, pod_template
from kascade.kube._pods import (
    ENGINE_PRIORITY,
    NON_ROOT,
    NON_ROOT_POD,
    ON_SYSTEM_NODES,
    http_probe,
    resources,
    spread,
)
from kascade.kube._policies import add_policy, egress_to, ingress_from, labelled, pods
from kascade.plan import TenantGatewayPlan

_API_PORT: Final = "http"
_CONFIG_FILE: Final = "nginx.conf"
_CONFIG_MOUNT: Final = "/etc/kascade"
_HEALTH: Final = "/healthz"

_NOTICE_SECONDS: Final = 5
"""Until the endpoints of the Service no longer list a terminating tenant gateway."""

_PRE_STOP: Final = (
    f"sleep {_NOTICE_SECONDS}; kill -QUIT 1; while kill -0 1 2>/dev/null; do sleep 1; done"
)
"""nginx ends its answers at SIGQUIT alone; SIGTERM cuts them, and which of the two a container gets
is the image's to say."""


class TenantGateway(Construct):
    """Deployment, Service, configuration, disruption budget and NetworkPolicy of one gateway."""

    def __init__(self, scope: Construct, construct_id: str, *, gateway: TenantGatewayPlan) -> None:
        """Add the tenant gateway.

        Args:
            scope: Parent construct.
            construct_id: Id below the parent.
            gateway: The plan's slice.
        """
        super().__init__(scope, construct_id)
        self._plan = gateway
        self._selector = gateway_selector(gateway.name)
        self._labels = {**labels(self._selector), ENGINE_LABEL: gateway.engine}
        self._meta = Metadata(name=gateway.name, namespace=gateway.namespace, labels=self._labels)
        data = {_CONFIG_FILE: nginx_config(gateway)}
        add_object(self, api_version="v1", kind="ConfigMap", meta=self._meta, body={"data": data})
        self._add_deployment(content_hash(data))
        add_object(
            self,
            api_version="v1",
            kind="Service",
            meta=self._meta,
            body={
                "spec": {
                    "type": "ClusterIP",
                    "selector": self._selector,
                    "ports": [{"name": "http", "port": gateway.port, "targetPort": _API_PORT}],
                }
            },
        )
        add_object(
            self,
            api_version="policy/v1",
            kind="PodDisruptionBudget",
            meta=self._meta,
            body={"spec": {"maxUnavailable": 1, "selector": {"matchLabels": self._selector}}},
        )
        add_policy(
            self,
            meta=self._meta,
            selecting=self._selector,
            # Who comes in here is this tenant, so nobody may but whom the tenant's label names.
            ingress=[ingress_from(labelled(gateway.client_label), gateway.port)],
            egress=[egress_to([pods(router_selector(gateway.router))], gateway.router_port)],
        )

    def _add_deployment(self, config_hash: str) -> None:
        plan = self._plan
        pod: Fields = {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": ENGINE_PRIORITY,
            # No request lasts longer, so none is cut off: nginx ends when the last one has.
            "terminationGracePeriodSeconds": plan.request_timeout_seconds + _NOTICE_SECONDS,
            "securityContext": NON_ROOT_POD,
            "affinity": ON_SYSTEM_NODES,
            "topologySpreadConstraints": [spread(self._selector)],
            "containers": [
                {
                    "name": "tenant-gateway",
                    "image": plan.image,
                    # Not the image's entry point, which writes into the root file system.
                    "command": ["nginx"],
                    "args": ["-e", "stderr", "-c", f"{_CONFIG_MOUNT}/{_CONFIG_FILE}"],
                    "ports": [{"name": _API_PORT, "containerPort": plan.port}],
                    "readinessProbe": http_probe(_HEALTH, _API_PORT, period=2, failures=3),
                    "livenessProbe": http_probe(_HEALTH, _API_PORT, period=10, failures=3),
                    "lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", _PRE_STOP]}}},
                    "resources": resources(plan.size),
                    "securityContext": NON_ROOT,
                    "volumeMounts": [
                        {"name": "config", "mountPath": _CONFIG_MOUNT, "readOnly": True},
                        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
                    ],
                }
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": self._meta.name}},
                {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            ],
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
                    "template": pod_template(
                        self._labels, pod, {CONFIG_HASH_ANNOTATION: config_hash}
                    ),
                }
            },
        )


# `proxy_set_header` replaces every header of that name. Buffering is off both ways: tokens reach
# the client as they come, and no body is written to a disk. Nothing is tried twice: the router does
# that.
_CONFIG: Final = """\
daemon off;
worker_processes 1;
pid /tmp/nginx.pid;
error_log stderr warn;

events {{
  worker_connections 4096;
}}

http {{
  client_body_temp_path /tmp/client-body;
  proxy_temp_path /tmp/proxy;
  fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi;
  scgi_temp_path /tmp/scgi;

  server_tokens off;
  default_type application/json;
  map $status $failed {{
    ~^[123] 0;
    default 1;
  }}
  log_format short '$remote_addr $request_method $uri $status $request_time';
  access_log /dev/stdout short if=$failed;

  upstream router {{
    server {router}:{router_port};
    keepalive 64;
  }}

  server {{
    listen {port};
    client_max_body_size {max_payload_mib}m;
    proxy_http_version 1.1;
    proxy_set_header Host $host;
    proxy_set_header Connection "";
    proxy_set_header {header} {tenant};
    proxy_buffering off;
    proxy_request_buffering off;
    proxy_next_upstream off;
    proxy_connect_timeout 5s;
    proxy_send_timeout {silence}s;
    # An answer that does not stream is silent until it is whole.
    proxy_read_timeout {seconds}s;
    client_body_timeout {silence}s;
    send_timeout {silence}s;

    location / {{
      return 404 '{{"error":{{"message":"this tenant gateway leads to {paths}","code":404}}}}';
    }}
    location = {health} {{
      return 200 '{{}}';
    }}
{locations}  }}
}}
"""

_LOCATION: Final = """    location = {path} {{
      limit_except {method} {{
        deny all;
      }}
      proxy_pass http://router;
    }}
"""


def nginx_config(gateway: TenantGatewayPlan) -> str:
    """Nginx's whole configuration."""
    ways = [("POST", path) for path in gateway.posts] + [("GET", path) for path in gateway.gets]
    return _CONFIG.format(
        router=gateway.router,
        router_port=gateway.router_port,
        port=gateway.port,
        max_payload_mib=gateway.max_payload_mib,
        header=gateway.header,
        tenant=gateway.tenant,
        seconds=gateway.request_timeout_seconds,
        silence=gateway.silence_seconds,
        health=_HEALTH,
        paths=", ".join(path for _, path in ways),
        locations="".join(_LOCATION.format(path=path, method=method) for method, path in ways),
    )
