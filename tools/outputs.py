"""Reads what one synth left behind: templates in the cloud assembly, manifests in dist/."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The two folders of one deployment, and what is in them."""

    name: str
    assembly: Path
    dist: Path

    @property
    def template_files(self) -> dict[str, Path]:
        """Return every template by its stack's artifact id."""
        artifacts = self.manifest()["artifacts"]
        return {
            name: self.assembly / artifact["properties"]["templateFile"]
            for name, artifact in sorted(artifacts.items())
            if artifact["type"] == "aws:cloudformation:stack"
        }

    @property
    def manifest_files(self) -> list[Path]:
        """Return every file of Kubernetes objects."""
        return sorted((self.dist / "manifests").rglob("*.yaml"))

    def manifest(self) -> Document:
        """Return the assembly's own table of contents."""
        document: Document = json.loads((self.assembly / "manifest.json").read_text())
        return document

    def templates(self) -> dict[str, Document]:
        """Return every template, parsed."""
        return {name: json.loads(path.read_text()) for name, path in self.template_files.items()}

    def objects(self) -> list[tuple[Path, Document]]:
        """Return every Kubernetes object with the file it is in."""
        return [
            (path, document)
            for path in self.manifest_files
            for document in yaml.load_all(path.read_text(), Loader=yaml.CSafeLoader)
            if document
        ]

    def plan(self) -> Document:
        """Return the plan that everything else was rendered from."""
        document: Document = json.loads((self.dist / "plan.json").read_text())
        return document


def cdk_context() -> Document:
    """Return cdk.json's feature flags, which only the CDK command line hands to an app."""
    root = Path(__file__).parents[1]
    context: Document = json.loads((root / "cdk.json").read_text())["context"]
    return context
