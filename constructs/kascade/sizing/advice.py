"""What deploys but deserves a look, and programs that were never run together."""

from __future__ import annotations

from collections.abc import Mapping

from kascade.catalog.images import IMAGES, KNOWN_GOOD, run_together
from kascade.catalog.instances import OFFERED_IN
from kascade.catalog.kubernetes import (
    EKS_EXTENDED_USD_PER_HOUR,
    EKS_USD_PER_HOUR,
    SUPPORT_AS_OF,
    SUPPORT_ENDS,
    support_of,
)
from kascade.catalog.regions import REGIONS
from kascade.config.blocks import (
    CurvineConfig,
    DirectoryConfig,
)
from kascade.errors import Problem
from kascade.sizing import host, pool
from kascade.sizing.addresses import advise_on_ranges
from kascade.sizing.draft import Draft, Group
from kascade.sizing.remedies import setting
from kascade.sizing.surroundings import advise_on_surroundings
from kascade.units import GB, counted


def advise(draft: Draft, groups: Mapping[str, Group]) -> None:
    """Note what deserves a look; reject programs that were never run together."""
    for group in groups.values():
        _of_offers(draft, group)
        _of_price(draft, group)
        _of_spot(draft, group)
        _of_few_cpus(draft, group)
        idle = sum(group.packing.free_gpus)
        largest = max(
            (m.tensor_parallel for m in draft.config.models if draft.runs_on(m, group)),
            default=0,
        )
        # Karpenter makes no instance that no pod asks for.
        fixed = draft.config.hyperpod.autoscaling is None
        if fixed and group.packing.engines_per_node and idle > largest:
            draft.warnings.append(
                Problem(
                    path=("instance_groups", group.index, "count"),
                    message=f"{idle} of "
                    f"{counted(group.config.count * group.instance.gpus, 'GPU')} of "
                    f"{group.config.name!r} {'runs' if idle == 1 else 'run'} no model; {largest} "
                    "would be enough for a roll-out to surge",
                )
            )
        if group.config.count and not group.packing.engines_per_node:
            draft.warnings.append(
                Problem(
                    path=("instance_groups", group.index),
                    message=f"no model runs on {group.config.name!r}; its "
                    f"{counted(group.config.count, 'instance')} "
                    f"{_idle(group.config.count, stores=bool(draft.l2_gib(group)))}",
                )
            )
    draft.warnings += advise_on_ranges(draft.config)
    region = REGIONS.get(draft.config.region)
    agent = draft.config.images.health_agent or draft.config.hyperpod.existing
    if region and not region.health_agent_account and not agent:
        draft.problems.append(
            Problem(
                path=("images", "health_agent"),
                message=f"AWS publishes no registry for HyperPod's health agent in "
                f"{region.name}; name an image you mirrored, or choose another region",
                also_reads=(("region",),),
            )
        )
    if draft.config.on_delete == "retain":
        draft.warnings.append(
            Problem(
                path=("on_delete",),
                message="log groups and buckets stay when their stacks are deleted, and cost what "
                "they hold; to let them go, set it to destroy and deploy with ALLOW_DESTROY=1 "
                "before you delete (docs/deletion.md)",
            )
        )
    _of_versions(draft)
    _of_support(draft)
    _of_access(draft)
    _of_updates(draft)
    _of_l2(draft)
    _of_the_janitor(draft)
    _of_autoscaling(draft)
    advise_on_surroundings(draft)
    if not draft.config.kubernetes.admin_role_arns and draft.config.kubernetes.existing is None:
        draft.warnings.append(
            Problem(
                path=("kubernetes", "admin_role_arns"),
                message="no role may enter the cluster, so nobody can use kubectl"
                + _to_make_by_hand(draft)
                + "; name one",
            )
        )
    theirs = [i for i, model in enumerate(draft.config.models) if model.mode == "operator"]
    if theirs and draft.config.kubernetes.existing is not None:
        draft.warnings.append(
            Problem(
                path=("models", theirs[0], "mode"),
                message="HyperPod's inference add-on has to be on that cluster already, and the "
                "subnets of its load balancers need the tag kubernetes.io/role/internal-elb=1 "
                "(docs/existing.md)",
            )
        )
    ours = any(model.mode == "deployment" for model in draft.config.models)
    if draft.config.images.router is None and ours:
        draft.warnings.append(
            Problem(
                path=("images", "router"),
                message=f"{IMAGES['router'].reference} is a nightly build, the only kind that "
                "is published; build images/router and name it here before production",
            )
        )


def _idle(count: int, *, stores: bool) -> str:
    if count == 1:
        return "only stores L2 blocks" if stores else "idles"
    return "only store L2 blocks" if stores else "idle"


def _of_offers(draft: Draft, group: Group) -> None:
    for kind in group.types:
        regions = OFFERED_IN.get(kind.name, ())
        if draft.config.region in REGIONS and draft.config.region not in regions:
            known = ", ".join(region for region in regions if region in REGIONS) or "none"
            draft.warnings.append(
                Problem(
                    path=("instance_groups", group.index, group.config.types_field),
                    message=f"{kind.name} is not listed for "
                    f"{draft.config.region} (listed: {known}); the list lags, so ask your AWS "
                    "team before you deploy",
                )
            )


def _of_price(draft: Draft, group: Group) -> None:
    price = group.price_in(draft.config.region)
    if price.value is None and group.config.count and draft.config.hyperpod.existing is None:
        draft.warnings.append(
            Problem(
                path=("instance_groups", group.index, "usd_per_hour"),
                message=f"no public price of {group.instance.name} is known, so what it and the "
                "deployment cost is unknown; give what you pay for one instance",
            )
        )


def _of_spot(draft: Draft, group: Group) -> None:
    if group.config.capacity.kind != "spot":
        return
    lost = " and its part of L2" if draft.l2_gib(group) else ""
    least = "; min_count holds at the start only" if group.config.min_count else ""
    draft.warnings.append(
        Problem(
            path=("instance_groups", group.index, "capacity"),
            message=f"a spot node of {group.config.name!r} goes with two minutes' notice, and with "
            f"it the answers under way, L1{lost}{least}; keep what must not stop on another group",
        )
    )


def _of_versions(draft: Draft) -> None:
    """Reject programs that were never run together; of images of your own, only warn."""
    own = draft.config.images
    if own.engine is not None:
        known = " and ".join(f"{k} {v}" for k, v in IMAGES["engine"].carries.items())
        draft.warnings.append(
            Problem(
                path=("images", "engine"),
                message=f"nothing here knows what is in {own.engine}; its arguments are those "
                f"of {known}, and other versions may understand each other and still never "
                "hit. Run `kascade verify` once it is up",
            )
        )
        return
    roles = ["engine", *(["router"] if own.router is None else [])]
    carried = {k: v for role in roles for k, v in IMAGES[role].carries.items()}
    if run_together(carried):
        return
    named = ", ".join(f"{name} {version}" for name, version in carried.items())
    good = "; ".join(", ".join(f"{k} {v}" for k, v in row.items()) for row in KNOWN_GOOD)
    draft.problems.append(
        Problem(
            path=("images",),
            message=f"the catalog's images carry {named}, which were never run together (known "
            f"to be good: {good}); name an engine image of your own to go on without that",
            also_reads=(("images", "engine"), ("images", "router")),
        )
    )


def _of_l2(draft: Draft) -> None:
    l2, percentage = draft.config.cache.l2, draft.config.hyperpod.tiered_storage_percentage
    names = {"curvine": "Curvine", "directory": "a directory", "none": "off"}
    if percentage is not None and l2.kind in names:
        draft.warnings.append(
            Problem(
                path=("hyperpod", "tiered_storage_percentage"),
                message=f"{percentage} % of each node's RAM is lent to HyperPod's managed "
                f"tier, which no engine here reads: L2 is {names[l2.kind]}. Leave the field "
                "out to give that RAM to L1",
            )
        )
    if l2.kind == "directory" and not l2.janitor.enabled:
        draft.warnings.append(
            Problem(
                path=("cache", "l2"),
                message="engines delete only what they wrote since their own start, so what "
                f"restarted ones left fills {l2.claim} beyond {l2.capacity_gib} GiB; delete "
                "old files there, or give the claim more room than that",
            )
        )


def _of_few_cpus(draft: Draft, group: Group) -> None:
    """Warn of a node whose network is faster than its CPUs can move Curvine's bytes."""
    if draft.curvine is None or not group.packing.engines_per_node:
        return
    traffic = host.curvine_traffic(group.instance)
    if not traffic.cpu_bound:
        return
    draft.warnings.append(
        Problem(
            path=("instance_groups", group.index, group.config.types_field),
            message=f"the network of {group.instance.name} could read L2 at a rate for which "
            f"Curvine takes {traffic.wanted_millicores / 1000:.1f} of {group.instance.vcpus} CPUs; "
            f"{host.L2_CPU_SHARE:.0%} are kept for that, so a node reads at most "
            f"{traffic.bytes_per_second / GB:.1f} GB/s. A type with more vCPUs for the same "
            "network reads faster",
        )
    )


def _of_autoscaling(draft: Draft) -> None:
    if draft.config.hyperpod.autoscaling is None:
        return
    draft.warnings.append(
        Problem(
            path=("hyperpod", "autoscaling"),
            message="the template states 0 instances for every group and Karpenter fills them; "
            "AWS does not say what a later change of a group's other settings does to instances "
            "that run, so try one on a cluster without traffic first",
        )
    )


def _of_the_janitor(draft: Draft) -> None:
    l2 = draft.config.cache.l2
    if not isinstance(l2, CurvineConfig | DirectoryConfig):
        return
    path = ("cache", "l2", "janitor")
    if not l2.janitor.enabled:
        draft.warnings.append(
            Problem(
                path=(*path, "enabled"),
                message="nothing but age bounds the shared directories: LMCache evicts only "
                "what it wrote since its own start, and no longer once files have vanished. "
                "Empty and short files stay hits that nobody can load"
                + (
                    f", and an engine that stores nothing for {counted(l2.ttl_hours, 'hour')} "
                    "loses the directory it writes through and never stores again"
                    if isinstance(l2, CurvineConfig)
                    else ""
                ),
            )
        )
    elif l2.janitor.high_water < pool.EVICT_AT:
        draft.warnings.append(
            Problem(
                path=(*path, "high_water"),
                message=f"got {l2.janitor.high_water}, below {pool.EVICT_AT} where LMCache "
                "evicts what was not used lately: the janitor comes first and deletes what is "
                "oldest, used or not",
            )
        )
    if isinstance(l2, CurvineConfig) and l2.janitor.fresh_seconds >= l2.ttl_hours * 3600:
        draft.warnings.append(
            Problem(
                path=(*path, "fresh_seconds"),
                message=f"got {l2.janitor.fresh_seconds}, and Curvine deletes everything after "
                f"{counted(l2.ttl_hours, 'hour')}: the janitor never finds a file that is old "
                "enough",
            )
        )


def _of_access(draft: Draft) -> None:
    for index, network in enumerate(draft.config.kubernetes.public_access_cidrs):
        if network.endswith("/0"):
            draft.warnings.append(
                Problem(
                    path=("kubernetes", "public_access_cidrs", index),
                    message=f"{network} lets the whole internet ask the EKS API who it is; name "
                    "the networks of those who need it",
                )
            )


def _of_updates(draft: Draft) -> None:
    updates = draft.config.hyperpod.software_updates
    if updates is None:
        return
    largest = max((group.count for group in draft.config.instance_groups), default=0)
    path = ("hyperpod", "software_updates")
    at_once = updates.batch_count or 0
    if largest > 1 and (updates.batch_percentage == 100 or at_once >= largest):  # noqa: PLR2004
        field = "batch_percentage" if updates.batch_count is None else "batch_count"
        draft.warnings.append(
            Problem(
                path=(*path, field),
                message="an update takes every node of a group away at once, and nothing answers "
                "meanwhile",
                remedies=((setting((*path, field), 50 if field == "batch_percentage" else 1),),),
                code="update-of-all",
            )
        )


def _of_support(draft: Draft) -> None:
    """Say what becomes of a Kubernetes version, by the calendar's dates and no clock."""
    version, own = draft.config.kubernetes.version, draft.config.kubernetes.existing is None
    if not own or version not in SUPPORT_ENDS:
        return
    standard, extended = SUPPORT_ENDS[version]
    dearer = (
        f"{EKS_EXTENDED_USD_PER_HOUR:.2f} instead of {EKS_USD_PER_HOUR:.2f} USD/h for its control "
        f"plane until {extended}, when EKS upgrades it by itself"
    )
    said = {
        "standard": "",
        "ending": f"EKS's standard support of {version} ends on {standard}; from then on it takes "
        f"{dearer}",
        "extended": f"EKS's standard support of {version} ended on {standard}; it takes {dearer}",
        "over": f"EKS's support of {version} ended on {extended}: it makes no such cluster, and "
        "has upgraded those there were",
    }[support_of(version)]
    if said:
        newest = max(SUPPORT_ENDS, key=lambda known: SUPPORT_ENDS[known][0])
        draft.warnings.append(
            Problem(
                path=("kubernetes", "version"),
                message=f"{said}. {newest} has it until {SUPPORT_ENDS[newest][0]} (dates as of "
                f"{SUPPORT_AS_OF})",
            )
        )


def _to_make_by_hand(draft: Draft) -> str:
    l2, models = draft.config.cache.l2, draft.config.models
    secrets = {m.huggingface_token_secret for m in models if m.huggingface_token_secret}
    claims = {m.weights.name for m in models if m.weights.kind == "claim"}
    if l2.kind == "directory":
        claims.add(l2.claim)
    things = [f"the Secret {name}" for name in sorted(secrets)]
    things += [f"the claim {name}" for name in sorted(claims)]
    return f", nor make {', '.join(things)} in namespace {draft.config.name}" if things else ""
