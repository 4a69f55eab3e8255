"""From a trained policy to a file that the agent runs, checked before it is written.

A model that schedules is ONNX with a dynamic batch axis: one float32 input of rows, one output of keys
(n, 1) or logits over places (n, 9). Everything that the policy does to a row stands in the graph; masking
and arg-max are the agent's. Metadata says what the rows mean, so that the agent can refuse a model made
for other rows.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from . import errors
from .policy import Policy
from .spec import Schema, as_array, natural, real, sample_instances, schema, shortly
from .vector import GhostVectorEnv

Array = npt.NDArray[np.float32]

META_SCHEMA = "ghostgym.schema"
META_HASH = "ghostgym.schema_hash"
META_ACTION = "ghostgym.action"
META_RANGES = "ghostgym.ranges"
_OURS = {"schema", "schema_hash", "action", "ranges", "version", "onnx", "numpy"}

MIN_OBSERVATIONS = 1000
_OPSET = 17
_IR = 8
LEAK = 0.1


class ScoreNet:
    """A small net over rows: linear, or one hidden layer of leaky ReLUs; its parameters are one vector.

    The output layer is scaled by ``gain``, so that keys, also of a trained net, stay well inside the action
    space. Only the order of keys matters.
    """

    def __init__(self, inputs: int, hidden: int = 16, outputs: int = 1, gain: float = 0.02) -> None:
        for name, value, least in (("inputs", inputs, 1), ("hidden", hidden, 0), ("outputs", outputs, 1)):
            if not isinstance(value, (int, np.integer)) or value < least:
                raise errors.ConfigError(f"{name}: want a whole number from {least}, got {value!r}")
        self.inputs, self.hidden, self.outputs, self.gain = inputs, hidden, outputs, gain
        if hidden:
            self._shapes = [(hidden, inputs), (hidden,), (outputs, hidden), (outputs,)]
        else:
            self._shapes = [(outputs, inputs), (outputs,)]
        self._ends = np.cumsum([int(np.prod(s)) for s in self._shapes])
        self.size = int(self._ends[-1])
        self._proto: onnx.ModelProto | None = None

    def initial(self, rng: np.random.Generator) -> Array:
        """Parameters to start from: random directions, a quiet output."""
        theta = np.zeros(self.size, np.float32)
        parts = self.split(theta)
        if self.hidden:
            parts[0][:] = rng.normal(size=parts[0].shape) / np.sqrt(self.inputs)
            parts[2][:] = 0.3 * rng.normal(size=parts[2].shape) / np.sqrt(self.hidden)
        else:
            parts[0][:] = 0.3 * rng.normal(size=parts[0].shape) / np.sqrt(self.inputs)
        return theta

    def split(self, theta: Array) -> list[Array]:
        """Views of the parameters, layer by layer: weights (out, in), biases (out,)."""
        if theta.shape != (self.size,):
            raise errors.ShapeError(f"theta: want ({self.size},), got {theta.shape}")
        starts = [0, *self._ends[:-1]]
        return [theta[a:b].reshape(s) for a, b, s in zip(starts, self._ends, self._shapes, strict=True)]

    def _weights(self, theta: Array) -> list[Array]:
        parts = [p.copy() for p in self.split(theta)]
        parts[-2] *= np.float32(self.gain)
        parts[-1] *= np.float32(self.gain)
        return parts

    def score(self, theta: Array, rows: Array) -> Array:
        """The reference: what the graph computes, in NumPy."""
        parts = self._weights(theta)
        x = rows
        if self.hidden:
            x = x @ parts[0].T + parts[1]
            x = np.where(x < 0, np.float32(LEAK) * x, x)
        return np.asarray(x @ parts[-2].T + parts[-1], np.float32)

    def to_onnx(self, theta: Array) -> bytes:
        """The net as an ONNX file without metadata. The graph is built once; weights are put in."""
        if self._proto is None:
            self._proto = self._graph()
        for tensor, value in zip(self._proto.graph.initializer, self._weights(theta), strict=True):
            tensor.raw_data = np.ascontiguousarray(value, "<f4").tobytes()
        encoded: bytes = self._proto.SerializeToString()
        return encoded

    def _graph(self) -> onnx.ModelProto:
        names = ["w1", "b1", "w2", "b2"] if self.hidden else ["w", "b"]
        initializers = [
            numpy_helper.from_array(np.zeros(s, np.float32), n) for n, s in zip(names, self._shapes, strict=True)
        ]
        if self.hidden:
            nodes = [
                helper.make_node("Gemm", ["row", "w1", "b1"], ["h"], "hidden", transB=1),
                helper.make_node("LeakyRelu", ["h"], ["a"], "leaky", alpha=LEAK),
                helper.make_node("Gemm", ["a", "w2", "b2"], ["score"], "score", transB=1),
            ]
        else:
            nodes = [helper.make_node("Gemm", ["row", "w", "b"], ["score"], "score", transB=1)]
        graph = helper.make_graph(
            nodes,
            "score",
            [helper.make_tensor_value_info("row", TensorProto.FLOAT, ["batch", self.inputs])],
            [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch", self.outputs])],
            initializers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="ghostgym")
        model.ir_version = _IR
        return model


def _schema_of(env: Any) -> Schema:
    """The schema of an environment, of its kind's name, or the schema itself."""
    if isinstance(env, Schema):
        return env
    if isinstance(env, str):
        return schema(env)
    found = getattr(getattr(env, "unwrapped", env), "schema", None)
    if not isinstance(found, Schema):
        raise errors.ConfigError(
            f"env: want an environment of ghostgym, or 'priority' or 'placement', not {env!r}"
        )
    return found


def with_metadata(model: bytes, env: Any, ranges: Mapping[str, Any] | None = None, **extra: Any) -> bytes:
    """The same model with metadata that says what its rows mean.

    Args:
        model: ONNX bytes.
        env: an environment, "priority" or "placement".
        ranges: what it was trained on, such as ``{"cpus": [4, 8]}``: the least and the greatest; the agent
            warns of others.
        **extra: recipe, seed and the like: text, or what JSON holds; kept as ``ghostgym.<name>``.

    Raises:
        ConfigError: metadata that is none, or that ghostgym writes itself.
        ModelError: the model cannot be read.
    """
    from . import __version__

    s = _schema_of(env)
    if taken := _OURS & set(extra):
        raise errors.ConfigError(f"metadata {', '.join(sorted(taken))}: ghostgym writes it itself")
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(model)
    except Exception as error:
        raise errors.ModelError(f"the model cannot be read: {error}") from error
    if not proto.graph.node:
        raise errors.ModelError("the model cannot be read: it has no nodes")
    kept = [p for p in proto.metadata_props if not p.key.startswith("ghostgym.")]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    meta = {
        META_SCHEMA: s.text,
        META_HASH: s.hash,
        META_ACTION: s.action["kind"],
        "ghostgym.version": __version__,
        "ghostgym.onnx": onnx.__version__,
        "ghostgym.numpy": np.__version__,
        **{f"ghostgym.{k}": v if isinstance(v, str) else _json(f"metadata {k}", v) for k, v in extra.items()},
    }
    if ranges:
        meta[META_RANGES] = _json("ranges", _checked_ranges(ranges))
    for key in sorted(meta):
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, meta[key]
    encoded: bytes = proto.SerializeToString()
    return encoded


def _json(name: str, value: Any) -> str:
    """JSON of what NumPy and Python make."""

    def plain(x: Any) -> Any:
        if isinstance(x, (np.generic, np.ndarray)):
            return x.tolist()
        if isinstance(x, os.PathLike):
            return os.fspath(x)
        raise TypeError(f"it holds a {type(x).__name__}")

    try:
        return json.dumps(value, default=plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise errors.ConfigError(f"{name}: {shortly(value)} is no JSON: {error}") from None


def _checked_ranges(ranges: Any) -> dict[str, list[float]]:
    if not isinstance(ranges, Mapping):
        raise errors.ConfigError(f"ranges: want a dict of [least, greatest], got {shortly(ranges)}")
    found = {}
    for name, given in ranges.items():
        pair = as_array(f"ranges[{name!r}]", given)
        if (
            pair.shape != (2,)
            or pair.dtype.kind not in "fiu"
            or not (np.isfinite(pair).all() and pair[0] <= pair[1])
        ):
            raise errors.ConfigError(f"ranges[{name!r}]: want [least, greatest], got {shortly(given)}")
        found[str(name)] = pair.tolist()
    return found


def save(
    path: str | os.PathLike[str],
    model: bytes,
    env: Any,
    reference: Callable[[Array], npt.ArrayLike],
    observations: npt.ArrayLike,
    *,
    tolerance: float = 1e-4,
    ranges: Mapping[str, Any] | None = None,
    **extra: Any,
) -> Policy:
    """Write a model, after the Go runtime has reproduced the trained policy with it.

    Args:
        path: of the file; it is written whole or not at all.
        model: ONNX bytes.
        env: what its rows mean: an environment, "priority" or "placement".
        reference: the trained policy: rows (n, width) to keys or logits (n, out).
        observations: at least 1,000 rows that the policy has met.
        tolerance: how far a score may be off, absolute and relative: 0 or more.
        ranges: see ``with_metadata``.
        **extra: see ``with_metadata``.

    Returns:
        The policy as loaded from what was written.

    Raises:
        ModelError: the runtime and the trained policy disagree, or the model cannot run; nothing is written.
        ConfigError: an argument is none.

    Warns:
        UserWarning: keys that are out of the bounds of the action space: the agent clips them, and tasks
            whose keys are clipped to one bound have no order but that of arrival.
    """
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fsdecode(path):
        raise errors.ConfigError(f"path: want that of a file, got {shortly(path)}")
    s = _schema_of(env)
    tolerance = real(tolerance)
    if not isinstance(tolerance, float) or not 0 <= tolerance < math.inf:
        raise errors.ConfigError(f"tolerance: want a number from 0, got {shortly(tolerance)}")
    if not callable(reference):
        raise errors.ConfigError(f"reference: want a function from rows to scores, got {shortly(reference)}")
    rows = as_array("observations", observations)
    if rows.dtype.kind not in "fiu":
        raise errors.ShapeError(f"observations: want numbers, got {rows.dtype} of shape {rows.shape}")
    rows = np.ascontiguousarray(rows, np.float32)
    if rows.ndim != 2 or rows.shape[1] != s.width or len(rows) < MIN_OBSERVATIONS:
        raise errors.ModelError(
            f"observations: want at least {MIN_OBSERVATIONS} rows of {s.width}, got {rows.shape}"
        )
    stamped = with_metadata(model, s, ranges, **extra)
    policy = Policy(stamped, str(path))
    if policy.refusal:
        raise errors.ModelError(f"{path}: {policy.refusal}")
    got = policy.score(rows)
    if not np.isfinite(got).all():
        at = int(np.argmin(np.isfinite(got).all(axis=1)))
        raise errors.ModelError(f"{path}: not written: it gives {got[at]} for observation number {at}")
    wanted = as_array("reference", reference(rows))
    if wanted.dtype.kind not in "fiu":
        raise errors.ShapeError(f"reference: want numbers, got {wanted.dtype} of shape {wanted.shape}")
    wanted = wanted.astype(np.float32)
    if wanted.shape != got.shape:
        raise errors.ModelError(
            f"{path}: the policy gives {wanted.shape} for {rows.shape}, the exported model {got.shape}"
        )
    with np.errstate(invalid="ignore"):  # the reference may give what is no number
        off = np.abs(got - wanted)
        bad = ~(np.isfinite(wanted) & (off <= tolerance * (1 + np.abs(wanted))))
    if bad.any():
        i, j = np.unravel_index(int(np.argmax(np.where(bad, off, -1))), off.shape)
        raise errors.ModelError(
            f"{path}: not written: the exported model disagrees with the trained policy on "
            f"{int(bad.any(axis=1).sum())} of {len(rows)} observations, worst on number {i}: "
            f"output {j} is {got[i, j]!r}, the policy gives {wanted[i, j]!r}"
        )
    if s.action["kind"] == "key":
        clipped = np.mean((got < s.action["lo"]) | (got > s.action["hi"]))
        if clipped:
            warnings.warn(
                f"{path}: {clipped:.0%} of the keys are out of the bounds {s.action['lo']:g} to "
                f"{s.action['hi']:g} and are clipped there, which loses their order: scale them down",
                stacklevel=2,
            )
    write_whole(path, stamped)
    return policy


def stamp(
    path: str | os.PathLike[str],
    env: Any,
    *,
    reference: Callable[[Array], npt.ArrayLike] | None = None,
    observations: npt.ArrayLike | None = None,
    tolerance: float = 1e-4,
    ranges: Mapping[str, Any] | None = None,
    **extra: Any,
) -> Policy:
    """Give an ONNX file from anywhere the metadata of an environment, in place, if it can schedule there.

    As ``save``, it writes only what the Go runtime reproduces.

    Args:
        path: of the file.
        env: what its rows mean: an environment, "priority" or "placement".
        reference: the trained policy; by default the evaluator that comes with onnx runs the file itself.
        observations: at least 1,000 rows; by default those that it meets when it schedules.
        tolerance: see ``save``.
        ranges: see ``with_metadata``.
        **extra: see ``with_metadata``.

    Raises:
        ModelError: the runtime cannot run it, its shapes are not the environment's, or the runtime and the
            reference disagree; the file is unchanged.
    """
    model = Path(path).read_bytes()
    policy = Policy(with_metadata(model, env), str(path))
    if policy.refusal:
        raise errors.ModelError(f"{path}: {policy.refusal}")
    return save(
        path,
        model,
        env,
        _evaluator(model, str(path)) if reference is None else reference,
        rows_met(policy, env) if observations is None else observations,
        tolerance=tolerance,
        ranges=ranges,
        **extra,
    )


def _evaluator(model: bytes, name: str) -> Callable[[Array], Array]:
    """What the evaluator that comes with onnx makes of a model's first output."""
    from onnx.reference import ReferenceEvaluator

    try:
        evaluator = ReferenceEvaluator(onnx.load_model_from_string(model))
    except Exception as error:
        raise errors.ModelError(f"{name}: onnx cannot evaluate it, pass a reference: {error}") from error

    def run(rows: Array) -> Array:
        try:
            with np.errstate(all="ignore"):  # what is not finite is seen in the result
                outputs: Any = evaluator.run(None, {evaluator.input_names[0]: rows})
            return np.asarray(outputs[0], np.float32).reshape(len(rows), -1)
        except Exception as error:
            raise errors.ModelError(f"{name}: onnx cannot evaluate it, pass a reference: {error}") from error

    return run


def rows_met(
    policy: Policy,
    env: Any,
    n: int = 4 * MIN_OBSERVATIONS,
    *,
    kinds: list[str] | None = None,
    seed: int = 0,
    bursts: float = 800,
) -> Array:
    """Observations, ``n`` at least, that a policy meets when it schedules workloads of the training distribution.

    Args:
        policy: a model that can schedule.
        env: an environment, "priority" or "placement".
        n: how many at least.
        kinds: names of workloads; all if None.
        seed: of the instances.
        bursts: horizon of the episodes.
    """
    if not isinstance(policy, Policy):
        raise errors.ConfigError(f"policy: want a Policy, got {shortly(policy)}")
    n = max(natural("n", n), 1)
    workloads = [i["workload"] for i in sample_instances(2, kinds=kinds, seed=seed)]
    played = GhostVectorEnv(len(workloads), kind=_schema_of(env).kind, workload=workloads, horizon_bursts=bursts)
    rows, info = played.reset(seed=seed)
    seen = [rows]
    while sum(map(len, seen)) < n:
        rows, _, terminated, truncated, info = played.step(policy.act(rows, info["action_mask"]))
        seen.append(rows[~(terminated | truncated)])  # at an end there is no decision to observe
    played.close()
    return np.concatenate(seen)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file whole or not at all; behind a link, the file that it leads to. Pipes and devices get the bytes.

    Raises:
        OSError: it cannot be written; it names ``path``.
    """
    target = Path(os.path.realpath(path))
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        if target.exists() and not target.is_file():  # to put a file in its place would destroy it
            target.write_bytes(data)
            return
        try:
            with aside.open("xb") as file:
                if target.exists():
                    os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
                file.write(data)
            os.replace(aside, target)
        finally:
            aside.unlink(missing_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: it cannot be written", str(path)) from None


def prepare_folder(path: str | os.PathLike[str]) -> None:
    """Make a folder if it is not there, and raise OSError if no file can be written in it: before the work."""
    Path(path).mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}: no file can be written in it", str(path)) from None
