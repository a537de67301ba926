"""From a configuration to the plan: the only place where the parts of sizing meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from kascade.catalog.models import MODELS, ModelFacts
from kascade.config.blocks import (
    ServingConfig,
)
from kascade.config.dependencies import DependenciesChart
from kascade.config.zone_offerings import ZoneOfferings
from kascade.errors import InvalidConfigError, Problem
from kascade.plan import (
    EnginePlan,
    ServingPlan,
)
from kascade.planning.loading import read_config
from kascade.rules.configuration import check_config
from kascade.sizing import host
from kascade.sizing.addresses import addresses_fit
from kascade.sizing.advice import advise
from kascade.sizing.assembly import assemble
from kascade.sizing.closed import check_closed
from kascade.sizing.draft import Draft, Group
from kascade.sizing.engines import plan_engine
from kascade.sizing.fit import daemons_on, gpus_fit, pods_fit, system_nodes_fit
from kascade.sizing.inputs import EngineInput
from kascade.sizing.l2 import room_for_writers
from kascade.sizing.one_replica import check_parallelism, size_gpu, size_host
from kascade.sizing.remedies import advised
from kascade.sizing.shared_tier import give_to_the_pool, more_room, share_of
from kascade.sizing.template_size import check_template
from kascade.sizing.tenancy import (
    shared_places,
)
from kascade.sizing.tiers import advise_on_zones, zones_of_l2
from kascade.sizing.zones import check_zone_offerings


def plan_file(path: Path | str) -> ServingPlan:
    """Read a configuration file and plan it.

    Args:
        path: The YAML file.

    Returns:
        The plan.

    Raises:
        InvalidConfigError: With every error in the file, those of its shape and those that
            only show when it is sized.
    """
    loaded = read_config(Path(path))
    if loaded.config is None:
        raise InvalidConfigError(loaded.source, loaded.problems)
    draft = Draft(
        config=loaded.config,
        local_models=loaded.local_models,
        zone_offerings=loaded.zone_offerings,
        dependencies_chart=loaded.dependencies_chart,
    )
    plan = _plan(draft, sound=not loaded.problems)
    loaded = loaded.add(draft.problems)
    if loaded.problems or plan is None:
        raise InvalidConfigError(loaded.source, loaded.problems)
    return plan


def plan_serving(
    config: ServingConfig,
    *,
    local_models: Mapping[str, ModelFacts] | None = None,
    zone_offerings: ZoneOfferings | None = None,
    dependencies_chart: DependenciesChart | None = None,
) -> ServingPlan:
    """Work out everything that follows from a configuration.

    Args:
        config: The configuration.
        local_models: Facts of models that the catalog lacks, by the model's short name.
        zone_offerings: What the file holds that the configuration names in ``zone_offerings``,
            taken by :func:`kascade.config.zone_offerings.parse_zone_offerings`.
        dependencies_chart: The chart that the configuration names, see
            ``kascade.config.dependencies.read_dependencies_chart``.

    Returns:
        The plan.

    Raises:
        InvalidConfigError: With every error.
    """
    draft = Draft(
        config=config,
        local_models=local_models or {},
        zone_offerings=zone_offerings,
        dependencies_chart=dependencies_chart,
    )
    problems = list(check_config(config))
    if config.zone_offerings is not None and zone_offerings is None:
        message = "what is in this file is not known here; plan the file, or hand its content over"
        problems.append(Problem(path=("zone_offerings",), message=message))
    if config.kubernetes.dependencies_chart is not None and dependencies_chart is None:
        message = "what is in this chart is not known here; plan the file, or hand the chart over"
        problems.append(Problem(path=("kubernetes", "dependencies_chart"), message=message))
    plan = _plan(draft, sound=not problems)
    problems += [p for p in draft.problems if p not in problems]
    if problems or plan is None:
        raise InvalidConfigError("configuration", problems)
    return plan


def _plan(draft: Draft, *, sound: bool) -> ServingPlan | None:
    """Return the plan, or None when there are problems.

    Args:
        draft: The configuration; gets the problems that are found.
        sound: False when errors are known already; then this only finds further ones.
    """
    groups, engines, carried = _sized(draft, sound=sound)

    def plan(changed: ServingConfig) -> tuple[list[Problem], list[Problem]]:
        other = replace(draft, config=changed, problems=[], warnings=[])
        _sized(other, sound=sound)
        return [*check_config(changed), *other.problems], other.warnings

    before = [*check_config(draft.config), *draft.problems] if draft.has_remedies else []
    with_advice = partial(advised, config=draft.config, before=before, plan=plan)
    draft.problems[:] = with_advice(draft.problems)
    draft.warnings[:] = with_advice(draft.warnings)
    if draft.problems or not sound:
        return None
    return assemble(draft, groups, engines, carried)


def _sized(
    draft: Draft, *, sound: bool
) -> tuple[dict[str, Group], list[EnginePlan], dict[str, tuple[host.Daemon, ...]]]:
    """Size everything, and note what is wrong and what deserves a look."""
    groups = draft.groups()
    inputs = _inputs(draft, groups)
    gpus_fit(draft, groups, inputs)
    give_to_the_pool(draft, groups)
    carried = {name: daemons_on(draft, group) for name, group in groups.items()}
    engines = _engines(draft, groups, inputs, carried)
    pods_fit(draft, groups, carried)
    system_nodes_fit(draft)
    if (too_large := check_template(draft.config)) is not None:
        draft.problems.append(too_large)
    addresses_fit(draft, groups)
    draft.problems += check_closed(draft, groups)
    check_zone_offerings(draft, groups)
    advise(draft, groups)
    advise_on_zones(draft, groups, engines)
    if sound:
        draft.problems += shared_places(engines)
    return groups, engines, carried


def _inputs(draft: Draft, groups: Mapping[str, Group]) -> list[EngineInput]:
    inputs = []
    only = next(iter(groups)) if len(draft.config.instance_groups) == 1 and groups else None
    for index, model in enumerate(draft.config.models):
        group = groups.get(model.instance_group or only or "")
        facts = draft.local_models.get(model.name) or MODELS.get(model.model)
        if group is None or facts is None:
            continue
        isolated = model.tenancy.kind == "isolated"
        tenants = model.tenants if isolated else (None,)
        inputs += [
            EngineInput(
                index=index,
                # An isolated tenant's engine is a model of its own in all that follows.
                model=model.model_copy(update={"name": name}),
                facts=facts,
                group=group.config,
                group_index=group.index,
                instance=group.instance,
                packing=group.packing,
                config=draft.config,
                image=draft.image("engine"),
                usd_per_hour=group.price_in(draft.config.region),
                tenant=tenant,
                l2_zones=zones_of_l2(draft, groups),
            )
            for name, tenant in zip(model.engine_names, tenants, strict=True)
        ]
    return inputs


def _engines(
    draft: Draft,
    groups: Mapping[str, Group],
    inputs: Sequence[EngineInput],
    carried: Mapping[str, tuple[host.Daemon, ...]],
) -> list[EnginePlan]:
    planned: list[EnginePlan] = []
    told: set[int] = set()
    for given in inputs:
        fits = check_parallelism(given)
        gpus = size_gpu(given) if fits else None
        share = share_of(draft, given, groups)
        if share is not None and gpus is not None and draft.curvine is not None:
            chunks = gpus.max_model_len // draft.config.cache.chunk_size
            share = room_for_writers(share, objects=chunks * given.tp)
        if share is not None and share.capacity_gib < 1 and not draft.problems:
            draft.problems.append(
                Problem(
                    path=("cache", "l2"),
                    message=f"the pool has no room for {given.model.name}: {share.reason}",
                    also_reads=(("instance_groups",), given.path("tensor_parallel")),
                    remedies=more_room(draft, groups[given.group.name], gpus=given.tp),
                    code="l2-of-an-engine",
                )
            )
        ram = size_host(given, carried[given.group.name]) if fits else None
        if gpus is not None and ram is not None:
            planned.append(
                plan_engine(
                    given,
                    gpus=gpus,
                    ram=ram,
                    l2=share,
                )
            )
        # All tenants' engines of a model are alike, and so are their errors.
        if given.index not in told:
            draft.problems += given.problems
            draft.warnings += given.warnings
        told.add(given.index)
    return planned
