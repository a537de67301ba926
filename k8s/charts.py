"""All charts of one deployment, and the order in which they are applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cdk8s

from k8s.admission import AdmissionChart
from k8s.autoscaling import AutoscalingChart
from k8s.cache import CacheChart
from k8s.dashboards import DashboardsChart
from k8s.engine import EngineChart
from k8s.platform import PlatformChart
from k8s.router import RouterChart
from kascade.errors import KascadeError
from kascade.kube.agreement import check_agreement
from kascade.plan import ServingPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    """The charts of one deployment.

    Attributes:
        platform: Applied before the HyperPod cluster is created.
        autoscaling: How instances are added; None where nothing adds any.
        cache: None when no engine has an L2.
        admission: What Kyverno stands on; None where nobody needs it.
        router: None when HyperPod's operator brings every model's.
        dashboards: Not applied to the cluster; Managed Grafana gets its content. None without
            observability.
    """

    platform: PlatformChart
    autoscaling: AutoscalingChart | None
    cache: CacheChart | None
    admission: AdmissionChart | None
    engines: tuple[EngineChart, ...]
    router: RouterChart | None
    dashboards: DashboardsChart | None

    @property
    def serving(self) -> tuple[cdk8s.Chart, ...]:
        """What is applied once HyperPod is there, in deploy order."""
        order = (self.autoscaling, self.cache, self.admission, *self.engines, self.router)
        return tuple(c for c in order if c is not None)

    @property
    def in_order(self) -> tuple[cdk8s.Chart, ...]:
        """Every chart, in deploy order."""
        last = () if self.dashboards is None else (self.dashboards,)
        return (self.platform, *self.serving, *last)


def manifest_app(outdir: str) -> cdk8s.App:
    """Make the app whose ``synth()`` writes one YAML file a chart, named after the chart's id."""
    return cdk8s.App(
        outdir=outdir,
        output_file_extension=".yaml",
        yaml_output_type=cdk8s.YamlOutputType.FILE_PER_CHART,
    )


def build_charts(app: cdk8s.App, plan: ServingPlan) -> Charts:
    """Turn a plan into charts.

    The order in which they become children of the app is the deploy order.

    Args:
        app: The cdk8s app, see ``manifest_app``.
        plan: The whole plan.
    """
    verifications = {verify.engine: verify for verify in plan.verifications}
    janitors = {janitor.engine: janitor for janitor in plan.janitors}
    charts = Charts(
        platform=PlatformChart(app, "platform", platform=plan.platform),
        autoscaling=_autoscaling(app, plan),
        cache=_cache(app, plan),
        admission=_admission(app, plan),
        engines=tuple(
            EngineChart(
                app,
                f"engine-{engine.name}",
                engine=engine,
                network=plan.network,
                curvine=plan.curvine,
                verify=verifications.get(engine.name),
                janitor=janitors.get(engine.name),
                admission=plan.admission,
            )
            for engine in plan.engines
        ),
        router=RouterChart(
            app,
            "router",
            routers=plan.routers,
            tenant_gateways=plan.tenant_gateways,
            network=plan.network,
        )
        if plan.routers
        else None,
        dashboards=_dashboards(app, plan),
    )
    rendered = {chart.node.id: chart.to_json() for chart in charts.in_order}
    _refuse_twins(rendered)
    check_agreement([item for objects in rendered.values() for item in objects])
    return charts


def _refuse_twins(rendered: Mapping[str, Sequence[Any]]) -> None:
    """Two charts that name one object would overwrite each other, whichever comes last."""
    owners: dict[tuple[str, str, str], str] = {}
    for owner, objects in rendered.items():
        for item in objects:
            meta = item["metadata"]
            key = (item["kind"], meta.get("namespace", ""), meta["name"])
            if key in owners:
                kind, namespace, name = key
                msg = (
                    f"{kind} {namespace}/{name} stands in charts {owners[key]} and "
                    f"{owner}; rename the model or deployment that it comes from"
                )
                raise KascadeError(msg)
            owners[key] = owner


def _autoscaling(app: cdk8s.App, plan: ServingPlan) -> AutoscalingChart | None:
    if plan.cluster.autoscaling is None:
        return None
    return AutoscalingChart(app, "autoscaling", autoscaling=plan.cluster.autoscaling)


def _cache(app: cdk8s.App, plan: ServingPlan) -> CacheChart | None:
    if all(engine.lmcache.l2 is None for engine in plan.engines):
        return None
    return CacheChart(
        app,
        "cache",
        curvine=plan.curvine,
        directories=plan.directories,
        engines=plan.engines,
        janitors=plan.janitors,
        taint_keys=plan.platform.taint_keys,
        network=plan.network,
        jobs_image=plan.jobs_image,
    )


def _admission(app: cdk8s.App, plan: ServingPlan) -> AdmissionChart | None:
    if plan.admission is None or plan.admission.kyverno is None:
        return None
    return AdmissionChart(app, "admission", kyverno=plan.admission.kyverno, network=plan.network)


def _dashboards(app: cdk8s.App, plan: ServingPlan) -> DashboardsChart | None:
    if plan.observability is None:
        return None
    return DashboardsChart(
        app,
        "dashboards",
        observability=plan.observability,
        namespace=plan.namespaces.serving,
    )
