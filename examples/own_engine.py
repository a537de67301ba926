"""Serve one model by two vLLM engines, each with its LMCache server, behind a router.

It stands on a HyperPod cluster on EKS with NVIDIA's device plugin, the EBS CSI driver, a network
that obeys NetworkPolicies, and at least one node outside its instance groups. Run it, then
`kubectl apply -f own-engine`; pods that carry the label `kascade.dev/client: "true"`, or whose
namespace does, reach the router.
"""

import cdk8s

from kascade import kube

GPUS = kube.Nodes(group="gpu", instance_type="ml.g6e.4xlarge", count=2)
plan = kube.plan_model(
    name="qwen2-7b", namespace="llm", model="Qwen/Qwen2-7B-Instruct", replicas=2, nodes=GPUS
)
app = cdk8s.App(outdir="own-engine", yaml_output_type=cdk8s.YamlOutputType.FILE_PER_CHART)
chart = cdk8s.Chart(app, "qwen2-7b")
kube.ClosedNamespace(chart, "Namespace", name="llm")
kube.Classes(chart, "Classes")
kube.EnginePrograms(chart, "Programs", namespace="llm")
kube.Engine(chart, "Engine", engine=plan.engine, network=plan.network)
kube.Router(chart, "Router", router=plan.router, network=plan.network)
kube.check_agreement(chart.to_json())
app.synth()
for tier in (plan.engine.figures.l0_tokens, plan.engine.figures.l1_tokens):
    print(f"{tier.value:,} tokens: {tier.reason}")
print(f"http://{plan.router.name}.{plan.router.namespace}:{plan.router.port}/v1")
