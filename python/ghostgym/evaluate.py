"""Compare a policy with heuristics: the same implementation as ``ghostlab compare``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _native, errors
from .policy import Policy


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
        The structure of ``summary.json``: ``{"workloads": {name: {"held_out", "schedulers", "paired"}}}``.
        ``paired`` has the differences a minus b with their 95 % intervals.
    """
    if isinstance(workloads, str):
        workloads = [workloads]
    groups = workloads if isinstance(workloads, Mapping) else {w: [w] for w in workloads}
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    if not len(chosen) or list(chosen) != list(range(chosen[0], chosen[0] + len(chosen))):
        raise errors.ConfigError(f"seeds: want a number or seeds one after the other, not {seeds!r}")
    model: bytes | None = None
    if isinstance(policy, str):
        own = policy
    else:
        model = bytes(policy)
        own = "learned+wp" if wakeup_preemption else "learned"
    names = [own, *(s for s in against if s != own)]
    report: dict[str, Any] = _native.call_interruptible(
        "compare",
        {
            "groups": {name: list(specs) for name, specs in groups.items()},
            "order": list(groups),
            "held_out": dict(held_out or {}),
            "schedulers": names,
            "model": model,
            "fallback": fallback,
            "reps": len(chosen),
            "seed": int(chosen[0]),
            "bursts": float(bursts),
            "warmup": float(warmup),
            "timing": timing,
            "workers": workers,
        },
        progress,
    )
    report["manifest"]["written"] = report["manifest"]["written"].isoformat()
    return report
