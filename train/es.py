"""Evolution strategies over a small score net: the recipe behind models/priority.onnx.

    .venv/bin/python train/es.py --seconds 60 --out models/priority.onnx

Read from top to bottom. Each generation perturbs the parameters in antithetic pairs, plays every member on
the same freshly drawn instances inside the Go library (common random numbers), and moves along the ranks
of the scores. A member's score is the logarithm of its mean slowdown over that of round robin on the same
instance, averaged over instances: kinds and sizes weigh alike. What is exported is a moving average of
the iterates.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import ghostgym
import numpy as np
import numpy.typing as npt
from ghostgym import export
from ghostgym.rollout import rollout
from ghostgym.vector import library_options

Array = npt.NDArray[Any]
TRAINED_ON = {"cpus": [4, 8], "load": [0.25, 0.95], "scale": [0.5, 2.0]}


@dataclass
class Config:
    """Arguments; each is a flag of the same name."""

    schema: str = "priority"  # what is learned: keys ("priority"); places take a net of 9 outputs
    kinds: list[str] = field(default_factory=list)  # workloads to train on; empty: all
    objective: str = "slowdown_mean"  # or wait_mean_us: the figure whose ratio to rr is the score
    hidden: int = 16  # hidden units, 0 is a linear net
    pairs: int = 16  # antithetic pairs per generation
    sigma: float = 0.1  # standard deviation of perturbations
    rate: float = 0.05  # of Adam
    decay: float = 5e-4  # of weights
    average: float = 0.1  # weight of the newest iterate in the exported average
    bursts: float = 800  # horizon of an episode, in mean interarrivals
    generations: int = 60  # at most
    seconds: float = 60.0  # at most
    seed: int = 1
    workers: int = 0  # threads; 0 is one per CPU


def ranks(scores: Array) -> Array:
    """Centred ranks: the best (smallest) score becomes 1/2, the worst -1/2."""
    order = np.empty(len(scores))
    order[np.argsort(scores)] = np.arange(len(scores))
    return np.asarray(0.5 - order / (len(scores) - 1))


def log_ratios(figures: Array) -> Array:
    """For each policy but the last, the mean log ratio of its figures to those of the last."""
    return np.asarray(np.log((figures[:-1] + 1e-3) / (figures[-1] + 1e-3)).mean(axis=1))


@dataclass
class Trained:
    """What training leaves."""

    net: export.ScoreNet
    theta: Array
    curve: list[dict[str, float]]
    decisions: int
    seconds: float
    generations: int


def train(c: Config, progress: Callable[[str], None] = print) -> Trained:
    """Train until the generations or the seconds are used up."""
    started = time.monotonic()
    rng = np.random.default_rng(c.seed)
    kinds = c.kinds or [w["name"] for w in ghostgym.spec()["workloads"]]
    schema = ghostgym.schema(c.schema)
    outputs = 1 if schema.action["kind"] == "key" else int(schema.action["n"])
    net = export.ScoreNet(schema.width, c.hidden, outputs)
    theta = net.initial(rng)
    mean = theta.copy()
    m, v = np.zeros(net.size), np.zeros(net.size)
    validation = ghostgym.sample_instances(1, kinds=kinds, seed=c.seed + 10_000)
    curve: list[dict[str, float]] = []
    decisions = generation = 0

    def play(thetas: list[Array], instances: list[dict[str, Any]], wp: bool) -> tuple[Array, int]:
        """Scores of parameter vectors, smaller is better, and how many decisions they took."""
        options = library_options(c.schema, horizon_bursts=c.bursts, wakeup_preemption=wp, warmup=0.25)
        policies: list[bytes | str] = [
            export.with_metadata(net.to_onnx(np.asarray(t, np.float32)), schema) for t in thetas
        ]
        played = rollout([*policies, "rr"], instances, options, workers=c.workers)
        return log_ratios(played.figures[c.objective]), int(played.decisions.sum())

    while generation < c.generations and (spent := time.monotonic() - started) < c.seconds:
        wp = outputs == 1 and generation % 2 == 1  # one model serves with and without preemption
        instances = ghostgym.sample_instances(1, kinds=kinds, seed=int(rng.integers(1 << 62)))
        noise = rng.normal(size=(c.pairs, net.size)) * c.sigma
        members = [theta + s * e for e in noise for s in (1, -1)]
        scores, n = play(members, instances, wp)
        decisions += n
        utility = ranks(scores)
        gradient = (utility[0::2] - utility[1::2]) @ noise / (2 * c.pairs * c.sigma)
        gradient -= c.decay * theta
        generation += 1
        m = 0.9 * m + 0.1 * gradient
        v = 0.99 * v + 0.01 * gradient**2
        step = (m / (1 - 0.9**generation)) / (np.sqrt(v / (1 - 0.99**generation)) + 1e-8)
        theta = np.asarray(theta + c.rate * step, np.float32)
        mean += c.average * (theta - mean)
        if generation % 5 == 0 or generation == 1:
            score, n = play([mean], validation, wp=False)
            decisions += n
            spent = time.monotonic() - started
            curve.append(
                {
                    "generation": generation,
                    "seconds": spent,
                    "decisions": decisions,
                    "ratio": float(np.exp(score[0])),
                }
            )
            left = min(c.seconds - spent, spent / generation * (c.generations - generation))
            progress(
                f"  generation {generation:3d}: {c.objective} {curve[-1]['ratio']:.3f} of rr "
                f"on instances for validation, {decisions / 1e6:.1f} M decisions, "
                f"{max(left, 0):.0f} s left"
            )
    return Trained(net, mean, curve, decisions, time.monotonic() - started, generation)


def finish(c: Config, trained: Trained, out: Path) -> ghostgym.Policy:
    """Export what was trained, checked against its reference on the rows that it meets."""
    raw = trained.net.to_onnx(trained.theta)
    policy = ghostgym.Policy(export.with_metadata(raw, c.schema))
    return export.save(
        out,
        raw,
        c.schema,
        lambda rows: trained.net.score(trained.theta, rows),
        export.rows_met(policy, c.schema, kinds=c.kinds or None, seed=c.seed, bursts=c.bursts),
        ranges=TRAINED_ON,
        recipe={"name": "es", **asdict(c)},
        seed=c.seed,
        decisions=trained.decisions,
    )


def main(arguments: list[str]) -> int:
    """Train and export."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for f in fields(Config):
        flag = f"--{f.name}"
        if f.name == "kinds":
            parser.add_argument(flag, default="", help="comma-separated workloads; all if empty")
        else:
            parser.add_argument(flag, type=type(f.default), default=f.default)
    parser.add_argument("--out", type=Path, required=True, help="the ONNX file to write")
    parser.add_argument("--curve", type=Path, help="the learning curve, as JSON")
    given = vars(parser.parse_args(arguments))
    out, curve = given.pop("out"), given.pop("curve")
    given["kinds"] = [k for k in given["kinds"].split(",") if k]
    c = Config(**given)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        trained = train(c, lambda line: print(line, file=sys.stderr, flush=True))
        finish(c, trained, out)
        if curve is not None:
            export.write_whole(curve, json.dumps(trained.curve, indent=1).encode())
    except (ghostgym.GhostgymError, OSError) as error:
        print(f"es.py: {error}", file=sys.stderr)
        return 2
    rate = trained.decisions / trained.seconds
    print(
        f"{out}: {trained.generations} generations, {trained.decisions} decisions in "
        f"{trained.seconds:.0f} s ({rate:.0f}/s)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
