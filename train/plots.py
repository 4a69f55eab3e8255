"""Pictures of a training run and of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def _figure() -> tuple[Any, Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")


def learning_curve(curve: list[dict[str, float]], path: Path) -> None:
    """How the averaged policy does on instances for validation, over the decisions it has learnt from."""
    figure, axes = _figure()
    axes.plot(
        [c["decisions"] / 1e6 for c in curve],
        [c["ratio"] for c in curve],
        marker="o",
        color="#1f6f8b",
    )
    axes.axhline(1, color="#888888", linestyle="--", linewidth=1)
    axes.annotate("round robin", (curve[-1]["decisions"] / 1e6, 1), ha="right", va="bottom")
    axes.set_yscale("log")
    ticks = [0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5]
    low, high = min(c["ratio"] for c in curve), max(c["ratio"] for c in curve)
    axes.set_yticks([t for t in ticks if low * 0.8 <= t <= max(high, 1) * 1.2], minor=False)
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    axes.yaxis.set_minor_formatter(lambda _y, _: "")
    axes.set_xlabel("decisions, millions")
    axes.set_ylabel("mean slowdown relative to round robin")
    axes.set_title("Learning: geometric mean over workloads, instances for validation")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=120)


def latency_cdf(cdf: dict[str, Any], workload: str, path: Path) -> None:
    """Wakeup latencies of every scheduler on one workload: the share of wakeups that waited longer."""
    from matplotlib import colormaps

    figure, axes = _figure()
    colours = colormaps["tab10"]
    shown = [
        s
        for s in ("learned", "learned+wp", "gittins", "gittins+wp", "cfs+wp", "las", "rr", "fifo")
        if s in cdf[workload]
    ]
    for i, scheduler in enumerate(shown):
        c = cdf[workload][scheduler]
        values = [max(v, 0.05) for v in c["us"]]
        axes.step(
            values,
            [max(1 - s, 1e-6) for s in c["share"]],
            where="post",
            label=scheduler,
            color=colours(i % 10),
            linewidth=2.2 if scheduler.startswith("learned") else 1.3,
            linestyle="-" if not scheduler.endswith("+wp") else "--",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(1e-5, 1)
    axes.set_xlabel("wakeup latency, µs")
    axes.set_ylabel("share of wakeups that waited longer")
    axes.set_title(f"Wakeup latency on {workload}")
    axes.legend(ncols=2, fontsize=8)
    axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=120)
