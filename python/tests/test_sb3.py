"""The adapter for Stable-Baselines3. Where that is not installed, over a base class like its own."""

import sys
import types

import ghostgym
import numpy as np
import pytest
from ghostgym import export

try:
    import sb3_contrib as contrib
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecMonitor
except ImportError:
    contrib = None

    class VecEnv:
        """What the adapter takes from stable_baselines3.common.vec_env.VecEnv, as of 2.7."""

        def __init__(self, num_envs, observation_space, action_space):
            self.num_envs, self.observation_space, self.action_space = num_envs, observation_space, action_space
            self.reset_infos = [{} for _ in range(num_envs)]
            self._reset_seeds()
            self._reset_options()
            assert self.get_attr("render_mode") == [self.render_mode] * num_envs

        def _reset_seeds(self):
            self._seeds = [None] * self.num_envs

        def _reset_options(self):
            self._options = [{} for _ in range(self.num_envs)]

        def seed(self, seed):
            self._seeds = [seed + i for i in range(self.num_envs)]

        def step(self, actions):
            self.step_async(actions)
            return self.step_wait()

        def _get_indices(self, indices):
            every = range(self.num_envs) if indices is None else indices
            return [every] if isinstance(every, int) else every

        def has_attr(self, name):
            try:
                self.get_attr(name)
            except AttributeError:
                return False
            return True

    stand_in = types.ModuleType("stable_baselines3.common.vec_env")
    stand_in.VecEnv = VecEnv
    for name in ("stable_baselines3", "stable_baselines3.common"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules[stand_in.__name__] = stand_in

from ghostgym.sb3 import GhostVecEnv

learns = pytest.mark.skipif(contrib is None, reason="Stable-Baselines3 is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def test_transitions_are_those_of_the_vector():
    options = {"num_envs": 3, "workload": "rocksdb:load=0.9", "horizon_bursts": 20}
    env = GhostVecEnv("placement", **options)
    plain = ghostgym.GhostVectorEnv(kind="placement", autoreset="SameStep", **options)
    env.seed(5)
    obs, (wanted, info) = env.reset(), plain.reset(seed=5)
    rng = np.random.default_rng(1)
    ends = 0
    kept = []
    for _ in range(300):
        assert np.array_equal(obs, wanted)
        masks = np.stack(env.env_method("action_masks"))
        assert masks.dtype == np.bool_
        assert np.array_equal(masks, info["action_mask"].astype(bool))
        actions = np.array([rng.choice(np.flatnonzero(m)) for m in masks])
        kept.append((obs, obs.copy()))
        obs, reward, done, infos = env.step(actions)
        wanted, r, terminated, truncated, info = plain.step(actions)
        assert reward.dtype == np.float32
        assert reward.flags.writeable
        assert np.array_equal(reward, r.astype(np.float32))
        assert np.array_equal(done, terminated | truncated)
        for i in range(3):
            assert ("terminal_observation" in infos[i]) == bool(done[i])
            if done[i]:
                ends += 1
                assert infos[i]["TimeLimit.truncated"]
                assert np.array_equal(infos[i]["terminal_observation"], info["final_obs"][i])
                assert infos[i]["trace_hash"] == info["final_info"]["trace_hash"][i]
    assert ends > 3
    assert all(np.array_equal(a, b) for a, b in kept), "SB3 keeps what it is given"


@learns
def test_maskable_ppo_never_breaks_the_mask():
    env = GhostVecEnv(
        "placement", num_envs=8, workload="rocksdb:load=0.9", horizon_bursts=20, invalid_action="raise"
    )
    model = contrib.MaskablePPO("MlpPolicy", VecMonitor(env), n_steps=64, batch_size=128, n_epochs=1, seed=1)
    model.learn(8 * 64 * 4)
    assert len(model.ep_info_buffer) > 0
    env.close()


@learns
def test_ppo_learns_keys_and_is_exported(tmp_path):
    import torch

    env = GhostVecEnv("priority", num_envs=8, workload="bimodal:load=0.9", horizon_bursts=200)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=128, n_epochs=1, seed=1)
    model.learn(8 * 64 * 2)

    class Mean(torch.nn.Module):
        def __init__(self, policy):
            super().__init__()
            self.features, self.latent, self.mean = (
                policy.pi_features_extractor, policy.mlp_extractor.policy_net, policy.action_net
            )  # fmt: skip

        def forward(self, row):
            return self.mean(self.latent(self.features(row)))

    mean = Mean(model.policy).eval()
    path = tmp_path / "ppo.onnx"
    row = torch.zeros(2, env.observation_space.shape[0])
    torch.onnx.export(
        mean, (row,), str(path), input_names=["row"], output_names=["key"],
        dynamic_axes={"row": {0: "n"}, "key": {0: "n"}}, dynamo=False,
    )  # fmt: skip
    with torch.no_grad():
        policy = export.stamp(
            path, env.env, reference=lambda rows: mean(torch.from_numpy(rows)).numpy(), recipe="SB3 PPO"
        )
    assert policy.kind == "priority"
    played = env.env.rollout([policy], [{"workload": "bimodal:load=0.9", "seed": 1, "episode": 0}])
    assert played.decisions[0, 0] > 0


def test_what_cannot_be_adapted_is_refused():
    with pytest.raises(ghostgym.ConfigError, match="SameStep"):
        GhostVecEnv(ghostgym.GhostVectorEnv(2))
    with pytest.raises(ghostgym.ConfigError, match="num_envs"):
        GhostVecEnv(ghostgym.GhostVectorEnv(2, autoreset="SameStep"), num_envs=3)
    env = GhostVecEnv(ghostgym.GhostVectorEnv(2, autoreset="SameStep", render_mode="ansi"))
    env.reset()
    assert env.render().count("queue 0  CPUs") == 2
    assert env.has_attr("action_masks")
    assert not env.has_attr("nothing_like_it")
    assert env.get_attr("num_envs", indices=[1]) == [2]
    with pytest.raises(ghostgym.ConfigError, match="set"):
        env.set_attr("workload", "frame")
