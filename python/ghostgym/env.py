"""The two environments: one agent, two actions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from . import _native, errors
from .spec import Schema, instance_list, natural, reset_options, schema
from .vector import end_info, library_options, make_again, put_actions


class _Env(gym.Env[Any, Any]):
    """One environment: a vector of one, with its results as Python values."""

    metadata = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012 - Gymnasium's name
    _kind = ""

    def __init__(
        self,
        workload: str = "dispersive:load=0.9",
        *,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._made = {"workload": workload, "render_mode": render_mode, **options}
        if render_mode not in (None, "ansi"):
            raise errors.ConfigError(f"render_mode: {render_mode!r} is none of None, 'ansi'")
        self.render_mode = render_mode
        self.schema: Schema = schema(self._kind)
        self.observation_space = self.schema.observation_space
        self.action_space = self.schema.action_space
        self._options = library_options(self._kind, **options)
        self._vector = _native.Vector(
            {
                **self._options,
                "num_envs": 1,
                "workloads": [workload],
                "autoreset": "disabled",
                "workers": 1,
            }
        )
        a = self._vector.arrays
        self._obs, self._mask = a["obs"][0], a["mask"].view(np.int8)[0]
        self._action = a["action"].reshape(self.action_space.shape)
        self._numbers = "fiu" if self.schema.action["kind"] == "key" else "iu"
        self._reward, self._dt = a["reward"], a["dt_ns"]
        self._terminated, self._truncated = a["terminated"], a["truncated"]
        self._seeded = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Start an episode: of the seed given, or the next of the seed before.

        ``options={"instances": [{"workload", "seed", "episode"}]}``, a list of one, takes these in place of
        all that: see ``sample_instances``.
        """
        seed = None if seed is None else natural("seed", seed)
        super().reset(seed=seed)
        options = reset_options(options, ("instances",))
        request: dict[str, Any] = {}
        if options.get("instances") is not None:
            request["instances"] = instance_list(options["instances"])
            if len(request["instances"]) != 1:
                raise errors.ConfigError(f"instances: {len(request['instances'])} given for one environment")
        if seed is not None:
            request["seed"] = seed
        elif not self._seeded:
            request["seed"] = int(self.np_random.integers(1 << 62))
        self._vector.reset(request)
        self._seeded = True
        return self._obs.copy(), {"action_mask": self._mask.copy(), "dt_ns": 0}

    def step(self, action: Any) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Answer the open decision."""
        put_actions(self._action, action, self._numbers)
        self._vector.step()
        info: dict[str, Any] = {"action_mask": self._mask.copy(), "dt_ns": int(self._dt[0])}
        terminated, truncated = bool(self._terminated[0]), bool(self._truncated[0])
        if terminated or truncated:
            info.update(end_info(self._vector.info()["ended"][0]))
        return self._obs.copy(), float(self._reward[0]), terminated, truncated, info

    def action_masks(self) -> npt.NDArray[np.bool_]:
        """The legal actions of the open decision, as sb3-contrib asks for them: bool, (9,) or (1,)."""
        self._vector.check()
        legal: npt.NDArray[np.bool_] = self._mask.astype(np.bool_)
        return legal

    def render(self) -> str:
        """The open decision, the CPUs and the run queues, as text."""
        if self.render_mode is None:
            raise errors.ConfigError("render: pass render_mode='ansi' to make the environment")
        return self._vector.render(0)

    def close(self) -> None:
        """Free the library's side. Closing twice does nothing."""
        self._vector.close()

    def __reduce__(self) -> Any:
        """What a pickle holds is how to make it: the copy is an environment of its own, before its reset."""
        return make_again, (type(self), self._made), {"spec": self.spec}


class PriorityEnv(_Env):
    """Give each task a number; the run queue keeps the order. The default for learning.

    ## Description

    A simulated machine runs a workload under the agent that is deployed by ``ghostd``. Whenever a task
    needs a place in a run queue (it is new, it wakes, it yields, or it lost its CPU), the environment asks
    for its key. Smaller keys run first, ties by arrival. A step answers one decision; time stands still
    until every task that arrived at the same instant has its key, and then goes on to the next decision.
    Nothing is asked when a task goes straight to an idle CPU, since no answer would matter.

    With ``wakeup_preemption=True`` a waking task takes the CPU of the running task with the greatest key, if
    that is greater than its own. The keys of running tasks are asked for, too (the feature ``running``
    says so), in further steps without time. It is worth more than any cleverness in placement.

    ## Action space

    ``Box(-1, 1, (1,), float32)``: the key. Keys out of bounds are clipped to them, and NaN means behind
    all; both count in ``info["illegal_actions"]``.

    ## Observation space

    ``Box((19,), float32)``: one row about the task, see ``env.unwrapped.schema.features`` for name, unit, bounds
    and formula of each number. Times are logarithms against the running geometric mean of bursts, so one
    policy fits microseconds and seconds. What is not known is 0 with its presence bit at 0. At the end of
    the work or the horizon there is no decision, and all is zero; a limit of steps shows the decision that is
    open then.

    ## Reward

    ``"slowdown"``: minus the integral over time of the sum, over tasks waiting in run queues, of 1/max(E, 5
    switches, 1 us). E is what the agent expects of the task's burst when it wakes: the average of its own
    bursts; the geometric mean of all where it has none; the workload's mean before that. It is no more than
    a guess: among tasks without a history it is the number of those waiting, whatever their bursts turn out
    to be. So returns order policies roughly as ``figures["slowdown_mean"]`` does at best; compare by the figure.
    ``"wait"``: minus the integral of the number of waiting tasks, in units of the mean interarrival, which
    orders as ``figures["wait_mean_us"]`` does. Rewards are differences of one integral, so the return of an
    episode does not depend on how often it asked. ``info["dt_ns"]`` is the time that passed, for discounting
    by elapsed time.

    ## Starting state

    An empty machine at time 0, and the workload's first tasks. ``reset(seed=s)`` fixes arrivals, bursts and
    sleeps, the same under every policy; a reset without a seed goes on to the next episode of the seed.

    ## Episode end

    Terminated when every task has finished, or when those left wait for each other for ever (``info["deadlock"]``
    says who waits for whom). Truncated at the horizon: ``horizon_bursts`` times the workload's nominal mean
    interarrival, fixed at reset; or after ``max_episode_steps``.
    The last info carries ``trace_hash`` (equal for equal runs, in Go and in Python), ``figures`` (what an
    experimenter would read off: ``ghostlab list figures``), ``return``, ``instance``, ``illegal_actions``.

    ## Arguments

    - ``workload``: a kind with parameters, as in ``"bimodal:load=0.8:cpus=6:scale=2"``, or the path of an
      rt-app file. ``ghostlab list`` names all.
    - ``profile``: what the machine costs, as in ``"linux"``; by default the workload's own.
    - ``wakeup_preemption``: see above.
    - ``events``: ``"default"``, ``"fork"`` or ``"all"``: which enqueues are asked about.
    - ``timing``: ``"sync"`` (default), ``"async+135ms"``, ``"hold=50us+27us"``: when an answer takes effect.
    - ``reward``: ``"slowdown"`` (default) or ``"wait"``.
    - ``horizon_bursts``: 2000; fewer are biased where long bursts are rare.
    - ``max_episode_steps``: 0, the default, is no limit. ``gym.make`` keeps it to itself and adds
      ``TimeLimit``, whose last info tells nothing of the episode; ``make_vec`` and the class pass it on.
    - ``invalid_action``: ``"back"`` (default), or ``"raise"`` for ``ActionError`` before anything is stepped.
    - ``age_bound_us``: a task that waits longer goes first, whatever its key; 1 s.
    - ``inference_us``: what a decision costs on the machine; by default the profile's.
    - ``slice_us``: the common slice; by default the workload's, else the profile's.
    - ``warmup``: share of the horizon that figures (not rewards) leave out; 0.
    - ``render_mode``: ``None`` or ``"ansi"``.

    ## Version history

    - v0: first release.
    """

    _kind = "priority"


class PlacementEnv(_Env):
    """Name a place in the run queue: one of the first eight, or the back.

    ## Description

    As ``PriorityEnv``, but the queue keeps the places that it is given: the question that the RL fork of
    ghOSt asks.
    Nothing is asked when the queue is empty.

    ## Action space

    ``Discrete(9)``: slot k < 8 is "before the task seen at slot k"; 8 is the back. ``info["action_mask"]``
    (int8) and ``action_masks()`` (bool) give the legal ones: k below the number of waiting tasks, and the
    back. An illegal action means the back and counts in ``info["illegal_actions"]``.

    ## Observation space

    ``Box((75,), float32)``: the task's row as in ``PriorityEnv``, then seven numbers for each of the first
    eight waiting tasks, the first of which is its presence bit.

    ## Reward, starting state, episode end

    As ``PriorityEnv``.

    ## Arguments

    As ``PriorityEnv``, but for ``wakeup_preemption``, which needs keys and is refused.

    ## Version history

    - v0: first release.
    """

    _kind = "placement"
