"""Many environments at once, stepped inside the library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from . import _native, errors
from .policy import Policy
from .rollout import Rollouts, rollout
from .spec import Schema, as_array, instance_list, items, natural, near, real, reset_options, schema

_AUTORESET = {
    "NextStep": ("next_step", AutoresetMode.NEXT_STEP),
    "SameStep": ("same_step", AutoresetMode.SAME_STEP),
    "Disabled": ("disabled", AutoresetMode.DISABLED),
}

_KINDS = ("priority", "placement")

_OPTIONS = (
    "profile", "wakeup_preemption", "events", "timing", "reward", "horizon_bursts",
    "max_episode_steps", "invalid_action", "age_bound_us", "inference_us", "slice_us", "warmup",
)  # fmt: skip


def library_options(kind: str, /, **given: Any) -> dict[str, Any]:
    """The options of an environment as the library takes them; None stands for its own default."""
    unknown = set(given) - set(_OPTIONS)
    if unknown:
        raise errors.ConfigError(
            f"unknown option {', '.join(sorted(unknown))}; there are {', '.join(_OPTIONS)}"
            + near(min(unknown), _OPTIONS)
        )
    limit = given.get("max_episode_steps")
    if isinstance(limit, (int, np.integer)) and limit >= 1 << 63:
        raise errors.ConfigError(f"max_episode_steps: {limit} is no number of steps; 0 is no limit")
    options: dict[str, Any] = {"schema": kind}
    options.update({k: v for k, v in given.items() if v is not None})
    for name in ("horizon_bursts", "age_bound_us", "inference_us", "slice_us", "warmup"):
        if name in options:
            options[name] = real(options[name])
    return options


class GhostVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """``num_envs`` environments of one kind over the deployed agent, stepped in one call.

    Every unfinished sub-environment has exactly one open decision; a step answers one in each, and every
    clock is its own. What one does depends neither on the others nor on ``workers``: the transitions are
    those of single environments with the same seeds.

    Args:
        num_envs: how many.
        kind: "priority" or "placement"; fixed by the id under ``make_vec``.
        workload: a workload spec, or a list of them, of which sub-environment i takes number i modulo
            their count.
        autoreset: "NextStep" (the step after the end ignores its action and returns the reset
            observation with reward 0; ``info["reset_step"]`` marks it), "SameStep" (reset at once; the
            last observation and info are in ``info["final_obs"]`` and ``info["final_info"]``) or
            "Disabled" (the caller resets with ``options={"reset_mask": ...}``), or Gymnasium's own name
            of these. RLlib assumes the first, SB3 and TorchRL need the second or third.
        copy: results are fresh arrays. With False they are the library's own, overwritten by the next
            step or reset: only for code that keeps nothing.
        workers: threads that step shards of the environments; 0 is one per CPU.
        max_episode_steps, render_mode: as Gymnasium passes them on.
        **options: those of the single environment, see ``ghostgym.PriorityEnv``.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - Gymnasium's name; replaced, never changed
        "render_modes": ["ansi"],
        "render_fps": 1,
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        kind: str = "priority",
        workload: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = "dispersive:load=0.9",
        autoreset: str | AutoresetMode = "NextStep",
        copy: bool = True,
        workers: int = 1,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._made = {
            "num_envs": num_envs, "kind": kind, "workload": workload, "autoreset": autoreset, "copy": copy,
            "workers": workers, "render_mode": render_mode, **options,
        }  # fmt: skip
        if not isinstance(kind, str) or kind not in _KINDS:
            raise errors.ConfigError(f"kind: {kind!r} is none of {', '.join(_KINDS)}{near(kind, _KINDS)}")
        if isinstance(autoreset, AutoresetMode):
            autoreset = autoreset.value
        if not isinstance(autoreset, str) or autoreset not in _AUTORESET:
            raise errors.ConfigError(
                f"autoreset: {autoreset!r} is none of {', '.join(_AUTORESET)}{near(autoreset, _AUTORESET)}"
            )
        if not isinstance(copy, bool):
            raise errors.ConfigError(f"copy: want True or False, got {copy!r}")
        if render_mode not in (None, "ansi"):
            raise errors.ConfigError(f"render_mode: {render_mode!r} is none of None, 'ansi'")
        name, mode = _AUTORESET[autoreset]
        self.num_envs = num_envs
        self.schema: Schema = schema(kind)
        self.render_mode = render_mode
        self.metadata = {**type(self).metadata, "autoreset_mode": mode}
        self.single_observation_space = self.schema.observation_space
        self.single_action_space = self.schema.action_space
        self._options = library_options(kind, **options)
        self._mode = mode
        self._copy = copy
        self._seeded = False
        self._due: npt.NDArray[np.bool_] | None = None  # those whose next step only resets
        self._vector = _native.Vector(
            {
                **self._options,
                "num_envs": num_envs,
                "workloads": [workload] if isinstance(workload, (str, os.PathLike)) else workload,
                "autoreset": name,
                "workers": workers,
            }
        )
        # Only now is num_envs known to be a number of environments.
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        a = self._vector.arrays
        self._obs, self._mask = a["obs"], a["mask"]
        self._action = a["action"].reshape(self.action_space.shape)
        self._numbers = "fiu" if self.schema.action["kind"] == "key" else "iu"
        self._reward, self._dt = a["reward"], a["dt_ns"]
        self._ends = a["terminated"], a["truncated"]
        self._terminated = a["terminated"].view(np.bool_)
        self._truncated = a["truncated"].view(np.bool_)
        self._mask8 = self._mask.view(np.int8)  # what Discrete.sample wants
        self._all = np.ones(num_envs, np.bool_)

    # -- Gymnasium ---------------------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Start episodes.

        Args:
            seed: sub-environment i gets ``seed + i`` (or ``seed[i]``) and episode 0. Without one, each
                goes on to the next episode of its seed.
            options: ``{"reset_mask": bool array}`` resets some only; ``{"instances": [...]}`` gives
                each (None: keeps its own) a workload, seed and episode: see ``sample_instances``.
        """
        options = reset_options(options, ("reset_mask", "instances"))
        request: dict[str, Any] = {}
        if isinstance(seed, (int, np.integer, np.ndarray)) and np.ndim(seed) == 0:
            seed = natural("seed", seed)
            super().reset(seed=seed)
            request["seed"] = seed
        elif seed is not None:
            request["seeds"] = [
                self._any_seed() if s is None else natural(f"seed[{i}]", s)
                for i, s in enumerate(items("seed", seed, "a whole number or a list of them"))
            ]
            self._count("seed", request["seeds"])
        else:
            request["seed"] = self._any_seed()  # of those whom no instance gives one
        mask = options.get("reset_mask")
        if mask is not None:
            mask = as_array("reset_mask", mask)
            if mask.shape != (self.num_envs,) or mask.dtype != np.bool_ or not mask.any():
                raise errors.ShapeError(
                    f"reset_mask: want a bool array of shape ({self.num_envs},) with one true at least"
                )
            request["mask"] = mask.astype(np.uint8).tobytes()
        if options.get("instances") is not None:
            request["instances"] = instance_list(options["instances"])
            self._count("instances", request["instances"])
        self._vector.reset(request)
        self._seeded = True
        self._due = None if mask is None or self._due is None else self._due & ~mask
        info: dict[str, Any] = {}
        self._put(info)
        return self._out(self._obs), info

    def _count(self, name: str, given: list[Any]) -> None:
        if len(given) != self.num_envs:
            raise errors.ConfigError(f"{name}: {len(given)} given for {self.num_envs} environments")

    def _any_seed(self) -> int | None:
        """At the first reset a seed by chance; later none, which goes on to the next episode."""
        return None if self._seeded else int(self.np_random.integers(1 << 62))

    def step(
        self, actions: Any
    ) -> tuple[
        npt.NDArray[np.float32],
        npt.NDArray[np.float64],
        npt.NDArray[np.bool_],
        npt.NDArray[np.bool_],
        dict[str, Any],
    ]:
        """Answer one decision in each environment."""
        put_actions(self._action, actions, self._numbers)
        self._vector.step()
        info: dict[str, Any] = {}
        self._put(info)
        if self._due is not None:
            info["reset_step"], info["_reset_step"] = self._due, self._due.copy()
            self._due = None
        terminated, truncated = self._ends
        if 1 in terminated.tobytes() or 1 in truncated.tobytes():  # a tenth of what any() takes
            self._tell_ends(info)
        if self._copy:
            return (
                self._obs.copy(), self._reward.copy(), self._terminated.copy(),
                self._truncated.copy(), info,
            )  # fmt: skip
        return self._obs, self._reward, self._terminated, self._truncated, info

    def _out(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return array.copy() if self._copy else array

    def _put(self, info: dict[str, Any]) -> None:
        """What every step and reset tells."""
        info["action_mask"] = self._out(self._mask8)
        info["_action_mask"] = self._out(self._all)
        info["dt_ns"] = self._out(self._dt)
        info["_dt_ns"] = self._out(self._all)

    def _tell_ends(self, info: dict[str, Any]) -> None:
        """What a step tells of the episodes that it ended."""
        ended = self._vector.info()["ended"]
        n = self.num_envs
        told = {key: np.full(n, None, dtype=object) for key in _END_KEYS}
        which = np.zeros(n, np.bool_)
        for e in ended:
            i = e["index"]
            which[i] = True
            for key, value in end_info(e).items():
                told[key][i] = value
        if self._mode is not AutoresetMode.SAME_STEP:
            for key in _END_KEYS:
                info[key], info[f"_{key}"] = told[key], which.copy()
            self._due = which if self._mode is AutoresetMode.NEXT_STEP else None
            return
        final = np.full(n, None, dtype=object)
        rows, masks = self._vector.arrays["final_obs"], self._vector.arrays["final_mask"]
        for i in np.flatnonzero(which):
            final[i] = rows[i].copy()
        last: dict[str, Any] = {**told, "action_mask": masks.view(np.int8).copy(), "dt_ns": self._dt.copy()}
        last |= {f"_{key}": which.copy() for key in (*_END_KEYS, "action_mask", "dt_ns")}
        info["final_obs"], info["_final_obs"] = final, which.copy()
        info["final_info"], info["_final_info"] = last, which.copy()

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions of each open decision: bool, (num_envs, 9); (num_envs, 1) for keys."""
        self._vector.check()
        legal: npt.NDArray[np.bool_] = self._mask.view(np.bool_).copy()
        return legal

    def render(self) -> tuple[str, ...]:
        """Each environment as text: its open decision, CPUs and run queues."""
        if self.render_mode is None:
            raise errors.ConfigError("render: pass render_mode='ansi' to make the environment")
        return tuple(self._vector.render(i) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Free the library's side."""
        if hasattr(self, "_vector"):  # not when its making was refused
            self._vector.close()

    def __reduce__(self) -> Any:
        """What a pickle holds is how to make it: the copy is an environment of its own, before its reset."""
        return make_again, (type(self), self._made), {"spec": self.spec}

    # -- beyond Gymnasium --------------------------------------------------------------------------

    def rollout(
        self,
        policies: Sequence[Policy | bytes | str],
        instances: Sequence[dict[str, Any]],
        *,
        fallback: str = "",
        workers: int = 0,
    ) -> Rollouts:
        """Run whole episodes inside the library, with the options of this environment.

        Equal, to the bit, to stepping the same policies through Gymnasium.

        Args:
            policies: models, loaded or as ONNX bytes, or names of schedulers such as "gittins+wp" or "oracle";
                ``wakeup_preemption`` is for models, and a name says it itself, by "+wp".
            instances: ``{"workload": spec, "seed": int, "episode": int}`` each; every policy plays every one.
            fallback: the heuristic that answers where a model cannot; "" is las for keys, rr for places.
            workers: threads; 0 is one per CPU.
        """
        return rollout(policies, instances, self._options, fallback=fallback, workers=workers)


class _OfOneKind(GhostVectorEnv):
    _kind = ""

    def __init__(self, num_envs: int = 1, **kwargs: Any) -> None:
        if "kind" in kwargs:
            raise errors.ConfigError(f"kind: the id says that it is {self._kind!r}; leave it out")
        super().__init__(num_envs, kind=self._kind, **kwargs)
        del self._made["kind"]


class PriorityVectorEnv(_OfOneKind):
    """What ``make_vec("ghostgym/Priority-v0", n)`` makes."""

    _kind = "priority"


class PlacementVectorEnv(_OfOneKind):
    """What ``make_vec("ghostgym/Placement-v0", n)`` makes."""

    _kind = "placement"


_END_KEYS = ("trace_hash", "figures", "return", "deadlock", "illegal_actions", "instance")


def end_info(ended: dict[str, Any]) -> dict[str, Any]:
    """What the info of an episode's last step carries, from the library's record of it."""
    return {
        "trace_hash": ended["trace_hash"],
        "figures": ended["figures"],
        "return": ended["return"],
        "deadlock": ended.get("deadlock") or [],
        "illegal_actions": ended["illegal_actions"],
        "instance": {k: ended[k] for k in ("workload", "seed", "episode")},
    }


def put_actions(into: npt.NDArray[Any], actions: Any, numbers: str) -> None:
    """Copy actions to where the library reads them; refuse any that would be stretched or rounded to fit."""
    given = as_array("actions", actions)
    if given.shape != into.shape or given.dtype.kind not in numbers:
        kinds = "numbers" if "f" in numbers else "integers"
        raise errors.ShapeError(
            f"actions: want {kinds} of shape {into.shape}, got {given.dtype} of shape {given.shape}"
        )
    if given.dtype.kind == "f" and given.dtype != into.dtype:
        with np.errstate(over="ignore"):  # what is too large for a float32 is out of bounds all the same
            into[...] = given
    else:
        into[...] = given


def make_again(cls: Any, kwargs: dict[str, Any]) -> Any:
    """Make an environment from what its pickle holds."""
    return cls(**kwargs)
