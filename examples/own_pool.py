"""Share the NVMe of some HyperPod nodes as one directory, for pods of your own.

It stands on a HyperPod cluster on EKS with the EBS CSI driver, a network that obeys
NetworkPolicies, and at least one node outside its instance groups. The namespace of the pods that
mount it, here `apps`, has to exist. Run it, then `kubectl apply -f own-pool`.
"""

import cdk8s

from kascade import kube

GPUS = kube.Nodes(group="gpu", instance_type="ml.g6e.4xlarge", count=4)
plan = kube.plan_pool(namespace="pool", nodes=[GPUS], volumes=["blocks"], client_namespace="apps")
app = cdk8s.App(outdir="own-pool", yaml_output_type=cdk8s.YamlOutputType.FILE_PER_CHART)
chart = cdk8s.Chart(app, "pool")
kube.ClosedNamespace(chart, "Namespace", name="pool", privileged=True)
kube.Classes(chart, "Classes")
kube.CurvinePool(chart, "Pool", pool=plan)
for volume in plan.curvine.volumes:
    kube.CurvineVolume(chart, volume.name, curvine=plan.curvine, volume=volume)
    print(f"Pods of {volume.claim_namespace} on these nodes mount the claim {volume.name}.")
app.synth()
