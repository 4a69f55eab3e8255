"""Speed, with spread. Run it by ``make bench``; writes one JSON list per topic.

Each record is {"name", "value", "unit", "lo", "hi"}: the median and the range of repetitions, single-threaded
unless the name says otherwise.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ghostgym
import gymnasium as gym
import numpy as np
from ghostgym import export

ROOT = Path(__file__).resolve().parent.parent


def record(name: str, unit: str, values: list[float]) -> dict[str, Any]:
    """Median and range."""
    r = {"name": name, "value": statistics.median(values), "unit": unit}
    r |= {"lo": min(values), "hi": max(values)}
    print(f"  {name:<60} {r['value']:>12.4g} {unit}  ({r['lo']:.4g} to {r['hi']:.4g})", flush=True)
    return r


def repeat(n: int, f: Callable[[], float]) -> list[float]:
    """Values of n repetitions, after one that does not count."""
    f()
    return [f() for _ in range(n)]


def environments(reps: int) -> list[dict[str, Any]]:
    """Decisions per second through Gymnasium's vector interface, default copies, one core."""
    out = []
    for name in ("Priority", "Placement"):
        for num in (1, 64, 256):
            env = gym.make_vec(f"ghostgym/{name}-v0", num_envs=num, workload="dispersive:load=0.9")
            env.reset(seed=1)
            actions = [env.action_space.sample() for _ in range(64)]
            steps = max(200, 40_000 // num)

            def once(env: Any = env, actions: Any = actions, steps: int = steps, num: int = num) -> float:
                start = time.perf_counter()
                for i in range(steps):
                    env.step(actions[i & 63])
                return steps * num / (time.perf_counter() - start)

            out.append(record(f"make_vec/{name}-v0/n={num}", "decisions/s", repeat(reps, once)))
            env.close()
    return out


def rollouts(reps: int) -> list[dict[str, Any]]:
    """Decisions per second with the score net inside Go, one thread."""
    net = export.ScoreNet(ghostgym.schema("priority").width)
    theta = net.initial(np.random.default_rng(1))
    model = export.with_metadata(net.to_onnx(theta), "priority")
    out = []
    played: dict[str, list[dict[str, Any]]] = {"what training draws": ghostgym.sample_instances(4, seed=1)}
    for kind in ("dispersive", "dispersive:load=0.9", "bimodal", "rocksdb", "interactive", "frame"):
        played[kind] = [{"workload": kind, "seed": s} for s in range(16)]
    env = ghostgym.GhostVectorEnv(1)
    for kind, instances in played.items():

        def once(instances: Any = instances) -> float:
            start = time.perf_counter()
            done = env.rollout([model] * 4, instances, workers=1)
            return float(done.decisions.sum()) / (time.perf_counter() - start)

        out.append(record(f"rollout/{kind}/19-16-1", "decisions/s", repeat(reps, once)))
    return out


LINE = re.compile(r"^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$")


def go_benchmarks(packages: list[str], pattern: str, reps: int) -> list[dict[str, Any]]:
    """What ``go test -bench`` measures, one record per benchmark and unit."""
    command = [
        "go",
        "test",
        "-run",
        "^$",
        "-bench",
        pattern,
        "-benchtime",
        "200ms",
        "-count",
        str(reps),
        "-cpu",
        "1",
    ]
    done = subprocess.run([*command, *packages], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    values: dict[tuple[str, str], list[float]] = {}
    for line in done.stdout.splitlines():
        found = LINE.match(line)
        if found is None:
            continue
        fields = found.group(2).split()
        for value, unit in zip(fields[0::2], fields[1::2], strict=False):
            if unit not in ("B/op", "MB/s"):
                values.setdefault((found.group(1), unit), []).append(float(value))
    return [record(name, unit, v) for (name, unit), v in values.items()]


def main(arguments: list[str]) -> int:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/bench"))
    parser.add_argument("--reps", type=int, default=5)
    args = parser.parse_args(arguments)
    args.out.mkdir(parents=True, exist_ok=True)
    topics: dict[str, Callable[[], list[dict[str, Any]]]] = {
        "environments": lambda: environments(args.reps),
        "rollouts": lambda: rollouts(args.reps),
        "core": lambda: go_benchmarks(
            ["./agent/...", "./env"], "Run|VectorStep|Encode|Place|Events|Turn", args.reps
        ),
        "scoring": lambda: go_benchmarks(["./inference"], "Score", args.reps),
    }
    for name, measure in topics.items():
        print(name, flush=True)
        export.write_whole(args.out / f"{name}.json", (json.dumps(measure(), indent=1) + "\n").encode())
    print(f"{args.out} has the figures")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
