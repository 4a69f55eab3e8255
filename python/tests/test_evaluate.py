"""Comparisons from Python: structure, determinism, progress."""

import json

import ghostgym
import pytest
from ghostgym import _native
from nets import net_model


def test_evaluate():
    model = net_model()[2]
    kwargs = {"seeds": 3, "against": ["rr", "gittins"], "bursts": 200}
    report = ghostgym.evaluate(ghostgym.Policy(model), ["bimodal:load=0.8", "frame"], **kwargs)
    assert list(report["workloads"]) == ["bimodal:load=0.8", "frame"]
    assert next(iter(report["workloads"]["frame"]["schedulers"])) == "learned"
    again = ghostgym.evaluate(model, ["bimodal:load=0.8", "frame"], workers=1, **kwargs)
    assert report["workloads"] == again["workloads"]
    assert json.loads(json.dumps(report)) == report
    w = report["workloads"]["bimodal:load=0.8"]
    assert set(w["schedulers"]) == {"learned", "rr", "gittins"}
    assert w["schedulers"]["rr"]["wait_mean_us"]["n"] == 3
    assert w["schedulers"]["rr"]["fates"]["requested"] > 0
    pairs = {(p["a"], p["b"]) for p in w["paired"]}
    assert pairs == {("learned", "rr"), ("learned", "gittins")}
    assert all(p["lo"] <= p["diff"] <= p["hi"] for p in w["paired"] if p["lo"] is not None)


def test_evaluate_takes_seeds_and_tells_how_far_it_is(monkeypatch):
    monkeypatch.setattr(_native, "_PROGRESS_SECONDS", 0.001)
    told = []
    kwargs = {"against": ["rr"], "bursts": 4000, "workers": 1}
    some = ghostgym.evaluate(
        "las", "rocksdb:load=0.9", range(7, 27), progress=lambda *far: told.append(far), **kwargs
    )
    assert told
    assert told == sorted(told)
    assert all(0 <= done <= total == 40 for done, total in told)
    assert sorted({r["seed"] for r in some["runs"]}) == list(range(7, 27))
    assert some["manifest"]["finished"] == 40
    for bad in ([1, 3], [], 0, range(0, 4, 2)):
        with pytest.raises(ghostgym.ConfigError, match="seeds"):
            ghostgym.evaluate("las", "bimodal", bad, **kwargs)
