"""Kyverno's own engine on the rendered policy: the same pod as from the API server."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.rehearsal.cluster import Cluster
from tests.rehearsal.kubectl import Object
from tests.rehearsal.rendered import Rendered
from tests.rehearsal.test_admission import admitted, operator_managed, sample
from tools.controlplane.build import KYVERNO_KIND, BuildError, build_kyverno
from tools.process import local_environment

pytestmark = [operator_managed, pytest.mark.own_control_plane, pytest.mark.kyverno]

_NOT_COMPARED = ("serviceAccountName", "serviceAccount")
"""The account of the model is in its own namespace alone."""


@pytest.fixture(scope="module")
def kyverno() -> Path:
    """The folder with Kyverno's command line; the first time it is built from source."""
    try:
        return build_kyverno()
    except BuildError as error:
        pytest.fail(str(error), pytrace=False)


def applied(kyverno: Path, policy: Object, item: Object, folder: Path) -> Object:
    """Return what Kyverno makes of a pod."""
    given, wanted, made = folder / "policy.yaml", folder / "pod.yaml", folder / "made.yaml"
    given.write_text(yaml.safe_dump(policy))
    wanted.write_text(yaml.safe_dump(item))
    done = subprocess.run(
        [str(kyverno / "kyverno"), "apply", str(given), "--resource", str(wanted), "-o", str(made)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env=local_environment() | {"HOME": str(folder)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: list[Object] = [part for part in yaml.safe_load_all(made.read_text()) if part]
    return found[0]


def test_its_result_is_the_api_servers(
    cluster: Cluster, rendered: Rendered, kyverno: Path, tmp_path: Path
) -> None:
    policy, item = rendered.find("MutatingPolicy"), sample(rendered)
    # Or the two namespaces' accounts would mount a token here and none there.
    item["spec"]["automountServiceAccountToken"] = False
    server = admitted(cluster, item)
    made = applied(kyverno, policy, item, tmp_path)
    assert made["spec"] != item["spec"]
    # Through the API server, for its defaults, in a namespace that no policy looks at.
    elsewhere = copy.deepcopy(made)
    elsewhere["metadata"]["namespace"] = "default"
    for name in _NOT_COMPARED:
        elsewhere["spec"].pop(name, None)
    defaulted = admitted(cluster, elsewhere)
    for spec in (server["spec"], defaulted["spec"]):
        for name in _NOT_COMPARED:
            spec.pop(name, None)
        # The server's own stand before the policy's or behind them; their order means nothing.
        spec["tolerations"].sort(key=json.dumps)
    assert defaulted["spec"] == server["spec"]
    assert defaulted["metadata"]["labels"] == server["metadata"]["labels"]
    assert applied(kyverno, policy, made, tmp_path) == made


def test_it_leaves_other_pods_alone(rendered: Rendered, kyverno: Path, tmp_path: Path) -> None:
    item = sample(rendered, app="another")
    assert applied(kyverno, rendered.find("MutatingPolicy"), item, tmp_path) == item


def test_its_own_definition_knows_every_field(rendered: Rendered, kyverno: Path) -> None:
    definition = yaml.load((kyverno / KYVERNO_KIND).read_text(), Loader=yaml.CSafeLoader)
    (schema,) = [
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for version in definition["spec"]["versions"]
        if version["name"] == "v1"
    ]
    checker = jsonschema.Draft7Validator(_closed(schema))
    policy = rendered.find("MutatingPolicy")
    assert [error.message for error in checker.iter_errors(policy["spec"])] == []
    policy = copy.deepcopy(policy)
    policy["spec"]["failPolicy"] = "Fail"
    assert ["failPolicy" in error.message for error in checker.iter_errors(policy["spec"])]


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(part) for part in node]
    if not isinstance(node, dict):
        return node
    made = {key: _closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and "additionalProperties" not in node:
        made["additionalProperties"] = False
    return made
