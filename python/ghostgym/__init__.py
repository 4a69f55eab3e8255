"""ghostgym: train a CPU scheduling policy in Gymnasium and deploy it in the same Go agent.

import gymnasium as gym, ghostgym
env = gym.make("ghostgym/Priority-v0", workload="bimodal:load=0.8")
envs = gym.make_vec("ghostgym/Priority-v0", num_envs=64)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium as _gym

__version__ = "0.1.0"

from .env import PlacementEnv, PriorityEnv
from .errors import (
    ActionError,
    BusyError,
    ClosedError,
    ConfigError,
    ForkedError,
    GhostgymError,
    ModelError,
    OverError,
    ShapeError,
)
from .evaluate import evaluate
from .policy import Policy, load_policy
from .rollout import Rollouts
from .spec import Schema, sample_instances, schema, spec
from .vector import GhostVectorEnv

__all__ = [
    "ActionError",
    "BusyError",
    "ClosedError",
    "ConfigError",
    "ForkedError",
    "GhostVectorEnv",
    "GhostgymError",
    "ModelError",
    "OverError",
    "PlacementEnv",
    "Policy",
    "PriorityEnv",
    "Rollouts",
    "Schema",
    "ShapeError",
    "__version__",
    "evaluate",
    "load_policy",
    "sample_instances",
    "schema",
    "spec",
]


if TYPE_CHECKING:
    from . import export as export


def __getattr__(name: str) -> Any:
    """``ghostgym.export`` and ``ghostgym.sb3``, imported when they are asked for: they take onnx and SB3 along."""
    if name in ("export", "sb3"):
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_gym.register(
    id="ghostgym/Priority-v0",
    entry_point="ghostgym.env:PriorityEnv",
    vector_entry_point="ghostgym.vector:PriorityVectorEnv",
)
_gym.register(
    id="ghostgym/Placement-v0",
    entry_point="ghostgym.env:PlacementEnv",
    vector_entry_point="ghostgym.vector:PlacementVectorEnv",
)
