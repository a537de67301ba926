"""One deployment's life, step by step, with what each step did."""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.rehearsal.aws.deployment import Deployment, Run
from tests.rehearsal.aws.emulator import Change, Emulator
from tests.rehearsal.aws.grafana import ManagedGrafana
from tests.rehearsal.cluster import Cluster
from tests.rehearsal.inventory import (
    Difference,
    Document,
    Key,
    difference,
    differing,
    key_of,
    listed,
)

Resource = tuple[str, str, str]
"""Action, type and logical id."""

# Goes to Managed Grafana instead; the file is for a Grafana inside the cluster.
NOT_APPLIED = "dashboards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What one change of the configuration did.

    Attributes:
        changes: What happened to resources, by the emulator's record.
        objects: What happened to the Kubernetes objects of the configuration, old or new.
    """

    changes: list[Change]
    objects: Difference

    @property
    def aws(self) -> set[tuple[str, str]]:
        """Action and type of each change of a resource that is no Kubernetes object."""
        return {(c.action, c.type) for c in self.changes if c.type.startswith("AWS::")}

    @property
    def replaced(self) -> dict[str, tuple[str, ...]]:
        """The replaced resources' types, and the properties that made it so."""
        return {c.type: c.changed for c in self.changes if c.action == "replace"}


@dataclass(slots=True)
class Story:
    """Everything a step needs; a step that fails ends the story.

    Attributes:
        cluster: The Kubernetes side.
        aws: The AWS side.
        grafana: The dashboards' side.
        deployment: The configuration and the commands.
        heard: Announcements about node groups, in order.
        before: What the API server held before the first step.
        seconds: How long each step took.
        kept: Log groups that were left behind on purpose.
    """

    cluster: Cluster
    aws: Emulator
    grafana: ManagedGrafana
    deployment: Deployment
    heard: list[dict[str, Any]]
    before: Mapping[Key, Document]
    seconds: dict[str, float] = field(default_factory=dict)
    failed: str | None = None
    kept: set[str] = field(default_factory=set)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time a step, unless an earlier one failed, for then it means nothing."""
        if self.failed is not None:
            pytest.fail(f"not reached: '{self.failed}' failed")
        began = time.monotonic()
        try:
            yield
        except BaseException:
            self.failed = name
            raise
        finally:
            self.seconds[name] = time.monotonic() - began

    def manifests(self, chart: str | None = None) -> dict[Key, Document]:
        """Return the objects of the last synth that belong into the cluster, or one chart's."""
        return {
            key_of(item): item
            for path, item in self.deployment.outputs.objects()
            if path.stem == (chart or path.stem) and path.stem != NOT_APPLIED
        }

    def dashboards(self) -> dict[str, Document]:
        """Return the dashboards of the last synth, by uid."""
        texts = [
            text
            for path, item in self.deployment.outputs.objects()
            if path.stem == NOT_APPLIED
            for text in item["data"].values()
        ]
        return {board["uid"]: board for board in map(json.loads, texts)}

    def deploy(self) -> Run:
        """Synthesize the configuration as it stands and deploy it."""
        self.deployment.synth().must_succeed()
        return self.deployment.deploy()

    def change(self, edit: Callable[[dict[str, Any]], None]) -> Effect:
        """Edit the configuration, deploy it, and check what holds after any deployment."""
        old_objects, old_templates = listed(self.cluster), self.deployment.outputs.templates()
        old_manifests, seen = self.manifests(), len(self.aws.changes())
        edit(self.deployment.config)
        self.deployment.synth().must_succeed()
        diff = self.deployment.diff().must_fail()
        self.deployment.deploy().must_succeed()
        self.must_be_as_rendered()
        ours = old_manifests.keys() | self.manifests().keys()
        new_objects = listed(self.cluster)
        effect = Effect(
            changes=self.aws.changes()[seen:],
            objects=difference(
                {key: item for key, item in old_objects.items() if key in ours},
                {key: item for key, item in new_objects.items() if key in ours},
            ),
        )
        errors = [change for change in effect.changes if change.error]
        assert not errors, f"failed on the way: {errors}"
        # The record and the templates tell the same story: nothing came along unasked.
        done = {(change.stack, change.logical_id) for change in effect.changes}
        asked = template_changes(old_templates, self.deployment.outputs.templates())
        assert done == asked, f"not asked for: {done - asked}; not done: {asked - done}"
        foretold = replacements_foretold(diff.output)
        assert foretold == effect.replaced.keys(), f"cdk diff foretold {foretold} replacements"
        return effect

    def must_be_as_rendered(self) -> None:
        """Check that AWS and the API server hold what the last synth wrote, and that it runs."""
        self.deployment.diff().must_succeed()
        self.cluster.forget_events()  # of before there were nodes
        self.cluster.settle()
        manifests = self.manifests()
        live = listed(self.cluster)
        missing = manifests.keys() - live.keys()
        assert not missing, f"not in the API server: {sorted(missing)}"
        other = differing(self.cluster, manifests.values(), live)
        assert not other, f"other than rendered: {other}"

    def live(self, kind: str, namespace: str, name: str) -> Any:
        """Return an object as the API server has it."""
        return json.loads(
            self.cluster.kubectl("get", kind, name, f"--namespace={namespace}", "--output=json")
        )

    def orphans(self) -> list[Resource]:
        """Return what was made and not deleted again, save the CDK's own stack."""
        alive: dict[tuple[str, str, str], Resource] = {}
        for line in self.aws.record():
            if line.get("error") or line["stack"] == "CDKToolkit":
                continue
            place = line["stack"], line["type"], line["physical_id"]
            if line["action"] == "delete":
                alive.pop(place, None)
            else:
                alive[place] = line["action"], line["type"], line["logical_id"]
        return sorted(alive.values())


def replacements_foretold(diff: str) -> set[str]:
    """Return the types of which `cdk diff` says that a resource is, or may be, replaced.

    >>> replacements_foretold("[~] AWS::EKS::Nodegroup Eks/SystemNodes EksSystemNodes99 replace")
    {'AWS::EKS::Nodegroup'}
    """
    marked = re.compile(r"^\[~\] (\S+) .* (?:replace|may be replaced)\s*$", re.MULTILINE)
    return set(marked.findall(diff))


def template_changes(
    old: Mapping[str, Document], new: Mapping[str, Document]
) -> set[tuple[str, str]]:
    """Return stack and logical id of each resource whose properties came, went or changed."""
    return {
        (stack, name)
        for stack in old.keys() | new.keys()
        for name in _resources(old, stack).keys() | _resources(new, stack).keys()
        if _properties(old, stack, name) != _properties(new, stack, name)
    }


def _resources(templates: Mapping[str, Document], stack: str) -> Mapping[str, Any]:
    resources: Mapping[str, Any] = templates.get(stack, {}).get("Resources", {})
    return resources


def _properties(templates: Mapping[str, Document], stack: str, name: str) -> Any:
    resource = _resources(templates, stack).get(name)
    return None if resource is None else (resource["Type"], resource.get("Properties", {}))
