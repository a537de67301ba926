"""The composition root: configuration -> plan -> charts and stacks -> manifests and templates."""

import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import tools.node  # noqa: F401 - chooses the Node that jsii starts

import aws_cdk as cdk
import cdk8s

from k8s.charts import build_charts, manifest_app
from kascade import KascadeError, ServingPlan, plan_file
from kascade.aws.dependencies import LocalChart
from kascade.aws.removal import ALLOW_DESTROY, keep_or_destroy
from kascade.aws.timeouts import bound_custom_resources
from kascade.errors import EXIT_INVALID, unwritable
from kascade.kube.dependencies_chart import dependencies_values
from kascade.observability.boards import boards
from kascade.observability.rules import rule_groups
from kascade.observability.scrape import scrape_configuration
from kascade.sizing.document import write_plan
from stacks.cluster import ClusterStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.serving import ServingStack
from tools.assembly import REPORTED_HERE, in_sentences, synthesize, take_its_place

DEFAULT_CONFIG = "config/default.yaml"
DIST = Path("dist")
MANIFESTS = DIST / "manifests"


def build(app: cdk.App, plan: ServingPlan, *, manifests: Path, folder: Path = Path()) -> cdk8s.App:
    """Introduce charts and stacks to each other; nothing is written yet.

    Args:
        app: The CDK app that receives the stacks.
        plan: What to build.
        manifests: Folder that the returned cdk8s app will write the charts to.
        folder: Of the configuration; what it names by a path counts from there.

    Returns:
        The cdk8s app with every chart.
    """
    destroy = plan.on_delete == "destroy" and _may_destroy(app)
    charts_app = manifest_app(str(manifests))
    charts = build_charts(charts_app, plan)
    network = NetworkStack(app, f"{plan.name}-network", plan=plan)
    cluster = ClusterStack(
        app,
        f"{plan.name}-cluster",
        plan=plan,
        network=network.network,
        platform=charts.platform.to_json(),
        dependencies=_dependencies(plan, folder),
        destroy=destroy,
    )
    ServingStack(
        app,
        f"{plan.name}-serving",
        plan=plan,
        cluster=cluster.eks.cluster,
        charts={chart.node.id: chart.to_json() for chart in charts.serving},
        weights_role=cluster.eks.weights_role,
    )
    if plan.observability is not None:
        ObservabilityStack(
            app,
            f"{plan.name}-observability",
            plan=plan,
            network=network.network,
            cluster_arn=cluster.eks.cluster.cluster_arn,
            cluster_security_group=cluster.eks.cluster.cluster_security_group,
            dashboards=boards(plan.observability),
            scrape_configuration=scrape_configuration(
                plan.observability,
                cluster_name=plan.name,
                namespaces=plan.namespaces,
                operator_managed=plan.operator_managed,
            ),
            rules=rule_groups(cluster_name=plan.name, operator_managed=bool(plan.operator_managed)),
        )
    bound_custom_resources(app)
    keep_or_destroy(app, destroy=destroy)
    return charts_app


def _dependencies(plan: ServingPlan, folder: Path) -> LocalChart | None:
    chart = plan.platform.dependencies_chart
    if chart is None:
        return None
    return LocalChart(
        folder=folder / chart.path,
        values=dependencies_values(chart, plan.platform, region=plan.region),
    )


def _may_destroy(app: cdk.App) -> bool:
    """Read the second key, which the command line gives as text."""
    return str(app.node.try_get_context(ALLOW_DESTROY)).lower() == "true"


def main() -> int:
    """Build what the context key ``config`` names, into cdk.out/ and dist/.

    Returns:
        0, or 2 when the configuration cannot be used, its templates are rejected or the output
        cannot be written; then what was there before is whole.
    """
    first = not DIST.exists()
    try:
        DIST.mkdir(exist_ok=True)
        # Everything is made aside and moved into place once it is whole.
        with tempfile.TemporaryDirectory(dir=DIST, prefix=".") as scratch, in_sentences():
            _synth(Path(scratch))
    except KascadeError as error:
        sys.stderr.write(f"{error}\n")
    except OSError as error:
        sys.stderr.write(f"{unwritable(error)}\n")
    else:
        return 0
    if first:
        with suppress(OSError):
            DIST.rmdir()
    return EXIT_INVALID


def _synth(scratch: Path) -> None:
    app = cdk.App(outdir=str(scratch / "cdk.out"), post_cli_context=REPORTED_HERE)
    config = app.node.try_get_context("config") or DEFAULT_CONFIG
    plan = plan_file(str(config))
    if plan.on_delete == "destroy" and not _may_destroy(app):
        sys.stderr.write(
            "on_delete: destroy is one key of two, so log groups and buckets are kept. To let "
            f"them go with their stacks, deploy with the other one: make deploy CONFIG={config} "
            f"ALLOW_DESTROY=1, which adds --context {ALLOW_DESTROY}=true.\n"
        )
    _check_places()
    manifests, document = scratch / "manifests", scratch / "plan.json"
    charts = build(app, plan, manifests=manifests, folder=Path(str(config)).parent)
    charts.synth()
    write_plan(plan, document)
    take_its_place(synthesize(app), Path(os.environ.get("CDK_OUTDIR", "cdk.out")))
    if MANIFESTS.exists():
        shutil.rmtree(MANIFESTS)
    manifests.rename(MANIFESTS)
    document.replace(DIST / "plan.json")


def _check_places() -> None:
    """Reject what could not be replaced, before anything is."""
    for place, wanted in ((MANIFESTS, "folder"), (DIST / "plan.json", "file")):
        right = place.is_dir() if wanted == "folder" else not place.is_dir()
        if place.is_symlink() or (place.exists() and not right):
            msg = (
                f"{place} is not a {wanted} of this checkout, which a synth replaces as a whole; "
                "move it away, and copy from there what you need elsewhere"
            )
            raise KascadeError(msg)


if __name__ == "__main__":
    sys.exit(main())
