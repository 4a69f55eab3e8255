"""Compare a policy with heuristics: the same implementation as ``ghostlab compare``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import _native, errors
from .policy import Policy
from .spec import items, natural, real, shortly


def evaluate(
    policy: Policy | bytes | str,
    workloads: str | Sequence[str] | Mapping[str, Sequence[str]],
    seeds: int | Sequence[int] = 20,
    against: Sequence[str] = ("gittins", "cfs", "rr"),
    *,
    wakeup_preemption: bool = False,
    fallback: str = "",
    held_out: Mapping[str, str] | None = None,
    bursts: float = 2000,
    warmup: float = 0.25,
    timing: str = "sync",
    workers: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Run a policy and others on the same instances and compare them pair by pair.

    Args:
        policy: a model (``load_policy``, or ONNX bytes), or the name of a scheduler.
        workloads: specs or rt-app paths; or names for groups of specs, of which repetition r takes number r
            modulo their count.
        seeds: how many repetitions, from seed 0 on, or the seeds themselves, one after the other, as in
            ``range(100, 120)``.
        against: names of schedulers, as in ``"gittins+wp@linux"``.
        wakeup_preemption: of the policy, if it is a model.
        fallback: the heuristic that answers where the model cannot; "" is las for keys, rr for places.
        held_out: by workload, in what it differs from training: "seed", "parameters" or "kind".
        bursts: horizon in mean interarrivals, where the workload has no duration of its own.
        warmup: share of the horizon left out of means and percentiles.
        timing: "sync", "async+DELAY" or "hold=BOUND+DELAY".
        workers: threads; 0 is one per CPU.
        progress: called now and then with the runs done and their count.

    Returns:
        The structure of ``summary.json``: ``{"workloads": {name: {"held_out", "schedulers", "paired"}}}``, and
        the manifest. ``paired`` has the differences a minus b with their 95 % intervals.
    """
    if isinstance(workloads, (str, os.PathLike)):
        workloads = [os.fspath(workloads)]
    groups: dict[Any, list[Any]]
    if isinstance(workloads, Mapping):
        groups = {
            name: items(f"workloads[{name!r}]", specs, "a list of specs and paths")
            for name, specs in workloads.items()
        }
    else:
        listed = [str(w) for w in items("workloads", workloads, "a list of specs and paths")]
        groups = {w: [w] for w in listed}
        if len(groups) < len(listed):
            raise errors.ConfigError(f"workloads: {max(listed, key=listed.count)!r} stands twice")
    held_out = {} if held_out is None else held_out
    if not isinstance(held_out, Mapping) or any(name not in groups for name in held_out):
        raise errors.ConfigError(f"held_out: want a dict by workload, of {', '.join(groups)}, got {held_out!r}")
    if not isinstance(wakeup_preemption, bool):
        raise errors.ConfigError(f"wakeup_preemption: want True or False, got {shortly(wakeup_preemption)}")
    if progress is not None and not callable(progress):
        raise errors.ConfigError(
            f"progress: want a function of what is done and the total, got {shortly(progress)}"
        )
    first, count = _successive(seeds)
    model: bytes | None = None
    if isinstance(policy, str):
        own = policy
    elif isinstance(policy, (Policy, bytes)):
        model = bytes(policy)
        own = "learned+wp" if wakeup_preemption else "learned"
    else:
        raise errors.ConfigError(
            f"policy: want one (load_policy takes a path), a model's bytes or a scheduler's name, "
            f"got {shortly(policy)}"
        )
    names = [own, *(s for s in items("against", against, "a list of schedulers' names") if s != own)]
    report: dict[str, Any] = _native.call_interruptible(
        "compare",
        {
            "groups": groups,
            "order": list(groups),
            "held_out": dict(held_out),
            "schedulers": names,
            "model": model,
            "fallback": fallback,
            "reps": count,
            "seed": first,
            "bursts": real(bursts),
            "warmup": real(warmup),
            "timing": timing,
            "workers": workers,
        },
        progress,
    )
    report["manifest"]["written"] = report["manifest"]["written"].isoformat()
    report["workloads"] = {name: report["workloads"][name] for name in groups}
    for w in report["workloads"].values():
        w["schedulers"] = {name: w["schedulers"][name] for name in names}
    return report


def _successive(seeds: Any) -> tuple[int, int]:
    """The first seed and their number."""
    if hasattr(seeds, "__index__") and np.ndim(seeds) == 0:
        count = natural("seeds", seeds)
        if not count:
            raise errors.ConfigError("seeds: 0 leaves nothing to compare")
        return 0, count
    chosen = [
        natural(f"seeds[{i}]", s)
        for i, s in enumerate(items("seeds", seeds, "a number, or seeds one after the other"))
    ]
    if not chosen or chosen != list(range(chosen[0], chosen[0] + len(chosen))):
        raise errors.ConfigError(f"seeds: want a number, or seeds one after the other, got {shortly(seeds)}")
    return chosen[0], len(chosen)
