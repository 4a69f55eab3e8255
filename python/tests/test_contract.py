"""What Gymnasium and the libraries behind it expect of one environment."""

import copy
import functools
import operator
import pickle
import warnings

import ghostgym
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

IDS = ["ghostgym/Priority-v0", "ghostgym/Placement-v0"]


def play(env, seed=None, limit=100_000, choose=None):
    """Play an episode with actions that are a function of the step; return what it left."""
    rng = np.random.default_rng(7)
    obs, info = env.reset(seed=seed)
    rows, rewards = [obs], []
    for _ in range(limit):
        if choose is not None:
            action = choose(obs, info)
        elif isinstance(env.action_space, gym.spaces.Discrete):
            action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        else:
            action = rng.uniform(-1, 1, 1).astype(np.float32)
        obs, reward, terminated, truncated, info = env.step(action)
        rows.append(obs)
        rewards.append(reward)
        if terminated or truncated:
            return np.array(rows), rewards, terminated, info
    raise AssertionError("the episode does not end")


@pytest.mark.parametrize("name", IDS)
def test_checker_has_nothing_to_say(name):
    env = gym.make(name, workload="bimodal:load=0.9", horizon_bursts=60, render_mode="ansi")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_spaces(name):
    env = gym.make(name, workload="bimodal:load=0.9", horizon_bursts=100)
    rows, _, _, info = play(env, seed=1)
    assert env.observation_space.is_bounded()
    assert env.observation_space.dtype == np.float32
    assert all(env.observation_space.contains(r) for r in rows)
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"][-1] == 1
    assert not rows[-1].any(), "after the end there is no decision"
    assert len(env.unwrapped.schema.names) == rows.shape[1]


@pytest.mark.parametrize("name", IDS)
def test_seeds(name):
    env = gym.make(name, workload="heavytail:load=0.9", horizon_bursts=200)
    rows, rewards, _, info = play(env, seed=3)
    rows2, rewards2, _, info2 = play(env, seed=3)
    assert np.array_equal(rows, rows2)
    assert rewards == rewards2
    assert info["trace_hash"] == info2["trace_hash"]
    _, _, _, other = play(env, seed=4)
    _, _, _, following = play(env)
    assert len({info["trace_hash"], other["trace_hash"], following["trace_hash"]}) == 3
    assert following["instance"] == {**other["instance"], "episode": 1}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("reward", ["slowdown", "wait"])
def test_rewards_add_up(name, reward):
    env = gym.make(name, workload="rocksdb:load=0.9", horizon_bursts=200, reward=reward)
    _, rewards, terminated, info = play(env, seed=5)
    assert not terminated
    assert functools.reduce(operator.add, rewards) == info["return"] < 0  # sum() rounds otherwise
    assert info["figures"]["wait_mean_us"] > 0
    assert info["illegal_actions"] == 0


def test_types_of_a_step():
    env = gym.make("ghostgym/Priority-v0", workload="bimodal:load=0.9")
    env.reset(seed=1)
    obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert type(reward) is float
    assert type(terminated) is bool
    assert type(truncated) is bool
    assert type(info["dt_ns"]) is int
    assert obs.dtype == np.float32


def test_a_workload_that_finishes_terminates():
    env = gym.make("ghostgym/Placement-v0", workload="sched_bench:threads=24:cycles=3")
    _, _, terminated, info = play(env, seed=1)
    assert terminated
    assert info["figures"]["finished"] == 24
    assert info["deadlock"] == []


def test_a_deadlock_terminates_and_says_who_waits(tmp_path):
    path = tmp_path / "dead.json"
    path.write_text(
        """{"tasks": {
        "one": {"loop": 1, "phases": {"p": {"lock0": "a", "sleep": 90000, "lock1": "b", "run": 10}}},
        "two": {"loop": 1, "phases": {"p": {"lock0": "b", "sleep": 90000, "lock1": "a", "run": 10}}},
        "three": {"loop": 1, "run": 9000}, "four": {"loop": 1, "run": 9000}, "five": {"loop": 1, "run": 9000}
        }, "global": {"duration": 1}}"""
    )
    env = gym.make("ghostgym/Priority-v0", workload=str(path), events="all")
    _, _, terminated, info = play(env, seed=1)
    assert terminated
    assert any("one" in line and "two" in line for line in info["deadlock"])


def test_limit_of_steps():
    """By Gymnasium's wrapper, and by the environment itself, whose last info tells of the episode."""
    wrapped = gym.make("ghostgym/Priority-v0", workload="bimodal:load=0.9", max_episode_steps=11)
    own = ghostgym.PriorityEnv("bimodal:load=0.9", max_episode_steps=11)
    ends = []
    for env in (wrapped, own):
        _, rewards, terminated, info = play(env, seed=1)
        assert len(rewards) == 11
        assert not terminated
        ends.append(info)
    assert "trace_hash" not in ends[0]
    assert ends[1]["trace_hash"]
    assert ends[1]["return"] == pytest.approx(sum(rewards))


def test_the_last_observation_of_a_limit_of_steps_is_that_of_the_open_decision():
    envs = [
        gym.make_vec("ghostgym/Priority-v0", 2, mode, workload="bimodal:load=0.9", max_episode_steps=5)
        for mode in (None, "sync")
    ]
    for env in envs:
        env.reset(seed=1)
    for _ in range(5):
        native, sync = (env.step(np.zeros((2, 1), np.float32)) for env in envs)
    assert native[3].all()
    assert native[0].any(axis=1).all()
    assert np.array_equal(native[0], sync[0])


def test_observations_are_copies():
    env = gym.make("ghostgym/Placement-v0", workload="bimodal:load=0.95")
    kept = [env.reset(seed=1)[0]]
    for _ in range(3):
        kept.append(env.step(8)[0])
    frozen = [k.copy() for k in kept]
    for _ in range(5):
        env.step(8)
    assert all(np.array_equal(a, b) for a, b in zip(kept, frozen, strict=True))


def test_spec_survives_json():
    env = gym.make("ghostgym/Priority-v0", workload="frame", wakeup_preemption=True, horizon_bursts=50)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert play(env, seed=1)[3]["trace_hash"] == play(again, seed=1)[3]["trace_hash"]


def test_render_and_close():
    env = gym.make("ghostgym/Priority-v0", workload="dispersive:load=0.9:cpus=8", render_mode="ansi")
    env.reset(seed=1)
    text = env.render()
    cpus = [line for line in text.splitlines() if line.startswith("cpu")]
    assert len(cpus) == 8, text
    assert "decision 1 of" in text
    assert "queue 0  CPUs 8, waiting 0" in text, "the first task that is asked about finds nobody waiting"
    env.close()
    env.close()
    with pytest.raises(ghostgym.ClosedError):
        env.unwrapped.step(np.zeros(1, np.float32))


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_pickle_is_how_to_make_it(name, copied):
    env = gym.make(name, workload="heavytail:load=0.8", horizon_bursts=60)
    env.reset(seed=1)
    other = copied(env)
    assert other.spec == env.spec
    assert other.unwrapped.spec == env.unwrapped.spec
    assert play(env, seed=1)[3]["trace_hash"] == play(other, seed=1)[3]["trace_hash"]


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        (IDS[0], 0.5),
        (IDS[0], np.zeros(2, np.float32)),
        (IDS[0], np.zeros((1, 1), np.float32)),
        (IDS[0], ["up"]),
        (IDS[0], None),
        (IDS[1], 3.0),
        (IDS[1], np.array([8])),
        (IDS[1], "back"),
        (IDS[1], [8, [8]]),
    ],
)
def test_actions_that_do_not_fit_are_refused(name, bad):
    env = gym.make(name, workload="bimodal:load=0.9", disable_env_checker=True)
    row, _ = env.reset(seed=1)
    with pytest.raises(ghostgym.ShapeError, match="actions"):
        env.step(bad)
    again, _ = env.reset(seed=1)
    assert np.array_equal(row, again)
    env.step(env.action_space.sample())


def test_seeds_and_options_of_numpy():
    env = ghostgym.PriorityEnv(horizon_bursts=np.float32(50), max_episode_steps=np.int64(9))
    _, rewards, _, info = play(env, seed=2**62)
    assert len(rewards) <= 9
    assert info["instance"]["seed"] == 2**62
    with pytest.raises(ghostgym.ConfigError):
        env.reset(seed=2**64)


def test_instances_are_what_they_say():
    env = gym.make("ghostgym/Priority-v0", workload="bimodal:load=0.9", horizon_bursts=100)
    instance = {"workload": "heavytail:load=0.9:cpus=4", "seed": 9, "episode": 2}
    env.reset(options={"instances": [instance]})
    done = False
    while not done:
        _, _, a, b, info = env.step(np.zeros(1, np.float32))
        done = a or b
    assert info["instance"] == instance
