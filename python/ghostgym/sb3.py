"""Stable-Baselines3 over the native vector: it takes no VectorEnv of Gymnasium, only its own VecEnv.

    from ghostgym.sb3 import GhostVecEnv
    env = GhostVecEnv("placement", num_envs=64, workload="bimodal:load=0.9")
    MaskablePPO("MlpPolicy", env).learn(1_000_000)

Importing this module imports Stable-Baselines3, which ghostgym does not install.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError("ghostgym.sb3 needs Stable-Baselines3: pip install stable-baselines3") from error

from . import errors
from .vector import GhostVectorEnv


class GhostVecEnv(VecEnv):  # type: ignore[misc]
    """``num_envs`` environments as Stable-Baselines3 wants them, with masks for sb3-contrib.

    Results are fresh arrays, rewards float32 (SB3 writes into them). The info of an episode's last step has
    ``terminal_observation``, ``TimeLimit.truncated`` and what Gymnasium's has: ``trace_hash``, ``figures`` and so
    on. ``MaskablePPO`` finds ``action_masks``; evaluate with sb3-contrib's own ``evaluate_policy``, since SB3's
    ignores masks.

    Args:
        kind: "placement" or "priority", or a ``GhostVectorEnv`` with ``autoreset="SameStep"``.
        **options: of ``GhostVectorEnv``.
    """

    def __init__(self, kind: str | GhostVectorEnv = "placement", **options: Any) -> None:
        if isinstance(kind, GhostVectorEnv):
            if options:
                raise errors.ConfigError(f"{', '.join(options)}: give options to the environment itself")
            self.env = kind
        else:
            self.env = GhostVectorEnv(kind=kind, **{"autoreset": "SameStep", **options})
        if self.env.metadata["autoreset_mode"].value != "SameStep":
            raise errors.ConfigError('autoreset: Stable-Baselines3 resets at once: it needs "SameStep"')
        self.render_mode = self.env.render_mode
        self._actions: npt.NDArray[Any] | None = None
        super().__init__(self.env.num_envs, self.env.single_observation_space, self.env.single_action_space)

    def reset(self) -> npt.NDArray[np.float32]:
        """Start episodes; of the seed given by ``seed``, or the next ones."""
        obs, _ = self.env.reset(seed=self._seeds[0], options=self._options[0] or None)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        return obs

    def step_async(self, actions: npt.NDArray[Any]) -> None:
        """Take the actions of the step that ``step_wait`` does."""
        self._actions = actions

    def step_wait(
        self,
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32], npt.NDArray[np.bool_], list[dict[str, Any]]]:
        """Answer one decision in each environment."""
        obs, reward, terminated, truncated, told = self.env.step(self._actions)
        infos: list[dict[str, Any]] = [{"dt_ns": int(t)} for t in told["dt_ns"]]
        done = terminated | truncated
        for i in np.flatnonzero(done):
            last = told["final_info"]
            infos[i].update({k: v[i] for k, v in last.items() if not k.startswith("_")})
            infos[i]["terminal_observation"] = told["final_obs"][i]
            infos[i]["TimeLimit.truncated"] = bool(truncated[i] and not terminated[i])
        return obs.copy(), reward.astype(np.float32), done, infos

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions of each open decision."""
        return self.env.action_masks()

    def render(self, mode: str | None = None) -> Any:
        """Each environment as text."""
        return "\n\n".join(self.env.render())

    def close(self) -> None:
        """Free the library's side."""
        self.env.close()

    def _indices(self, indices: Any) -> list[int]:
        return list(self._get_indices(indices))

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute, once per environment: they are one object."""
        owner = self if attr_name in ("action_masks", "render_mode") else self.env
        return [getattr(owner, attr_name) for _ in self._indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: nothing of an environment can be set once it is made."""
        raise errors.ConfigError(f"{attr_name}: nothing can be set once the environments are made")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """``action_masks`` and ``render``, one row or text per environment."""
        if method_name not in ("action_masks", "render"):
            raise errors.ConfigError(f"{method_name!r}: each environment has action_masks and render only")
        rows: Any = self.action_masks() if method_name == "action_masks" else self.env.render()
        return [rows[i] for i in self._indices(indices)]

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No environment has a wrapper of its own."""
        return [False for _ in self._indices(indices)]
