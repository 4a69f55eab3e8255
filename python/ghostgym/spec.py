"""What the library says of itself: schemas, names, spaces. Nothing is written down twice."""

from __future__ import annotations

import copy
import difflib
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from reprlib import repr as _shortly
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from . import _native, errors


@dataclass(frozen=True, eq=False)
class Schema:
    """What a row of numbers and its answer mean. There is one object for each kind."""

    kind: str  # "priority" or "placement"
    hash: str
    text: str  # canonical; the hash is of it
    features: tuple[dict[str, Any], ...]
    action: dict[str, Any]

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return len(self.features)

    @property
    def names(self) -> list[str]:
        """The features' names, in order."""
        return [f["name"] for f in self.features]

    @property
    def observation_space(self) -> gym.spaces.Box:
        """Rows: float32, with the bounds that values are clipped to."""
        low = np.array([f["lo"] for f in self.features], np.float32)
        high = np.array([f["hi"] for f in self.features], np.float32)
        return gym.spaces.Box(low, high, dtype=np.float32)

    @property
    def action_space(self) -> gym.Space[Any]:
        """Discrete places for a slot schema, a bounded Box of shape (1,) for a key."""
        if self.action["kind"] == "slot":
            return gym.spaces.Discrete(int(self.action["n"]))
        return gym.spaces.Box(np.float32(self.action["lo"]), np.float32(self.action["hi"]), (1,), np.float32)


def spec() -> dict[str, Any]:
    """Every schema, workload, scheduler, profile, reward and choice of events there is."""
    return copy.deepcopy(_spec())


@lru_cache(maxsize=1)
def _spec() -> dict[str, Any]:
    found: dict[str, Any] = _native.call("spec")
    return found


def schema(kind: str) -> Schema:
    """The schema of a kind, "priority" or "placement"."""
    known = _spec()["schemas"]
    if not isinstance(kind, str) or kind not in known:
        raise errors.ConfigError(f"schema: {kind!r} is none of {', '.join(known)}{near(kind, known)}")
    return _schema(kind)


@lru_cache(maxsize=2)
def _schema(kind: str) -> Schema:
    s = _spec()["schemas"][kind]
    return Schema(kind, s["hash"], s["text"], tuple(s["features"]), s["action"])


def shortly(value: Any) -> str:
    """What was given, for a message: it may be megabytes."""
    return _shortly(value)


def near(name: Any, choices: Iterable[str]) -> str:
    """What an error about an unknown name ends in: the choice that was probably meant, if any is near."""
    found = difflib.get_close_matches(name, list(choices), 1) if isinstance(name, str) else []
    return f"; did you mean {found[0]!r}?" if found else ""


def natural(name: str, value: Any) -> int:
    """A whole number that Go takes for a seed or an episode, or a ConfigError that names it."""
    try:
        number = operator.index(value)
    except TypeError:  # also of arrays that hold more than one
        number = -1
    if not isinstance(value, (bool, np.bool_)) and 0 <= number < 1 << 64:
        return number
    raise errors.ConfigError(f"{name}: want a whole number from 0 to 2**64 - 1, got {shortly(value)}")


def real(value: Any) -> Any:
    """A number as a float, whatever its size; what is none stays, and the library names it."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return value
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def as_array(name: str, given: Any) -> npt.NDArray[Any]:
    """An array of what was given, or a ShapeError that says why it is none."""
    try:
        return np.asarray(given)
    except (ValueError, TypeError) as error:
        raise errors.ShapeError(f"{name}: it is no array: {error}") from None


def reset_options(given: Any, known: tuple[str, ...]) -> dict[str, Any]:
    """The options of a reset, of which only those known exist."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise errors.ConfigError(f"reset options: want a dict, got {shortly(given)}")
    unknown = [str(name) for name in given if name not in known]
    if unknown:
        raise errors.ConfigError(f"reset options: unknown {', '.join(unknown)}; known: {', '.join(known)}")
    return dict(given)


def items(name: str, given: Any, want: str) -> list[Any]:
    """What a list, tuple or other iterable holds; a ConfigError for text, mappings and all else."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise errors.ConfigError(f"{name}: want {want}, got {shortly(given)}")
    return list(given)


def instance_list(given: Any) -> list[dict[str, Any] | None]:
    """Instances as Go takes them; None stays. ConfigError names what is none."""
    found: list[dict[str, Any] | None] = []
    for i, one in enumerate(items("instances", given, "a list of {'workload', 'seed', 'episode'}")):
        if one is None:
            found.append(None)
            continue
        if not isinstance(one, Mapping) or "workload" not in one or "seed" not in one:
            raise errors.ConfigError(
                f"instances[{i}]: want {{'workload', 'seed'}}, and 'episode' if not 0, got {shortly(one)}"
            )
        whole = {k: natural(f"instances[{i}].{k}", v) for k, v in one.items() if k in ("seed", "episode")}
        found.append({**one, **whole})
    return found


def sample_instances(
    n: int, *, kinds: list[str] | None = None, seed: int = 0, held_out: bool = False
) -> list[dict[str, Any]]:
    """Draw workload instances, ``n`` of each kind.

    Args:
        n: how many of each kind.
        kinds: names of workloads; all eight if None.
        seed: of the draw; each instance also gets a seed of its own.
        held_out: draw parameters that training never sees (2, 12 or 16 CPUs, scale 1/4 or 4) instead of
            those that it does (4, 6 or 8 CPUs, scale 1/2 to 2).

    Returns:
        Instances as ``reset(options={"instances": [...]})`` and ``rollout`` take them:
        ``{"workload": spec, "seed": int, "episode": 0}``.
    """
    request = {"kinds": kinds or [], "n": n, "seed": natural("seed", seed), "held_out": held_out}
    drawn: list[dict[str, Any]] = _native.call("sample", request)["instances"]
    return drawn
