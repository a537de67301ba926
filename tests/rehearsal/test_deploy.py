"""A deployment's life: made, changed, rejected, replaced and removed, with the real command line.

What is real here and what is played is in docs/decisions. The steps build on each other; one that
fails ends the story. Nothing in them knows how long AWS takes.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from kascade import plan_file
from tests.checkout import ROOT
from tests.rehearsal.aws.callback import Callback, Listener
from tests.rehearsal.aws.deployment import Deployment
from tests.rehearsal.aws.emulator import Emulator
from tests.rehearsal.aws.grafana import ManagedGrafana, Workspace
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.instances import Instances
from tests.rehearsal.inventory import Key, listed, wait_until
from tests.rehearsal.story import Story
from tools.rehearsal_env import rehearsal_environment

pytestmark = pytest.mark.rehearsal

NAME = "kascade"
CACHE = "kascade-cache"
STACKS = [f"{NAME}-{part}" for part in ("network", "cluster", "serving", "observability")]
SETTLE_SECONDS = 120
"""Deleting a namespace, or a pod of a node that is gone, takes the controllers a while."""

MANIFEST = "Custom::AWSCDK-EKS-KubernetesResource"
HYPERPOD, NODEGROUP = "AWS::SageMaker::Cluster", "AWS::EKS::Nodegroup"
EKS = "AWS::EKS::Cluster"
LOG_GROUP = "AWS::Logs::LogGroup"
ENGINE: Key = ("Deployment", NAME, "qwen2-7b")
ROUTER: Key = ("Deployment", NAME, "qwen2-7b-router")
JANITOR: Key = ("Deployment", NAME, "qwen2-7b-janitor")


@pytest.fixture(scope="module")
def story(
    bare_cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[float, str]],
) -> Iterator[Story]:
    """Bring AWS up beside the cluster; everything ends with the last step."""
    scratch = tmp_path_factory.mktemp("rehearsal")
    installed = rehearsal_environment()
    config = yaml.safe_load((ROOT / "config" / "default.yaml").read_text())
    config["models"][0]["instance_group"] = config["instance_groups"][0]["name"]
    config["kubernetes"] = {**config.get("kubernetes", {}), "version": "1.34"}  # to go up from
    region = config["region"]
    heard: list[dict[str, Any]] = []
    listeners: list[Listener] = [heard.append]

    def hear(event: dict[str, Any]) -> None:
        for listener in listeners:
            listener(event)

    bare_cluster.define_crds()
    grafana = ManagedGrafana(scratch / "grafana", python=installed.python, region=region)
    before = listed(bare_cluster)
    with grafana, Callback(grafana.hear) as workspaces, Callback(hear) as nodes:
        emulator = Emulator(
            scratch / "aws",
            installed=installed,
            region=region,
            kubeconfig=bare_cluster.kubeconfig,
            nodes_url=nodes.url,
            grafana=grafana.environment(workspaces.url),
        )
        with emulator as aws:
            plan = plan_file(ROOT / "config" / "default.yaml")
            listeners.append(Instances(bare_cluster, plan, zones=partial(_zones, aws)).hear)
            deployment = Deployment(
                scratch / "checkout", config=config, region=region, environment=aws.environment()
            )
            told = Story(
                cluster=bare_cluster,
                aws=aws,
                grafana=grafana,
                deployment=deployment,
                heard=heard,
                before=before,
            )
            yield told
    steps.extend((seconds, name) for name, seconds in told.seconds.items())


def _zones(aws: Emulator, subnets: list[str]) -> list[str]:
    """Look up where subnets are."""
    found = aws.client("ec2").describe_subnets(SubnetIds=subnets)["Subnets"]
    return sorted(subnet["AvailabilityZone"] for subnet in found)


@pytest.fixture
def refusing(story: Story) -> Iterator[Callable[[Key], None]]:
    """Give a way to have the API server reject one object, until the test ends."""
    made: list[str] = []

    def refuse(key: Key) -> None:
        kind, _, name = key
        policy = f"reject-{name}"
        story.cluster.kubectl(
            "create", "--filename=-", stdin=json.dumps(_policy(policy, kind, name))
        )
        made.append(policy)
        # The server takes a moment to obey a new policy.
        probe = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": {"probe": "x"}},
                "template": {
                    "metadata": {"labels": {"probe": "x"}},
                    "spec": {"containers": [{"name": "x", "image": "x"}]},
                },
            },
        }

        def admitted() -> bool:
            try:
                story.cluster.kubectl(
                    "create", "--dry-run=server", "--filename=-", stdin=json.dumps(probe)
                )
            except Exception as error:
                return "no room for it" not in str(error)
            return True

        assert not wait_until(admitted, timeout_seconds=30)

    yield refuse
    for policy in made:
        story.cluster.kubectl(
            "delete",
            "--ignore-not-found",
            "validatingadmissionpolicybinding,validatingadmissionpolicy",
            policy,
        )


@pytest.fixture
def keeping(story: Story) -> Iterator[Callable[[Key], None]]:
    """Give a way to have the API server reject an object's deletion, until the test ends."""
    made: list[str] = []

    def keep(key: Key) -> None:
        kind, namespace, name = key
        policy = f"keep-{name}"
        wanted = _policy(policy, kind, name, operation="DELETE")
        story.cluster.kubectl("create", "--filename=-", stdin=json.dumps(wanted))
        made.append(policy)

        def deletable() -> bool:
            try:
                story.cluster.kubectl(
                    "delete", kind, name, f"--namespace={namespace}", "--dry-run=server"
                )
            except Exception as error:
                return "no room for it" not in str(error)
            return True

        assert not wait_until(deletable, timeout_seconds=30)

    yield keep
    for policy in made:
        story.cluster.kubectl(
            "delete",
            "--ignore-not-found",
            "validatingadmissionpolicybinding,validatingadmissionpolicy",
            policy,
        )


def _policy(policy: str, kind: str, name: str, operation: str = "CREATE") -> dict[str, Any]:
    there = "object" if operation == "CREATE" else "oldObject"
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": [operation],
        "resources": [f"{kind.lower()}s"],
    }
    group = "admissionregistration.k8s.io/v1"
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            {
                "apiVersion": group,
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": policy},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {"resourceRules": [rule]},
                    "validations": [
                        {
                            "expression": f"{there}.metadata.name != '{name}'",
                            "message": "no room for it",
                        }
                    ],
                },
            },
            {
                "apiVersion": group,
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": policy},
                "spec": {"policyName": policy, "validationActions": ["Deny"]},
            },
        ],
    }


def test_bootstrap(story: Story) -> None:
    with story.step("bootstrap"):
        story.deployment.bootstrap().must_succeed()
        assert story.aws.stacks() == {"CDKToolkit": "CREATE_COMPLETE"}


def test_a_first_deployment_that_fails_halfway_is_rolled_back(
    story: Story, refusing: Callable[[Key], None]
) -> None:
    with story.step("a first deployment that the API server rejects in its last part"):
        refusing(ROUTER)
        run = story.deploy().must_fail()
        assert "no room for it" in run.output
        network, cluster, serving, observability = STACKS
        stacks = story.aws.stacks()
        assert (stacks[network], stacks[cluster]) == ("CREATE_COMPLETE", "CREATE_COMPLETE")
        assert stacks[serving] == "ROLLBACK_COMPLETE"
        assert observability not in stacks
        refused = [c for c in story.aws.changes() if c.error]
        assert [(c.action, c.stack, c.type) for c in refused] == [("create", serving, MANIFEST)]
        # What had been applied before the rejection is gone; the platform, another stack's, stays.

        def astray() -> set[Key]:
            there = listed(story.cluster).keys() & story.manifests().keys()
            return there ^ story.manifests("platform").keys()

        assert wait_until(astray, timeout_seconds=SETTLE_SECONDS) == set()


def test_the_retry_succeeds_even_over_an_object_that_stayed(story: Story) -> None:
    with story.step("the retry: everything is made"):
        key = ("ConfigMap", CACHE, "curvine-master")
        stale = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": key[2], "namespace": key[1]},
            "data": {"curvine-cluster.toml": "of an attempt that was killed"},
        }
        story.cluster.kubectl("create", "--filename=-", stdin=json.dumps(stale))
        story.deploy().must_succeed()
        assert story.aws.stacks() == {
            "CDKToolkit": "CREATE_COMPLETE",
            **dict.fromkeys(STACKS, "CREATE_COMPLETE"),
        }
        story.must_be_as_rendered()


def test_names_are_its_own_afterwards(story: Story) -> None:
    with story.step("the account is looked at again"):
        run = story.deployment.kascade("preflight", "--json", "rows.json")
        assert "Traceback" not in run.output
        document = json.loads((story.deployment.root / "rows.json").read_text())
        found = {row["check"]: row for row in document["rows"]}
        assert {name: found[name]["state"] for name in ("bootstrap", "stacks", "ranges")} == {
            "bootstrap": "ok",
            "stacks": "ok",
            "ranges": "ok",
        }
        updated = [f["said"] for f in found["stacks"]["findings"]]
        assert [said.partition(" ")[0] for said in updated] == STACKS
        assert all("will be updated" in said for said in updated)
        # Every name is a stack's of this deployment, so none of them is looked for elsewhere.
        assert found["names"]["state"] == "ok"
        run = story.deployment.kascade("status", "--json", "status.json")
        assert "Traceback" not in run.output
        status = json.loads((story.deployment.root / "status.json").read_text())
        assert any("qwen2-7b-router" in address for address in status["endpoints"])


def test_nodes_were_there_before_what_runs_on_them(story: Story) -> None:
    with story.step("what the deployment announced"):
        assert [(event["action"], event["type"]) for event in story.heard] == [
            ("create", NODEGROUP),
            ("create", HYPERPOD),
        ]
        order = [c.type for c in story.aws.changes() if c.stack == f"{NAME}-cluster"]
        agents = max(n for n, kind in enumerate(order) if kind == MANIFEST)
        assert order.index(NODEGROUP) < order.index(HYPERPOD)
        assert agents < order.index(HYPERPOD)


def test_the_dashboards_are_in_grafana(story: Story) -> None:
    with story.step("what Grafana holds"):
        (workspace,) = story.grafana.workspaces.values()
        assert list(workspace.folders) == ["kascade-kascade"]
        rendered = story.dashboards()
        assert workspace.dashboards.keys() == rendered.keys() != set()
        for uid, board in rendered.items():
            assert workspace.dashboards[uid] == {
                **board,
                "id": None,
                "folderUid": "kascade-kascade",
            }
        (source,) = workspace.datasources.values()
        assert source["url"] == story.aws.outputs(f"{NAME}-observability")[
            "PrometheusEndpoint"
        ].rstrip("/")
        assert source["type"] == "grafana-amazonprometheus-datasource"
        assert (len(workspace.accounts), workspace.tokens, workspace.refused) == (1, {}, 0)


def test_more_replicas_on_more_nodes(story: Story) -> None:
    with story.step("one more replica and instance"):

        def edit(config: dict[str, Any]) -> None:
            config["models"][0]["replicas"] = 3
            config["instance_groups"][0]["count"] = 5

        effect = story.change(edit)
        assert effect.aws == {("update", HYPERPOD)}
        assert effect.replaced == {}
        assert effect.objects.changed == {ENGINE, ROUTER, JANITOR}
        assert not effect.objects.created | effect.objects.deleted
        assert story.live(*ENGINE)["spec"]["replicas"] == 3
        last = story.heard[-1]
        assert (last["type"], last["action"]) == (HYPERPOD, "update")
        assert [int(g["InstanceCount"]) for g in last["properties"]["InstanceGroups"]] == [5]


def _second_model(config: dict[str, Any]) -> None:
    config["models"].append(
        {
            "name": "qwen25-7b",
            "model": "Qwen/Qwen2.5-7B-Instruct",
            "replicas": 1,
            "instance_group": config["instance_groups"][0]["name"],
        }
    )


def test_a_model_comes_and_goes(story: Story) -> None:
    with story.step("a second model"):
        came = story.change(_second_model)
        assert {kind for _, kind in came.aws} == {"AWS::CloudFormation::WaitConditionHandle"}
        assert came.replaced == {}
        assert came.objects.changed == frozenset()
        assert {key for key in came.objects.created if "qwen25-7b" not in key[2]} == {
            _bootstrap(came.objects.created)
        }
        assert came.objects.deleted == {_bootstrap(came.objects.deleted)}
        kinds = {kind for kind, _, name in came.objects.created if "qwen25-7b" in name}
        assert {"Deployment", "Service", "PersistentVolumeClaim", "NetworkPolicy"} <= kinds
    with story.step("the second model removed"):
        went = story.change(lambda config: config["models"].pop())
        assert went.objects.created == came.objects.deleted
        assert went.objects.deleted == came.objects.created
        assert went.objects.changed == frozenset()
        assert went.replaced == {}

        def left() -> list[Key]:
            return [key for key in listed(story.cluster) if "qwen25-7b" in key[2]]

        assert wait_until(left, timeout_seconds=SETTLE_SECONDS) == []


def _bootstrap(keys: frozenset[Key]) -> Key:
    """Find the Job that makes the volumes' directories; its name follows from its content."""
    (found,) = [key for key in keys if key[0] == "Job"]
    assert found[1] == CACHE
    assert found[2].startswith("curvine-bootstrap-")
    return found


def test_another_share_of_memory(story: Story) -> None:
    with story.step("another tiered_storage_percentage"):

        def edit(config: dict[str, Any]) -> None:
            config["hyperpod"]["tiered_storage_percentage"] = 30

        effect = story.change(edit)
        assert effect.aws == {("update", HYPERPOD)}
        assert effect.replaced == {}
        assert effect.objects.changed == {ENGINE}
        assert not effect.objects.created | effect.objects.deleted
        tiered = story.heard[-1]["properties"]["TieredStorageConfig"]
        assert int(tiered["InstanceMemoryAllocationPercentage"]) == 30


def test_another_kubernetes_version(story: Story) -> None:
    with story.step("the next Kubernetes version"):
        heard = len(story.heard)
        effect = story.change(lambda config: config["kubernetes"].update(version="1.35"))
        assert effect.aws == {
            ("update", EKS),
            ("update", "AWS::EKS::Addon"),
            ("update", NODEGROUP),
        }
        assert effect.replaced == {}
        assert not effect.objects.created | effect.objects.deleted | effect.objects.changed
        eks = story.aws.client("eks").describe_cluster(name=NAME)["cluster"]
        assert eks["version"] == "1.35"
        # The nodes after the control plane.
        order = [change.type for change in effect.changes]
        assert order.index(EKS) < order.index(NODEGROUP)
        (event,) = story.heard[heard:]
        assert (event["type"], event["action"]) == (NODEGROUP, "update")
        assert event["properties"]["Version"] == "1.35"


def test_other_system_nodes_are_a_replacement(story: Story) -> None:
    with story.step("another type of system node"):
        heard = len(story.heard)

        def edit(config: dict[str, Any]) -> None:
            config["kubernetes"]["system_group"] = {"instance_type": "m5.xlarge"}

        effect = story.change(edit)
        assert effect.replaced == {NODEGROUP: ("InstanceTypes",)}
        assert effect.aws == {("replace", NODEGROUP), ("delete", NODEGROUP)}
        # The new group is there before the old one goes.
        told = [(event["type"], event["action"]) for event in story.heard[heard:]]
        assert told == [(NODEGROUP, "create"), (NODEGROUP, "delete")]


def test_another_zone_replaces_nothing(story: Story) -> None:
    """HyperPod and EKS stay in the home zones: a longer list of subnets would replace both."""
    with story.step("a third zone"):
        seen = len(story.aws.changes())
        story.deployment.config["zones"] = [*story.deployment.config["zones"], "us-west-2c"]
        story.deploy().must_succeed()
        changes = story.aws.changes()[seen:]
        assert {change.action for change in changes} <= {"create", "update"}
        assert [c.changed for c in changes if c.type in {HYPERPOD, NODEGROUP, EKS}] == []
        assert [c.action for c in changes if c.type == "AWS::EC2::Subnet"].count("create") >= 2
        story.must_be_as_rendered()


def _of_controllers(key: Key) -> bool:
    """Say whether the cluster's own controllers make this, once each of them is up."""
    kind, namespace, _ = key
    greeted = {"default", "kube-node-lease", "kube-public", "kube-system"}
    return kind in {"ConfigMap", "ServiceAccount"} and namespace in greeted


def _disks(story: Story) -> set[Key]:
    """Return the claims of the cache's masters, and the volumes that their class makes."""
    return {
        key
        for key, item in listed(story.cluster).items()
        if key[:2] == ("PersistentVolumeClaim", CACHE)
        or (key[0] == "PersistentVolume" and item["spec"].get("storageClassName") == f"{NAME}-gp3")
    }


def _log_groups(story: Story) -> set[str]:
    groups = story.aws.client("logs").describe_log_groups()["logGroups"]
    return {group["logGroupName"] for group in groups}


def test_without_the_keys_logs_stay_and_are_found_again(story: Story) -> None:
    with story.step("one stack deleted and made again, its logs kept"):
        observability = STACKS[-1]
        resources = story.deployment.outputs.templates()[observability]["Resources"]
        logical = {name for name, item in resources.items() if item["Type"] == LOG_GROUP}
        made = story.aws.resources(observability)
        named = {f"/aws/vendedlogs/prometheus/{NAME}{end}" for end in ("", "/collector")}
        before = {made[name] for name in logical}
        assert named < before
        story.deployment.destroy(observability).must_succeed()
        assert before <= _log_groups(story)
        assert story.grafana.workspaces == {}
        seen = len(story.aws.changes())
        story.deployment.deploy(observability).must_succeed()
        again = story.aws.resources(observability)
        # Of one name there can only be one: it was taken over, not made.
        created = {c.logical_id for c in story.aws.changes()[seen:] if c.type == LOG_GROUP}
        assert created == {name for name in logical if made[name] not in named}
        assert named < {again[name] for name in logical}
        # Those without a name of their own get another one in AWS, and the same here.
        story.kept = before - set(again.values())


def test_turning_the_keys_changes_nothing_that_runs(story: Story) -> None:
    with story.step("both keys"):
        seen = len(story.aws.changes())
        story.deployment.config["on_delete"] = "destroy"
        assert "ALLOW_DESTROY=1" in story.deployment.synth().must_succeed().output
        story.deployment.may_destroy = True
        story.deploy().must_succeed()
        assert story.aws.changes()[seen:] == []


def test_a_deletion_that_the_api_server_refuses_is_a_failure(
    story: Story, keeping: Callable[[Key], None]
) -> None:
    """CDK's own function would call it done, and the object would stay for ever."""
    with story.step("one stack whose deletion is rejected"):
        assert sorted(kind for kind, _, _ in _disks(story)) == [
            *["PersistentVolume"] * 2,
            *["PersistentVolumeClaim"] * 2,
        ]
        keeping(ROUTER)
        story.deployment.destroy(f"{NAME}-serving").must_fail()
        assert story.aws.stacks()[f"{NAME}-serving"] == "DELETE_FAILED"
        said = [
            event["ResourceStatusReason"]
            for event in story.aws.events(f"{NAME}-serving")
            if event["ResourceStatus"] == "DELETE_FAILED"
        ]
        assert [s for s in said if f"deployment.apps/{ROUTER[2]}" in s and "no room" in s], said
        assert ROUTER in listed(story.cluster)


def test_the_masters_volumes_go_while_their_driver_is_there(story: Story) -> None:
    with story.step("the serving stack alone deleted"):
        story.deployment.destroy(f"{NAME}-serving").must_succeed()
        assert wait_until(lambda: _disks(story), timeout_seconds=SETTLE_SECONDS) == set()
        # Nothing but the workloads took them along: namespaces and driver are of a later stack.
        assert ("Namespace", "", CACHE) in listed(story.cluster)
        assert f"{NAME}-serving" not in story.aws.stacks()
        driver = [name for name in story.aws.resources(f"{NAME}-cluster") if "ebscsidriver" in name]
        assert len(driver) == 1


def test_destroy_leaves_nothing_else(story: Story) -> None:
    with story.step("destroy"):
        ec2, network = story.aws.client("ec2"), story.aws.resources(f"{NAME}-network")
        subnet = next(
            physical
            for logical, physical in network.items()
            if "private" in logical and physical.startswith("subnet-")
        )
        # As of a node that ended before its interface was given back.
        made = ec2.create_network_interface(SubnetId=subnet, Description="aws-K8S-i-0123")
        interface = made["NetworkInterface"]["NetworkInterfaceId"]
        vpc = next(p for p in network.values() if p.startswith("vpc-"))
        # As EKS and the controller of load balancers leave them.
        for tag in ("aws:eks:cluster-name", "elbv2.k8s.aws/cluster"):
            name = f"left-by-{tag.partition('.')[0].replace(':', '-')}"
            group = ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)
            ec2.create_tags(Resources=[group["GroupId"]], Tags=[{"Key": tag, "Value": NAME}])
        story.deployment.destroy().must_succeed()
        there = ec2.describe_network_interfaces()["NetworkInterfaces"]
        assert interface not in {item["NetworkInterfaceId"] for item in there}
        groups = ec2.describe_security_groups()["SecurityGroups"]
        assert [g["GroupName"] for g in groups if g["GroupName"].startswith("left-by-")] == []
        assert story.aws.stacks() == {"CDKToolkit": "CREATE_COMPLETE"}
        assert [kind for _, kind, _ in story.orphans()] == [LOG_GROUP] * len(story.kept)

        def left() -> set[Key]:
            changed = listed(story.cluster).keys() ^ story.before.keys()
            return {key for key in changed if not _of_controllers(key)}

        assert wait_until(left, timeout_seconds=SETTLE_SECONDS) == set()
        assert story.grafana.workspaces == {}
        # The function cleaned up after itself before the workspace went.
        assert len(story.grafana.closed) == 2
        assert all(closed == Workspace() for closed in story.grafana.closed.values())
        buckets = [b["Name"] for b in story.aws.client("s3").list_buckets()["Buckets"]]
        assert [name for name in buckets if not name.startswith("cdk-")] == []
        assert _log_groups(story) == story.kept  # of the stack that went without the keys
