"""Whole episodes inside the library: what stepping through Gymnasium gives, to the bit."""

import subprocess
import sys
import textwrap

import ghostgym
import numpy as np
import pytest
from nets import net_model


@pytest.mark.parametrize(("kind", "wp"), [("priority", False), ("priority", True), ("placement", False)])
def test_a_rollout_is_stepping(kind, wp):
    """Returns and traces are equal, to the bit, whoever asks the policy."""
    _, _, model = net_model(kind)
    policy = ghostgym.Policy(model)
    options = {"horizon_bursts": 150, **({"wakeup_preemption": True} if wp else {})}
    instances = ghostgym.sample_instances(1, seed=3, held_out=True)
    env = ghostgym.GhostVectorEnv(1, kind=kind, autoreset="Disabled", **options)
    played = env.rollout([model, policy], instances, workers=2)
    alone = env.rollout([model], instances, workers=1)
    assert np.array_equal(played.returns[0], played.returns[1])
    assert np.array_equal(played.returns[0], alone.returns[0])
    for i, instance in enumerate(instances):
        obs, info = env.reset(options={"instances": [instance]})
        total, over = 0.0, False
        while not over:
            action = policy.act(obs, info["action_mask"])
            obs, reward, terminated, truncated, info = env.step(action)
            total += reward[0]
            over = terminated[0] or truncated[0]
        assert total == played.returns[0, i], instance
        assert info["trace_hash"][0] == played.trace_hash[0][i]


@pytest.mark.parametrize("steps", [1, 2, 17, 40])
def test_a_rollout_ends_where_stepping_does(steps):
    """Also within a batch: twelve threads begin at the same instant."""
    _, _, model = net_model()
    policy = ghostgym.Policy(model)
    options = {"max_episode_steps": steps, "wakeup_preemption": True, "events": "all", "horizon_bursts": 100}
    instance = {"workload": "sched_bench:threads=12:cpus=4", "seed": 3, "episode": 1}
    env = ghostgym.GhostVectorEnv(1, autoreset="Disabled", **options)
    played = env.rollout([policy], [instance])
    obs, _ = env.reset(options={"instances": [instance]})
    total = 0.0
    for step in range(steps):
        obs, reward, terminated, truncated, info = env.step(policy.act(obs))
        total += reward[0]
        assert (terminated[0], truncated[0]) == (False, step == steps - 1)
    assert total == played.returns[0, 0]
    assert info["trace_hash"][0] == played.trace_hash[0][0]


@pytest.mark.parametrize("workload", ["bimodal:load=0.5:cpus=6", "rocksdb:load=0.5:cpus=6"])
def test_returns_order_schedulers(workload):
    """Taking turns is worse than the Gittins index, and knowing the future is best.

    That guessing is worse than taking turns takes more seeds to tell: the Go tests do.
    """
    env = ghostgym.GhostVectorEnv(1, profile="ideal", slice_us=10, horizon_bursts=500)
    instances = [{"workload": workload, "seed": s, "episode": 0} for s in range(40)]
    random, rr, gittins, oracle = env.rollout(["random", "rr", "gittins", "oracle"], instances).returns.mean(
        axis=1
    )
    assert max(random, rr) < gittins < oracle


def test_schedulers_by_name():
    env = ghostgym.GhostVectorEnv(1, horizon_bursts=300)
    instances = [{"workload": "rocksdb:load=0.9", "seed": s, "episode": 0} for s in range(3)]
    r = env.rollout(["rr", "gittins", "oracle"], instances)
    assert r.returns.shape == (3, 3)
    slow = r.figures["slowdown_mean"].mean(axis=1)
    assert slow[0] > slow[1]
    assert list(r.figures) == sorted(r.figures)
    assert (r.figures["slowdown_p99"] >= r.figures["slowdown_mean"]).all()
    assert (r.figures["utilisation"] < 1).all()
    assert r.figures["wait_mean_us"][2].mean() < r.figures["wait_mean_us"][0].mean()
    for bad in (["no-such"], ["learned"], [3], []):
        with pytest.raises(ghostgym.ConfigError):
            env.rollout(bad, instances)
    with pytest.raises(ghostgym.ConfigError, match="priority"):
        ghostgym.GhostVectorEnv(1, kind="placement").rollout([net_model()[2]], instances)


def test_ctrl_c_ends_a_long_call():
    code = """
        import os, signal, threading
        from ghostgym import _native
        _native.call("selftest.echo")
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            _native.call_interruptible("selftest.wait")
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "interrupted", done.stderr
