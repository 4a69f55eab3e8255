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
import errno
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import ghostgym
import numpy as np
import numpy.typing as npt
from ghostgym import export
from ghostgym.rollout import rollout
from ghostgym.vector import library_options

Array = npt.NDArray[Any]
OBJECTIVES = ("slowdown_mean", "wait_mean_us")
TRAINED_ON = {"cpus": [4, 8], "load": [0.25, 0.95], "scale": [0.5, 2.0]}


@dataclass
class Config:
    """Arguments; each is a flag of the same name, and says what it is."""

    schema: Annotated[str, "what is learned: priority (a key per task) or placement (logits)"] = "priority"
    kinds: Annotated[list[str], "workloads to train on; all if empty"] = field(default_factory=list)
    objective: Annotated[str, "the figure whose ratio to rr is the score; or wait_mean_us"] = "slowdown_mean"
    hidden: Annotated[int, "hidden units; 0 is a linear net"] = 16
    pairs: Annotated[int, "antithetic pairs per generation"] = 16
    sigma: Annotated[float, "standard deviation of perturbations"] = 0.1
    rate: Annotated[float, "step size of Adam"] = 0.05
    decay: Annotated[float, "of weights, per generation"] = 5e-4
    average: Annotated[float, "weight of the newest iterate in the average that is exported"] = 0.1
    bursts: Annotated[float, "horizon of an episode, in mean interarrivals"] = 800.0
    generations: Annotated[int, "at most"] = 60
    seconds: Annotated[float, "of training, at most"] = 60.0
    seed: Annotated[int, "of parameters, perturbations and instances"] = 1
    workers: Annotated[int, "threads; 0 is one per CPU"] = 0

    def check(self) -> None:
        """Refuse what cannot be trained with."""
        for name, least in (("pairs", 1), ("generations", 1), ("hidden", 0), ("seed", 0), ("workers", 0)):
            if getattr(self, name) < least:
                raise ghostgym.ConfigError(f"{name}: {getattr(self, name)} is below {least}")
        for name, most in (
            ("sigma", math.inf), ("rate", math.inf), ("average", 1), ("bursts", math.inf), ("seconds", math.inf),
        ):  # fmt: skip
            value = getattr(self, name)
            most_is = "" if most == math.inf else f", at most {most}"
            if not (0 < value <= most and math.isfinite(value)):
                raise ghostgym.ConfigError(f"{name}: want a finite number above 0{most_is}, got {value}")
        if not 0 <= self.decay < 1:
            raise ghostgym.ConfigError(f"decay: want a number from 0 to below 1, got {self.decay}")
        if self.objective not in OBJECTIVES:
            raise ghostgym.ConfigError(f"objective: {self.objective!r} is none of {', '.join(OBJECTIVES)}")


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


def learn(c: Config, progress: Callable[[str], None] = print) -> Iterator[Trained]:
    """Train until the generations or the seconds are used up; yields what there is after each generation."""
    c.check()
    started = time.monotonic()
    rng = np.random.default_rng(c.seed)
    kinds = c.kinds or [w["name"] for w in ghostgym.spec()["workloads"]]
    schema = ghostgym.schema(c.schema)
    outputs = 1 if schema.action["kind"] == "key" else int(schema.action["n"])
    net = export.ScoreNet(schema.width, c.hidden, outputs)
    theta = net.initial(rng)
    mean = theta.copy()
    m: Array = np.zeros(net.size)
    v: Array = np.zeros(net.size)
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
        if not np.isfinite(played.figures[c.objective]).all():
            raise ghostgym.ConfigError(f"bursts: {c.bursts:g} are too few: some episodes have no {c.objective}")
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
        yield Trained(net, mean.copy(), curve, decisions, time.monotonic() - started, generation)


def train(c: Config, progress: Callable[[str], None] = print) -> Trained:
    """Train to the end."""
    trained = None
    for trained in learn(c, progress):  # noqa: B007
        pass
    if trained is None:
        raise ghostgym.ConfigError(f"seconds: {c.seconds} are over before the first generation")
    return trained


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
    described = get_type_hints(Config, include_extras=True)
    for f in fields(Config):
        kind, text = get_args(described[f.name])
        if kind == list[str]:
            parser.add_argument(f"--{f.name}", default="", metavar="A,B,…", help=text)
        else:
            parser.add_argument(f"--{f.name}", type=kind, default=f.default, help=f"{text} (default {f.default})")
    parser.add_argument("--out", type=Path, required=True, help="the ONNX file to write")
    parser.add_argument("--curve", type=Path, help="the learning curve, as JSON")
    given = vars(parser.parse_args(arguments))
    out, curve = given.pop("out"), given.pop("curve")
    given["kinds"] = [k.strip() for k in given["kinds"].split(",") if k.strip()]
    c = Config(**given)
    trained, code = None, 2
    try:
        if curve is not None and curve.resolve() == out.resolve():
            raise ghostgym.ConfigError(f"curve: {curve} is where the model goes")
        for path in (out, curve):
            if path is not None and path.is_dir():
                raise IsADirectoryError(errno.EISDIR, "a file is wanted, and this is a folder", str(path))
            if path is not None:
                export.prepare_folder(path.parent)
        try:
            for trained in learn(c, lambda line: print(line, file=sys.stderr, flush=True)):  # noqa: B007
                pass
        except KeyboardInterrupt:
            code = 130
            print("es.py: stopped; exporting what has been learned", file=sys.stderr)
        if trained is None:
            print("es.py: no generation was finished: nothing is written", file=sys.stderr)
            return code
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
