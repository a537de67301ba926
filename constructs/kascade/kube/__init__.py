"""cdk8s constructs: HyperPod's in-cluster dependencies, Curvine, engines, routers."""
