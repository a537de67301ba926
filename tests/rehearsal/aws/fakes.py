"""The AWS emulator, taught the types it lacks and held to the registry's schemas.

    python -m tests.rehearsal.aws.fakes

Runs in the rehearsal's own environment, started by `Emulator`. What it adds to MiniStack:

* types that MiniStack does not know (faked_types.py), as state only;
* for every type, its own or added: properties are checked before anything happens, and a changed
  createOnly property makes another resource, as in AWS;
* a record of every create, update, replacement and delete, one JSON object a line;
* announcements: a cluster's nodes and a Grafana workspace exist elsewhere. Whoever plays them is
  told, and may reject.

It hooks into functions of MiniStack that are not its public interface, hence the exact pin.
"""

import functools
import hashlib
import http.client
import itertools
import json
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ministack.app import main as serve
from ministack.core.responses import get_account_id
from ministack.services.cloudformation import provisioners, stacks

from tests.rehearsal.aws.faked_types import ANNOUNCED, FAKED_TYPES, FakedType
from tests.rehearsal.aws.registry import Registry, RegistryError

REGION = os.environ["MINISTACK_REGION"]
REGISTRY = Registry(Path(os.environ["REHEARSAL_SCHEMAS"]), REGION)
RECORD = Path(os.environ["REHEARSAL_RECORD"])
ANNOUNCE_TIMEOUT_SECONDS = 300

Created = tuple[str, dict[str, Any]]


class RefusedError(Exception):
    """What AWS would answer instead of doing it."""


# --- types that MiniStack lacks -------------------------------------------------------------------


class FakedResources:
    """All resources of one faked type."""

    def __init__(self, type_name: str, faked: FakedType) -> None:
        """Check that the type exists, and each attribute too."""
        schema = REGISTRY.schema(type_name)
        if unknown := [name for name in faked.attributes if not schema.has(name)]:
            sys.exit(f"{type_name} has no attributes {unknown}; correct faked_types.py.")
        self._schema = schema
        self._faked = faked
        self._count = itertools.count()
        self._attributes: dict[str, dict[str, Any]] = {}
        self._identities: dict[str, tuple[str, ...] | None] = {}

    def create(self, logical_id: str, properties: dict[str, Any], stack: str) -> Created:
        """Make one, unless another has its name."""
        identity = self._schema.own_identity(properties)
        if identity is not None and identity in self._identities.values():
            message = f"Resource of type '{self._schema.type_name}' with identifier \
'{'|'.join(identity)}' already exists."
            raise RefusedError(message)
        digest = hashlib.sha256(f"{stack}/{logical_id}/{next(self._count)}".encode()).hexdigest()
        fields = {
            "account": get_account_id(),
            "address": f"198.51.100.{int(digest[:4], 16) % 254 + 1}",
            "hex": digest[:17],
            "properties": {**self._faked.defaults, **properties},
            "region": REGION,
            "short": digest[:12],
            "uuid": uuid.UUID(digest[:32]),
        }
        ref = self._faked.ref.format_map(fields)
        fields["ref"] = ref
        self._identities[ref] = identity
        self._attributes[ref] = {
            name: text.format_map(fields) for name, text in self._faked.attributes.items()
        }
        return ref, self._attributes[ref]

    def update(self, ref: str, _: dict[str, Any], properties: dict[str, Any], __: str) -> Created:
        """Change one; whatever replaces it has been sorted out before."""
        self._identities[ref] = self._schema.own_identity(properties)
        return ref, self._attributes[ref]

    def delete(self, ref: str, _: dict[str, Any]) -> None:
        """Forget one."""
        self._identities.pop(ref, None)
        self._attributes.pop(ref, None)


def teach_types() -> None:
    """Register what MiniStack lacks."""
    for type_name, faked in FAKED_TYPES.items():
        if type_name in provisioners._RESOURCE_HANDLERS:
            sys.exit(f"MiniStack knows {type_name} by now; take it out of faked_types.py.")
        resources = FakedResources(type_name, faked)
        provisioners._RESOURCE_HANDLERS[type_name] = {
            "create": resources.create,
            "update": resources.update,
            "delete": resources.delete,
        }


# --- what holds for every type --------------------------------------------------------------------

_provision, _update, _delete = (
    stacks._provision_resource,
    stacks._update_resource,
    stacks._delete_resource,
)
_on_worker_thread = stacks._runs_on_worker_thread
_writing = threading.Lock()


def custom(type_name: str) -> bool:
    """Say whether a function of the template decides about a type, and no schema."""
    return type_name.startswith("Custom::") or type_name == "AWS::CloudFormation::CustomResource"


def check(type_name: str, properties: dict[str, Any]) -> None:
    """Reject what the registry's schema rejects."""
    if custom(type_name):
        return
    if faults := REGISTRY.schema(type_name).faults(properties):
        message = f"Properties validation failed for resource of type {type_name}: \
{'; '.join(faults)}"
        raise RefusedError(message)


def replacing(type_name: str, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Name the changed properties that make another resource."""
    return [] if custom(type_name) else REGISTRY.schema(type_name).replacing(old, new)


def subject(
    type_name: str, stack: str | None, logical_id: str | None, changed: Sequence[str] = ()
) -> dict[str, Any]:
    """Say what a line of the record is about."""
    return {
        "stack": stack,
        "logical_id": logical_id,
        "type": type_name,
        "changed": list(changed),
    }


def record(action: str, **details: Any) -> None:
    """Append one line to the record."""
    line = json.dumps({"time": time.time(), "action": action, **details})
    with _writing, RECORD.open("a") as file:
        file.write(f"{line}\n")


def announce(
    action: str,
    type_name: str,
    physical_id: str,
    properties: Mapping[str, Any],
    old_properties: Mapping[str, Any] | None = None,
) -> None:
    """Tell whoever plays the consequences, and wait until they are there."""
    if type_name not in ANNOUNCED or not (url := os.environ.get(ANNOUNCED[type_name])):
        return
    event = {
        "type": type_name,
        "physical_id": physical_id,
        "action": action,
        "properties": properties,
        "old_properties": old_properties,
    }
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ANNOUNCE_TIMEOUT_SECONDS)
    try:
        connection.request("POST", "/", body=json.dumps(event))
        response = connection.getresponse()
        said = response.read().decode(errors="replace")
    finally:
        connection.close()
    if response.status != http.client.OK:
        raise RefusedError(said)


def provision(type_name: str, logical_id: str, properties: dict[str, Any], stack: str) -> Created:
    """Create a resource."""
    details = subject(type_name, stack, logical_id)
    try:
        check(type_name, properties)
        physical_id, attributes = _provision(type_name, logical_id, properties, stack)
        try:
            announce("create", type_name, physical_id, properties)
        except Exception:
            _delete(type_name, physical_id, properties, stack, logical_id)
            raise
    except Exception as error:
        record("create", **details, error=str(error))
        raise
    record("create", **details, physical_id=physical_id)
    return physical_id, attributes


def update(  # noqa: PLR0913, PLR0917 - MiniStack's signature
    type_name: str,
    physical_id: str,
    old: dict[str, Any],
    new: dict[str, Any],
    stack: str,
    logical_id: str | None = None,
    old_attributes: dict[str, Any] | None = None,
) -> Created:
    """Update a resource in place, or replace it."""
    arguments = (type_name, physical_id, old, new, stack, logical_id, old_attributes)
    if old == new:
        return _passed_on(_update(*arguments))
    changed = replacing(type_name, old, new)
    details = subject(type_name, stack, logical_id, changed)
    try:
        check(type_name, new)
        if changed and keeps_identity(type_name, old, new):
            message = f"CloudFormation cannot update a stack when a custom-named resource \
requires replacing. Rename {physical_id} and update the stack again."
            raise RefusedError(message)
        if not changed:
            announce("update", type_name, physical_id, new, old)
        new_id, attributes = _update(*arguments)
        if new_id != physical_id:
            try:
                announce("create", type_name, new_id, new)
            except Exception:
                _delete(type_name, new_id, new, stack, logical_id)
                raise
    except Exception as error:
        record("replace" if changed else "update", **details, error=str(error))
        raise
    action = "replace" if changed or new_id != physical_id else "update"
    record(action, **details, physical_id=new_id, old_physical_id=physical_id)
    return new_id, attributes


def _passed_on(created: Any) -> Created:
    physical_id, attributes = created
    return physical_id, attributes


def keeps_identity(type_name: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Say whether the template gives a resource a name, and the same before and after."""
    schema = REGISTRY.schema(type_name)
    identity = schema.own_identity(new)
    return identity is not None and identity == schema.own_identity(old)


def delete(
    type_name: str,
    physical_id: str,
    properties: dict[str, Any],
    stack: str | None = None,
    logical_id: str | None = None,
) -> None:
    """Delete a resource."""
    details = subject(type_name, stack, logical_id)
    try:
        announce("delete", type_name, physical_id, properties)
        _delete(type_name, physical_id, properties, stack, logical_id)
    except Exception as error:
        record("delete", **details, physical_id=physical_id, error=str(error))
        raise
    record("delete", **details, physical_id=physical_id)


def hook() -> None:
    """Put all of this in the place of MiniStack's own."""
    stacks._provision_resource = provision
    stacks._update_resource = update
    stacks._delete_resource = delete
    # An announcement takes as long as it takes; the emulator must go on answering meanwhile.
    stacks._runs_on_worker_thread = lambda name: name in ANNOUNCED or _on_worker_thread(name)
    # Both what an update does and what a change set foretells.
    for module in (provisioners, stacks):
        module._replacing_change = lambda *change: bool(replacing(*change))
        module._property_recreation = recreation


@functools.cache
def recreation(type_name: str, name: str) -> str:
    """Say what a change of a top-level property does, in a change set's words."""
    if custom(type_name):
        return "Never"
    try:
        pointers = [p for p in REGISTRY.schema(type_name).create_only if p[0] == name]
    except RegistryError:
        return "Conditionally"
    if any(len(pointer) == 1 for pointer in pointers):
        return "Always"
    return "Conditionally" if pointers else "Never"


def end_with_parent() -> None:
    """End the whole process group once whoever started it is gone and its pipe closed."""

    def wait() -> None:
        os.read(sys.stdin.fileno(), 1)  # nothing ever comes; it returns when the pipe closes
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Serve until told to stop."""
    end_with_parent()
    teach_types()
    hook()
    # Functions get what Lambda would give them, not this repository.
    os.environ["PYTHONPATH"] = os.environ["REHEARSAL_LAMBDA_PATH"]
    sys.argv = ["ministack"]
    serve()


if __name__ == "__main__":
    main()
