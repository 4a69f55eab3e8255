"""Train, export, deploy, compare: the whole project in a few minutes. Run it by ``make demo``.

Trains a policy for at most a minute, writes it to ONNX, loads that file in the Go agent and compares it with
heuristics on workloads and seeds that it was not trained on. Leaves a folder: model.onnx, summary.md,
summary.json, results.csv, learning_curve.png, latency_cdf.png, and timelines of one run each of the best
heuristic and the learned policy.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import ghostgym
import numpy as np
from ghostgym import _native, export

sys.path.insert(0, str(Path(__file__).resolve().parent))
import es
import plots

HELD_OUT_KIND = "phase"
SCHEDULERS = [
    "learned", "learned+wp", "gittins", "gittins+wp", "cfs", "cfs+wp",
    "fifo", "rr", "front", "random", "las", "sept",
]  # fmt: skip
RIVALS = ["fifo", "rr", "front", "random"]  # those that a claim is made against

# name -> (held out in, specs; several under one name differ in CPUs and scale)
WORKLOADS: dict[str, tuple[str, list[str]]] = {
    "bimodal": ("seed", ["bimodal:load=0.8:cpus=6"]),
    "interactive": ("seed", ["interactive:load=0.64:cpus=6"]),
    "heavytail": ("seed", ["heavytail:load=0.8:cpus=6"]),
    "sched_bench": ("seed", ["sched_bench:cpus=6"]),
    "bimodal, other machines": (
        "parameters",
        ["bimodal:load=0.85:cpus=2:scale=4", "bimodal:load=0.85:cpus=12:scale=1/4"],
    ),
    "rocksdb, other machines": (
        "parameters",
        ["rocksdb:load=0.8:cpus=2:scale=1/4", "rocksdb:load=0.8:cpus=16:scale=4"],
    ),
    "heavytail, other machines": (
        "parameters",
        ["heavytail:load=0.9:cpus=2:scale=1/4", "heavytail:load=0.9:cpus=16:scale=4"],
    ),
    "interactive, other machines": (
        "parameters",
        ["interactive:load=0.7:cpus=2:scale=4", "interactive:load=0.7:cpus=12:scale=1/4"],
    ),
    "frame, other machines": (
        "parameters",
        ["frame:load=0.4:cpus=2:scale=1.2", "frame:load=0.4:cpus=12:scale=1/4"],
    ),
    HELD_OUT_KIND: ("kind", [f"{HELD_OUT_KIND}:load=0.8:cpus=6"]),
}


def say(line: str) -> None:
    print(line, flush=True)


def compare(model: bytes, reps: int, bursts: float, out: Path, command: str) -> dict[str, Any]:
    """The comparison, in one call of what ``ghostlab compare`` calls; leaves its files in ``out``."""
    report: dict[str, Any] = _native.call_interruptible(
        "compare",
        {
            "groups": {name: specs for name, (_, specs) in WORKLOADS.items()},
            "order": list(WORKLOADS),
            "held_out": {name: held for name, (held, _) in WORKLOADS.items()},
            "schedulers": SCHEDULERS,
            "model": model,
            "reps": reps,
            "seed": 1_000_000,
            "bursts": bursts,
            "warmup": 0.25,
            "cdf": True,
            "command": command,
            "out": str(out),
        },
        Progress(),
    )
    return report


class Progress:
    """Says now and then how far a comparison is, and how long it still takes."""

    def __init__(self, every: float = 4) -> None:
        self.started = self.said = time.monotonic()
        self.every = every

    def __call__(self, done: int, total: int) -> None:
        """Hear how far it is."""
        now = time.monotonic()
        if done and now - self.said > self.every:
            self.said = now
            say(f"    {done} of {total} runs, {(now - self.started) * (total - done) / done:.0f} s left")


def pair(w: dict[str, Any], a: str, b: str, metric: str) -> dict[str, Any]:
    """The paired row of a against b."""
    found: dict[str, Any] = next(p for p in w["paired"] if (p["a"], p["b"], p["metric"]) == (a, b, metric))
    return found


def percent(p: dict[str, Any]) -> str:
    """A paired row as a cell of the table: a in percent of b."""
    if p["percent"] is None or p["lo"] is None:
        return "–"
    return "=" if p["lo"] <= 0 <= p["hi"] else f"{100 + p['percent']:.0f} %"


def claims(report: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Lines of the printed table, and what may be claimed from it."""
    lines = [
        "mean waiting time of learned, in percent of each rival's; = is no difference shown (the paired 95 %",
        "interval includes 0; intervals are not adjusted for their number), – is no figure with an interval",
        f"{'workload':<28}{'held out':<12}" + "".join(f"{f'vs {r}':>12}" for r in [*RIVALS, "gittins"]),
    ]
    claimed, beaten = 0, []
    for name, w in ((name, report["workloads"][name]) for name in WORKLOADS):
        rows = [pair(w, "learned", r, "wait_mean_us") for r in [*RIVALS, "gittins"]]
        lines.append(f"{name:<28}{w['held_out']:<12}" + "".join(f"{percent(p):>12}" for p in rows))
        if w["held_out"] in ("seed", "parameters"):
            claimed += 1
            if all(p["hi"] is not None and p["hi"] < 0 for p in rows[: len(RIVALS)]):
                beaten.append(name)
    told = [
        f"On {len(beaten)} of {claimed} workloads held out in seed or parameters the learned policy waits less "
        f"than each of {', '.join(RIVALS)}, with 95 % intervals below zero: {'; '.join(beaten) or 'none'}."
    ]
    if beaten:
        told.append(against_gittins(report, beaten, "slowdown_mean", "slowdown"))
        told.append(against_gittins(report, beaten, "wait_mean_us", "wait"))
    return lines, told


def against_gittins(report: dict[str, Any], names: list[str], metric: str, what: str) -> str:
    """What the learned policy is worth next to gittins, over the workloads where it beats its rivals."""
    logs, without = [], []
    for name in names:
        p = pair(report["workloads"][name], "learned", "gittins", metric)
        ratios = [1 + p[k] / 100 for k in ("percent", "percent_lo", "percent_hi") if p[k] is not None]
        if len(ratios) == 3 and min(ratios) > 0:
            logs.append(np.log(ratios))
        else:
            without.append(name)
    left_out = f" Left out, for want of a ratio with an interval: {'; '.join(without)}." if without else ""
    if not logs:
        return f"Its mean {what} there cannot be set against gittins'.{left_out}"
    mean, low, high = np.array(logs).T
    half = np.sqrt((((high - low) / 2) ** 2).sum()) / len(logs)
    middle, least, most = (float(np.exp(mean.mean() + x)) for x in (0, -half, half))
    return (
        f"Over these workloads, chosen because it beats all {len(RIVALS)} there, its mean {what} is {middle:.3f} "
        f"of gittins' (less is better; geometric mean of {len(logs)}, 95 % interval {least:.3f} to {most:.3f})."
        f"{left_out}"
    )


def main(arguments: list[str]) -> int:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="folder for the results")
    parser.add_argument("--seconds", type=float, default=50, help="of training, at most")
    parser.add_argument("--reps", type=int, default=16, help="repetitions of the comparison")
    parser.add_argument("--bursts", type=float, default=2000, help="horizon of each run")
    parser.add_argument("--seed", type=int, default=1, help="of the training")
    parser.add_argument("--full", action="store_true", help="the whole matrix: 60 repetitions of 8,000 bursts")
    args = parser.parse_args(arguments)
    if args.full:
        args.reps, args.bursts = 60, 8000
    out: Path = args.out
    started = time.monotonic()
    try:
        export.prepare_folder(out)
        kinds = [w["name"] for w in ghostgym.spec()["workloads"] if w["name"] != HELD_OUT_KIND]
        config = es.Config(kinds=kinds, seconds=args.seconds, generations=80, seed=args.seed)
        say(f"1/4 training on {', '.join(kinds)}: {args.seconds:.0f} s at most")
        trained = es.train(config, say)
        say(
            f"    {trained.decisions / 1e6:.0f} M decisions in {trained.seconds:.0f} s; "
            f"exporting to {out / 'model.onnx'}"
        )
        policy = es.finish(config, trained, out / "model.onnx")
        runs = len(WORKLOADS) * len(SCHEDULERS) * args.reps
        say(f"2/4 comparing: {runs} runs in the Go agent, the learned ones with that file")
        report = compare(bytes(policy), args.reps, args.bursts, out, "make demo")
        say("3/4 pictures and timelines")
        plots.learning_curve(trained.curve, out / "learning_curve.png")
        plots.latency_cdf(report["cdf"], "rocksdb, other machines", out / "latency_cdf.png")
        heuristic = best_heuristic(report, "interactive")
        for label, scheduler in (("heuristic", heuristic), ("learned", "learned+wp")):
            _native.call_interruptible(
                "timeline",
                {
                    "workload": WORKLOADS["interactive"][1][0],
                    "scheduler": scheduler,
                    "model": bytes(policy),
                    "seed": 1_000_000,
                    "bursts": 300.0,
                    "path": str(out / f"timeline_{label}.json"),
                },
            )
        lines, told = claims(report)
        text = "\n".join([*lines, "", *told])
        with (out / "summary.md").open("a", encoding="utf-8") as summary:
            summary.write("\n## In short\n\n```\n" + "\n".join(lines) + "\n```\n\n" + "\n\n".join(told) + "\n")
    except (ghostgym.GhostgymError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\ndemo: stopped; {out} has what was finished", file=sys.stderr)
        return 130
    say(f"4/4 done in {time.monotonic() - started:.0f} s; {out} has the files\n\n{text}\n")
    say("What next:")
    say("  train:       .venv/bin/python train/es.py --kinds bimodal,rocksdb --seconds 20 --out out/mine.onnx")
    say(f"  operate:     bin/ghostd run --workload interactive --scheduler learned+wp --model {out}/model.onnx")
    say(
        f"  experiment:  bin/ghostlab compare --workload frame,bimodal:load=0.9 "
        f"--schedulers learned+wp,gittins+wp,cfs+wp "
        f"--model {out}/model.onnx --reps 10 --out out/mine"
    )
    return 0


def best_heuristic(report: dict[str, Any], workload: str) -> str:
    """The scheduler without a model that waits least."""
    found = report["workloads"][workload]["schedulers"]
    names = [s for s in found if not s.startswith("learned")]
    best: str = min(names, key=lambda s: float(found[s]["wait_mean_us"]["mean"]))
    return best


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
