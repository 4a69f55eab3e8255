"""Whole episodes inside the library, policy included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native, errors
from .policy import Policy
from .spec import instance_list, items


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Results of every policy on every instance; arrays are (policies, instances).

    ``figures`` are those that ``ghostlab list figures`` explains, NaN where one does not exist. ``decisions`` were
    asked, those that the end left open included; rows of running tasks, under wakeup preemption, are none.
    """

    returns: npt.NDArray[np.float64]
    figures: dict[str, npt.NDArray[np.float64]]
    decisions: npt.NDArray[np.int64]
    trace_hash: list[list[str]]


def rollout(
    policies: Sequence[Policy | bytes | str],
    instances: Sequence[dict[str, Any]],
    options: dict[str, Any],
    *,
    fallback: str = "",
    workers: int = 0,
) -> Rollouts:
    """Run every policy on every instance; equal, to the bit, to stepping through Gymnasium.

    Args:
        policies: models, loaded or as ONNX bytes, or names of schedulers such as "gittins+wp" or "oracle". Of
            the options, ``wakeup_preemption`` is for models: a name says it itself, by "+wp".
        instances: ``{"workload": spec, "seed": int, "episode": int}`` each.
        options: of the environment, as ``library_options`` makes them.
        fallback: the heuristic that answers where a model cannot; "" is las for keys, rr for places.
        workers: threads; 0 is one per CPU.

    Raises:
        ModelError: a model cannot be loaded or cannot schedule here.
        ConfigError: a name or option does not exist, or does not fit the model.
        KeyboardInterrupt: Ctrl-C, at once.
    """
    policies = items("policies", policies, "a list of policies, models' bytes or schedulers' names")
    for i, p in enumerate(policies):
        if not isinstance(p, (Policy, bytes, str)):
            raise errors.ConfigError(
                f"policies[{i}]: want a policy, a model's bytes or a scheduler's name, not {type(p).__name__}"
            )
    asked = instance_list(instances)
    reply = _native.call_interruptible(
        "rollout",
        {
            "policies": [bytes(p) if isinstance(p, Policy) else p for p in policies],
            "instances": asked,
            "options": options,
            "fallback": fallback,
            "workers": workers,
        },
    )
    shape = (len(policies), len(asked))
    hashes = reply["trace_hash"]
    return Rollouts(
        returns=_native.floats(reply["returns"], shape),
        figures={k: _native.floats(v, shape) for k, v in sorted(reply["figures"].items())},
        decisions=np.frombuffer(reply["decisions"], "<i8").reshape(shape).copy(),
        trace_hash=[list(hashes[i * shape[1] : (i + 1) * shape[1]]) for i in range(shape[0])],
    )
