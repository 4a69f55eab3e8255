"""The recipes: what they learn, what they refuse, and what the demo leaves."""

import csv
import json
import subprocess

import ghostgym
import numpy as np
import pytest
from ghostgym import export
from programs import built

from train import demo, es

SMALL = {"kinds": ["bimodal", "rocksdb"], "pairs": 8, "bursts": 300, "generations": 12}


def test_ranks_are_centred_and_favour_the_smallest():
    utility = es.ranks(np.array([3.0, 1.0, 2.0, 9.0]))
    assert utility[1] == 0.5
    assert utility[3] == -0.5
    assert utility.sum() == pytest.approx(0)


def test_it_learns_and_repeats_itself():
    c = es.Config(**SMALL)
    told = []
    trained = es.train(c, told.append)
    assert trained.generations == 12
    assert trained.curve[0]["ratio"] > 1
    assert trained.curve[-1]["ratio"] < 0.7, "the mean slowdown, relative to round robin"
    assert len(told) == len(trained.curve)
    assert all("s left" in line for line in told)
    again = es.train(es.Config(**SMALL, workers=1), told.append)
    assert np.array_equal(trained.theta, again.theta), "whatever the number of threads"
    other = es.train(es.Config(**SMALL, seed=2), told.append)
    assert not np.array_equal(trained.theta, other.theta)


@pytest.mark.parametrize("kind", ["priority", "placement"])
def test_what_is_learned_is_written(tmp_path, kind, capsys):
    out, curve = tmp_path / "new" / "m.onnx", tmp_path / "curve.json"
    flags = f"--schema {kind} --kinds bimodal --generations 2 --pairs 2 --bursts 200 --hidden 4 --decay 0"
    assert es.main([*flags.split(), "--out", str(out), "--curve", str(curve)]) == 0
    policy = ghostgym.load_policy(out)
    assert policy.kind == kind
    recipe = json.loads(policy.metadata["ghostgym.recipe"])
    assert (recipe["name"], recipe["kinds"], recipe["decay"]) == ("es", ["bimodal"], 0.0)
    assert policy.metadata["ghostgym.seed"] == "1"
    assert json.loads(policy.metadata["ghostgym.ranges"])["cpus"] == [4, 8]
    assert json.loads(curve.read_text())[0]["generation"] == 1
    assert sorted(p.name for p in out.parent.iterdir()) == ["m.onnx"]
    assert "2 generations" in capsys.readouterr().out
    flags = ["--workload", "bimodal", "--bursts", "200", "--scheduler", "learned", "--json", "-"]
    ran = subprocess.run(
        [built("ghostd"), "run", *flags, "--model", out], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["model"] == str(out)
    assert told["schema"] == ghostgym.schema(kind).hash
    assert not any(told["fallback_causes"].values()), "the model answered every time"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--kinds bimodel", "bimodal"),
        ("--schema slots", "placement"),
        ("--objective speed", "wait_mean_us"),
        ("--generations 0", "generations"),
        ("--pairs 0", "pairs"),
        ("--sigma 0", "sigma"),
        ("--out /dev/null/m.onnx", "/dev/null"),
    ],
)
def test_recipes_refuse(tmp_path, capsys, flags, says):
    assert es.main(["--out", str(tmp_path / "m.onnx"), *flags.split()]) == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_training_that_is_stopped_keeps_what_it_has(tmp_path, monkeypatch, capsys):
    played = []

    def rollout(*args, **kwargs):
        played.append(1)
        if len(played) == 5:
            raise KeyboardInterrupt
        return ghostgym.rollout.rollout(*args, **kwargs)

    monkeypatch.setattr(es, "rollout", rollout)
    flags = ["--kinds", "bimodal", "--generations", "50", "--pairs", "2", "--bursts", "100"]
    assert es.main([*flags, "--out", str(tmp_path / "m.onnx")]) == 0
    assert "stopped" in capsys.readouterr().err
    assert ghostgym.load_policy(tmp_path / "m.onnx").kind == "priority"
    played[:] = [1, 1, 1, 1]
    assert es.main([*flags, "--out", str(tmp_path / "none.onnx")]) == 130
    assert not (tmp_path / "none.onnx").exists()


METRICS = {
    "wait_mean_us", "wakeup_p50_us", "wakeup_p99_us", "wakeup_max_us", "slowdown_mean", "turnaround_ms",
    "throughput_per_s", "switches", "age_max_us", "censored",
}  # fmt: skip


def test_the_demo_leaves_what_it_promises(tmp_path, capsys):
    out = tmp_path / "demo"
    assert demo.main(["--out", str(out), "--seconds", "1", "--reps", "2", "--bursts", "150"]) == 0
    said = capsys.readouterr().out
    assert {p.name for p in out.iterdir()} >= {
        "model.onnx", "summary.md", "summary.json", "results.csv", "learning_curve.png", "latency_cdf.png",
        "timeline_heuristic.json", "timeline_learned.json",
    }  # fmt: skip
    assert ghostgym.load_policy(out / "model.onnx").kind == "priority"
    summary = json.loads((out / "summary.json").read_text())
    assert {w["held_out"] for w in summary["workloads"].values()} == {"seed", "parameters", "kind"}
    for w in summary["workloads"].values():
        assert set(w["schedulers"]) == set(demo.SCHEDULERS)
        for s in w["schedulers"].values():
            assert set(s) >= METRICS | {"fates"}
            assert set(s["wait_mean_us"]) >= {"mean", "sd", "n"}
            f = s["fates"]
            ends = ("applied", "late", "superseded", "expired", "dropped", "undelivered", "abandoned")
            assert sum(f[k] for k in ends) == f["requested"]
        assert {p["a"] for p in w["paired"]} == {"learned", "learned+wp"}
        assert {p["metric"] for p in w["paired"]} >= METRICS
    with (out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(demo.WORKLOADS) * len(demo.SCHEDULERS) * 2
    for name in ("heuristic", "learned"):
        events = json.loads((out / f"timeline_{name}.json").read_text())
        events = events["traceEvents"] if isinstance(events, dict) else events
        assert {e["ph"] for e in events} >= {"X", "M"}
        assert all(e["ts"] >= 0 and e["dur"] >= 0 for e in events if e["ph"] == "X")
    for name in ("learning_curve", "latency_cdf"):
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    for name in demo.WORKLOADS:
        assert name in said
    assert said.count(".venv/bin/python train/es.py") == 1
    assert f"bin/ghostd run --workload interactive --scheduler learned+wp --model {out}/model.onnx" in said
    assert "bin/ghostlab compare" in said
    assert demo.main(["--out", "/dev/null/demo"]) == 2


def test_scores_of_a_net_that_is_patched_are_its_own():
    """The graph is built once and weights are put in: no member of a population sees another's."""
    net = export.ScoreNet(ghostgym.schema("priority").width, 4)
    rng = np.random.default_rng(1)
    thetas = [net.initial(rng) for _ in range(3)]
    models = [net.to_onnx(t) for t in thetas]
    rows = rng.normal(size=(20, net.inputs)).astype(np.float32)
    for theta, model in zip(thetas, models, strict=True):
        assert np.abs(ghostgym.Policy(model).score(rows) - net.score(theta, rows)).max() < 1e-5
