"""What Gymnasium and the libraries behind it expect of many environments."""

import copy
import pickle

import ghostgym
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import NormalizeObservation, NormalizeReward, RecordEpisodeStatistics

IDS = ["ghostgym/Priority-v0", "ghostgym/Placement-v0"]


def actions_for(space, n, step):
    rng = np.random.default_rng(step)
    if isinstance(space, gym.spaces.Discrete):
        return rng.integers(0, 9, n)
    return rng.uniform(-1, 1, (n, 1)).astype(np.float32)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("workers", [1, 2])
def test_a_vector_is_its_singles(name, workers):
    """Transitions of 64 environments are those of 64 single ones with the same seeds and actions."""
    n, kwargs = 64, {"workload": "bimodal:load=0.9", "horizon_bursts": 40}
    vector = gym.make_vec(name, num_envs=n, autoreset="Disabled", workers=workers, **kwargs)
    singles = [gym.make(name, **kwargs) for _ in range(n)]
    obs, info = vector.reset(seed=100)
    over = np.zeros(n, bool)
    for i, env in enumerate(singles):
        row, one = env.reset(seed=100 + i)
        assert np.array_equal(row, obs[i])
        assert np.array_equal(one["action_mask"], info["action_mask"][i])
    hashes = {}
    for step in range(200):
        actions = actions_for(vector.single_action_space, n, step)
        if over.any():
            vector.reset(options={"reset_mask": over})
        for i in np.flatnonzero(over):
            singles[i].reset()
        obs, reward, terminated, truncated, info = vector.step(actions)
        for i, env in enumerate(singles):
            row, r, a, b, one = env.step(actions[i])
            assert np.array_equal(row, obs[i])
            assert (r, a, b) == (reward[i], terminated[i], truncated[i])
            assert one["dt_ns"] == info["dt_ns"][i]
            if a or b:
                hashes[i] = one["trace_hash"]
                assert info["trace_hash"][i] == one["trace_hash"]
        over = terminated | truncated
    assert len(hashes) == n


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("name", IDS)
def test_each_mode_is_its_singles_with_resets_between(name, mode):
    """Over several episodes each, of workloads that end at different steps."""
    n, loads = 6, ["bimodal:load=0.9", "rocksdb:load=0.9", "heavytail:load=0.9"]
    vector = gym.make_vec(name, num_envs=n, workload=loads, horizon_bursts=30, autoreset=mode, workers=2)
    singles = [gym.make(name, workload=loads[i % 3], horizon_bursts=30) for i in range(n)]
    rows, info = vector.reset(seed=3)
    for i, env in enumerate(singles):
        assert np.array_equal(env.reset(seed=3 + i)[0], rows[i])
    over, episodes = np.zeros(n, bool), np.zeros(n, int)
    for step in range(250):
        actions = actions_for(vector.single_action_space, n, step)
        if mode == "Disabled" and over.any():
            rows, info = vector.reset(options={"reset_mask": over})
            for i in np.flatnonzero(over):
                assert np.array_equal(rows[i], singles[i].reset()[0])
        rows, reward, terminated, truncated, info = vector.step(actions)
        told = info.get("final_info", info)
        for i, env in enumerate(singles):
            if mode == "NextStep" and over[i]:
                row, one = env.reset()
                assert (reward[i], terminated[i], truncated[i]) == (0, False, False)
            else:
                row, r, a, b, one = env.step(actions[i])
                assert (r, a, b) == (reward[i], terminated[i], truncated[i])
                if a or b:
                    episodes[i] += 1
                    for key in ("trace_hash", "return", "instance", "figures", "illegal_actions"):
                        assert told[key][i] == one[key], key
                if mode == "SameStep" and (a or b):
                    assert np.array_equal(info["final_obs"][i], row)
                    row, one = env.reset()
            assert np.array_equal(rows[i], row)
            assert np.array_equal(info["action_mask"][i], one["action_mask"])
        over = terminated | truncated
    assert episodes.min() > 1
    assert len(set(episodes.tolist())) > 1


def test_next_step():
    env = gym.make_vec(IDS[0], num_envs=3, workload="bimodal:load=0.9", horizon_bursts=30)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env.reset(seed=1)
    before = np.zeros(3, bool)
    resets = 0
    for step in range(300):
        _, reward, terminated, truncated, info = env.step(actions_for(env.single_action_space, 3, step))
        assert not (terminated | truncated)[before].any()
        assert (reward[before] == 0).all()
        assert (info["dt_ns"][before] == 0).all()
        resets += before.sum()
        before = terminated | truncated
    assert resets > 5


def test_same_step():
    env = gym.make_vec(IDS[1], num_envs=3, workload="bimodal:load=0.9", horizon_bursts=100, autoreset="SameStep")
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    assert ghostgym.GhostVectorEnv.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env.reset(seed=1)
    ends = 0
    for step in range(900):
        obs, _, terminated, truncated, info = env.step(actions_for(env.single_action_space, 3, step))
        over = terminated | truncated
        if not over.any():
            continue
        assert np.array_equal(info["_final_obs"], over)
        for i in range(3):
            if over[i]:
                ends += 1
                assert not info["final_obs"][i].any()
                assert obs[i].any()
                last = info["final_info"]
                assert len(last["trace_hash"][i]) == 16
                assert last["dt_ns"][i] == info["dt_ns"][i]
                assert last["action_mask"][i].tolist() == [0] * 8 + [1]
                assert all(last[f"_{key}"][i] for key in ("trace_hash", "figures", "dt_ns", "action_mask"))
            else:
                assert info["final_obs"][i] is None
    assert ends > 5


def test_disabled():
    env = gym.make_vec(IDS[0], num_envs=2, workload="bimodal:load=0.9", horizon_bursts=30, autoreset="Disabled")
    env.reset(seed=1)
    over = np.zeros(2, bool)
    step = 0
    while not over.any():
        step += 1
        _, _, terminated, truncated, _ = env.step(actions_for(env.single_action_space, 2, step))
        over = terminated | truncated
    with pytest.raises(ghostgym.OverError, match=f"environment {int(np.argmax(over))}"):
        env.step(actions_for(env.single_action_space, 2, 0))
    for bad in ([True, False], np.zeros(2, bool), np.ones(3, bool)):
        with pytest.raises(ghostgym.ShapeError):
            env.reset(options={"reset_mask": bad if isinstance(bad, np.ndarray) else np.array(bad, int)})


def test_copies():
    env = gym.make_vec(IDS[0], num_envs=4, workload="bimodal:load=0.9")
    kept = [env.reset(seed=1)[0]]
    infos = []
    for step in range(3):
        obs, reward, a, b, info = env.step(actions_for(env.single_action_space, 4, step))
        kept += [obs, reward, a, b]
        infos.append(info["action_mask"])
    frozen = [k.copy() for k in kept]
    for step in range(5):
        env.step(actions_for(env.single_action_space, 4, step))
    assert all(np.array_equal(x, y) for x, y in zip(kept, frozen, strict=True))
    bare = gym.make_vec(IDS[0], num_envs=4, workload="bimodal:load=0.9", copy=False)
    first = bare.reset(seed=1)[0]
    assert bare.step(actions_for(env.single_action_space, 4, 0))[0] is first


def test_masks():
    env = gym.make_vec(IDS[1], num_envs=5, workload="rocksdb:load=0.95")
    _, info = env.reset(seed=1)
    for _ in range(50):
        assert env.action_masks().dtype == np.bool_
        assert np.array_equal(env.action_masks(), info["action_mask"].astype(bool))
        actions = np.array([env.single_action_space.sample(mask=m) for m in info["action_mask"]])
        info = env.step(actions)[4]


def test_lists_of_seeds():
    def first_rows(env, seed):
        obs, _ = env.reset(seed=seed)
        for step in range(20):
            obs, *_ = env.step(actions_for(env.single_action_space, 3, step))
        return obs

    made = [gym.make_vec(IDS[0], num_envs=3, workload="heavytail:load=0.9") for _ in range(2)]
    assert np.array_equal(first_rows(made[0], 7), first_rows(made[1], [7, 8, 9]))
    some = [gym.make_vec(IDS[0], num_envs=3, workload="heavytail:load=0.9") for _ in range(2)]
    a, b = (first_rows(env, [7, None, 9]) for env in some)
    assert np.array_equal(a[[0, 2]], b[[0, 2]])
    assert not np.array_equal(a[1], b[1]), "chance decides where nothing is said"
    for bad in ([1, 2], [1, 2, -3]):
        with pytest.raises(ghostgym.ConfigError, match="seed"):
            made[0].reset(seed=bad)


def test_instances():
    env = gym.make_vec(IDS[0], num_envs=2, workload="bimodal", horizon_bursts=30, autoreset="Disabled")
    drawn = ghostgym.sample_instances(1, kinds=["heavytail", "rocksdb"], seed=5)
    env.reset(options={"instances": drawn})
    told = [None, None]
    over = np.zeros(2, bool)
    while not over.all():
        _, _, a, b, info = env.step(np.zeros((2, 1), np.float32))
        for i in np.flatnonzero(a | b):
            told[i] = info["instance"][i]
        over |= a | b
        if (a | b).any() and not over.all():
            break
    assert [t for t in told if t] == [d for t, d in zip(told, drawn, strict=True) if t]
    with pytest.raises(ghostgym.ConfigError, match="instances"):
        env.reset(options={"instances": drawn[:1]})


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("name", IDS)
def test_wrappers(name, mode):
    """Gymnasium's statistics agree with what the library says of each episode."""
    if mode == "SameStep" and gym.__version__.startswith("1.2."):
        pytest.skip("Gymnasium 1.2 counts the first reward of the next episode")
    env = gym.make_vec(name, num_envs=4, workload="bimodal:load=0.9", horizon_bursts=60, autoreset=mode)
    env = RecordEpisodeStatistics(env)
    env.reset(seed=1)
    episodes = 0
    over = np.zeros(4, bool)
    for step in range(400):
        if mode == "Disabled" and over.any():
            env.reset(options={"reset_mask": over})
        _, _, terminated, truncated, info = env.step(actions_for(env.single_action_space, 4, step))
        over = terminated | truncated
        told = info.get("final_info", info)
        for i in np.flatnonzero(over):
            episodes += 1
            statistics = told.get("episode", info.get("episode"))
            assert statistics["r"][i] == pytest.approx(told["return"][i], rel=1e-5)
    assert episodes > 8


def test_normalising_wrappers():
    env = gym.make_vec(IDS[0], num_envs=4, workload="bimodal:load=0.9", horizon_bursts=60)
    env = NormalizeObservation(NormalizeReward(env))
    env.reset(seed=1)
    for step in range(100):
        obs, reward, *_ = env.step(actions_for(env.single_action_space, 4, step))
        assert np.isfinite(obs).all()
        assert np.isfinite(reward).all()


@pytest.mark.parametrize("name", IDS)
def test_sync_vector_of_singles_is_the_native_vector(name):
    kwargs = {"workload": "rocksdb:load=0.9", "horizon_bursts": 30}
    native = gym.make_vec(name, num_envs=3, **kwargs)
    sync = gym.make_vec(name, num_envs=3, vectorization_mode="sync", **kwargs)
    assert isinstance(native, ghostgym.GhostVectorEnv)
    assert isinstance(sync, gym.vector.SyncVectorEnv)
    assert native.observation_space == sync.observation_space
    assert native.action_space == sync.action_space
    ours, theirs = native.reset(seed=5), sync.reset(seed=5)
    ends = 0
    for step in range(400):
        assert np.array_equal(ours[0], theirs[0])
        for key in ("action_mask", "dt_ns", "_action_mask", "_dt_ns"):
            assert np.array_equal(ours[-1][key], theirs[-1][key]), key
            assert ours[-1][key].dtype == theirs[-1][key].dtype
        actions = actions_for(native.single_action_space, 3, step)
        ours, theirs = native.step(actions), sync.step(actions)
        for a, b in zip(ours[1:4], theirs[1:4], strict=True):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype
        for i in np.flatnonzero(ours[2] | ours[3]):
            ends += 1
            assert ours[4]["trace_hash"][i] == theirs[4]["trace_hash"][i]
    assert ends > 3


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_make_vec_passes_everything_on(mode):
    env = gym.make_vec(
        IDS[0], num_envs=3, workload=["bimodal", "frame"], autoreset=mode, copy=False, workers=2,
        max_episode_steps=7, render_mode="ansi", wakeup_preemption=True, events="all", profile="ideal",
        reward="wait", horizon_bursts=100, invalid_action="raise", age_bound_us=1e5, inference_us=1, slice_us=500,
    )  # fmt: skip
    again = pickle.loads(pickle.dumps(env))
    assert again.spec == env.spec
    assert again.metadata == env.metadata
    played = []
    for made in (env, again, gym.make_vec(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))):
        made.reset(seed=1)
        assert [text.split()[0] for text in made.render()] == ["bimodal", "frame", "bimodal"]
        for step in range(7):
            _, _, terminated, truncated, info = made.step(actions_for(made.single_action_space, 3, step))
        assert (terminated | truncated).all()
        played.append(list(info.get("final_info", info)["trace_hash"]))
        made.close()
    assert played[0] == played[1] == played[2]


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_processes(context):
    """AsyncVectorEnv loads the library in the parent, then forks."""

    env = gym.vector.AsyncVectorEnv([make_one, make_one], context=context)
    obs, _ = env.reset(seed=1)
    assert obs.shape == (2, env.single_observation_space.shape[0])
    for step in range(20):
        env.step(actions_for(env.single_action_space, 2, step))
    env.close()


def make_one():
    import ghostgym  # noqa: F401 - registers the ids in a spawned worker

    return gym.make("ghostgym/Priority-v0", workload="bimodal:load=0.9", horizon_bursts=30)


def test_forked_child_refuses_a_parents_handle():
    import os

    env = gym.make_vec(IDS[0], num_envs=2)
    env.reset(seed=1)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        try:
            try:
                env.step(np.zeros((2, 1), np.float32))
            except ghostgym.ForkedError:
                own = gym.make_vec(IDS[0], num_envs=2)
                own.reset(seed=1)
                own.step(np.zeros((2, 1), np.float32))
                grandchild = os.fork()
                if grandchild == 0:
                    try:
                        own.step(np.zeros((2, 1), np.float32))
                    except ghostgym.ForkedError:
                        deep = gym.make_vec(IDS[0], num_envs=2)
                        deep.reset(seed=1)
                        ghostgym._native.call("selftest.work", 200)
                        os._exit(7)
                    os._exit(1)
                status = os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1])
                ghostgym._native.call("selftest.work", 200)
                said = f"refused, grandchild {status}"
        finally:
            os.write(write, said.encode())
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 100) == b"refused, grandchild 7"
    env.step(np.zeros((2, 1), np.float32))


def test_a_step_that_only_resets_is_marked():
    """In NextStep, so that a learner can leave it out of its buffer."""
    env = ghostgym.GhostVectorEnv(3, workload="bimodal:load=0.9", horizon_bursts=40)
    env.reset(seed=1)
    before = np.zeros(3, bool)
    seen = 0
    for _ in range(300):
        _, reward, terminated, truncated, info = env.step(np.zeros((3, 1), np.float32))
        marked = info.get("reset_step", np.zeros(3, bool))
        assert np.array_equal(marked, before)
        assert np.array_equal(info.get("_reset_step", marked), marked)
        assert not reward[marked].any()
        seen += marked.sum()
        before = terminated | truncated
    assert seen > 3
    for mode in ("SameStep", "Disabled"):
        env = ghostgym.GhostVectorEnv(1, autoreset=mode, workload="bimodal:load=0.9", horizon_bursts=40)
        env.reset(seed=1)
        over = False
        while not over:
            _, _, a, b, info = env.step(np.zeros((1, 1), np.float32))
            over = a[0] or b[0]
            assert "reset_step" not in info


def test_a_subclass_is_copied_as_what_it_is():
    class Mine(ghostgym.GhostVectorEnv):
        pass

    made = Mine(2, autoreset=gym.vector.AutoresetMode.SAME_STEP)
    assert made.metadata["autoreset_mode"] is gym.vector.AutoresetMode.SAME_STEP
    assert type(copy.deepcopy(made)) is Mine
    vector = gym.make_vec("ghostgym/Placement-v0", 2)
    assert type(copy.deepcopy(vector)) is type(vector)


def test_a_first_reset_without_a_seed_is_by_chance_also_of_those_without_an_instance():
    rows = []
    for _ in range(2):
        env = ghostgym.GhostVectorEnv(2, workload="bimodal")
        env.reset(options={"instances": [None, None]})
        _, _, _, _, _ = env.step(np.zeros((2, 1), np.float32))
        rows.append(env.step(np.zeros((2, 1), np.float32))[0])
    assert not np.array_equal(*rows)
