"""What a deployment of one set of templates over another would replace or delete.

By the registry schemas that cfn-lint carries: a change of a createOnly property makes another
resource, and so does a reference from a createOnly property to a resource that is replaced.
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.rehearsal.aws.registry import Registry, RegistryError

Template = Mapping[str, Any]
Place = tuple[str, str]
"""Stack and logical id."""

CUSTOM = ("Custom::", "AWS::CloudFormation::CustomResource")


def registry(region: str) -> Registry:
    """Open the schemas of a region."""
    return Registry(Path(str(files("cfnlint"))) / "data" / "schemas", region)


def lost(
    before: Mapping[str, Template], after: Mapping[str, Template], schemas: Registry
) -> dict[str, str]:
    """Say which resources would not survive, and why.

    Custom resources are left out: what becomes of them is their own function's to decide.

    Args:
        before: Deployed templates by stack name.
        after: The templates of the update.
        schemas: Schemas of the region.

    Returns:
        Reasons by ``stack/logical id (type)``.
    """
    old, new = dict(_resources(before)), dict(_resources(after))
    reasons: dict[Place, str] = {}
    for place, resource in old.items():
        kind = resource["Type"]
        if kind.startswith(CUSTOM):
            continue
        if place not in new:
            reasons[place] = "gone, or of another name"
        elif new[place]["Type"] != kind:
            reasons[place] = f"now a {new[place]['Type']}"
        elif changed := _create_only(schemas, resource, new[place]):
            reasons[place] = f"another {', '.join(changed)}"
    _follow(reasons, new, schemas, after)
    return {
        f"{stack}/{name} ({old[stack, name]['Type']})": reason
        for (stack, name), reason in sorted(reasons.items())
    }


def _resources(templates: Mapping[str, Template]) -> Iterator[tuple[Place, dict[str, Any]]]:
    for stack, template in templates.items():
        for name, resource in template["Resources"].items():
            yield (stack, name), resource


def _create_only(schemas: Registry, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    try:
        schema = schemas.schema(old["Type"])
    except RegistryError:
        return []
    return schema.replacing(old.get("Properties", {}), new.get("Properties", {}))


def _follow(
    reasons: dict[Place, str],
    new: Mapping[Place, dict[str, Any]],
    schemas: Registry,
    templates: Mapping[str, Template],
) -> None:
    """Add what names a replaced resource in a property that may not change."""
    exports = {
        output["Export"]["Name"]: (stack, output["Value"])
        for stack, template in templates.items()
        for output in template.get("Outputs", {}).values()
        if isinstance(output.get("Export", {}).get("Name"), str)
    }
    grown = True
    while grown:
        grown = False
        for (stack, name), resource in new.items():
            if (stack, name) in reasons or resource["Type"].startswith(CUSTOM):
                continue
            properties = resource.get("Properties", {})
            cut = _without(properties, stack, reasons, exports)
            if changed := _create_only(
                schemas, resource, {"Type": resource["Type"], "Properties": cut}
            ):
                reasons[stack, name] = f"its {', '.join(changed)} names one that is replaced"
                grown = True


def _without(  # noqa: PLR0911 - one for each form of reference
    value: Any, stack: str, reasons: Mapping[Place, str], exports: Mapping[str, tuple[str, Any]]
) -> Any:
    """Return a value with every reference to a replaced resource changed."""
    match value:
        case {"Ref": name} if (stack, name) in reasons:
            return {"Ref": f"another {name}"}
        case {"Fn::GetAtt": [name, attribute]} if (stack, name) in reasons:
            return {"Fn::GetAtt": [f"another {name}", attribute]}
        case {"Fn::ImportValue": name} if name in exports:
            home, exported = exports[name]
            if _without(exported, home, reasons, exports) != exported:
                return {"Fn::ImportValue": f"another {name}"}
            return value
        case dict():
            return {key: _without(each, stack, reasons, exports) for key, each in value.items()}
        case list():
            return [_without(each, stack, reasons, exports) for each in value]
        case _:
            return value
