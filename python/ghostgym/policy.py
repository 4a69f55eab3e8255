"""A model in the Go runtime, to be asked from Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _native, errors
from .spec import as_array, schema, shortly


class Policy:
    """An ONNX model run by the engine that the agent uses: same file, same rows, same bits.

    One thread at a time: others get BusyError, and load one of their own.
    """

    def __init__(self, model: bytes | bytearray | memoryview, name: str = "") -> None:
        if not isinstance(model, (bytes, bytearray, memoryview)):
            raise errors.ConfigError(
                f"model: want the bytes of an ONNX file, got {type(model).__name__}; load_policy takes a path"
            )
        model = bytes(model)
        try:
            self._model = _native.Model(model)
        except errors.GhostgymError as error:
            raise type(error)(f"{name}: {error}" if name else str(error)) from None
        self._bytes = model
        self.name = name
        info = self._model.info
        self.width = int(info["width"])
        self.out_width = int(info["out_width"])
        self.metadata: dict[str, str] = info["metadata"]
        self.kind: str | None = info["schema"] or None  # "priority", "placement", or None
        self.refusal: str = info["refusal"]  # why it cannot schedule, "" if it can

    def __bytes__(self) -> bytes:
        return self._bytes

    def __reduce__(self) -> Any:
        return type(self), (self._bytes, self.name)

    def score(self, obs: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """What the model gives for one row (a vector) or a batch (a matrix) of observations."""
        given = as_array("obs", obs)
        if given.dtype.kind not in "fiub":
            raise errors.ShapeError(f"obs: want numbers, got {given.dtype} of shape {given.shape}")
        with np.errstate(over="ignore"):  # infinite as a float32
            rows = np.ascontiguousarray(given, dtype=np.float32).reshape(given.shape)
        batch = np.atleast_2d(rows)
        if batch.ndim != 2 or batch.shape[1] != self.width:
            raise errors.ShapeError(f"obs: want ({self.width},) or (n, {self.width}), got {rows.shape}")
        out = np.empty((len(batch), self.out_width), np.float32)
        if len(batch):
            self._model.score(batch, out)
        return out[0] if rows.ndim == 1 else out

    def act(self, obs: npt.ArrayLike, mask: npt.ArrayLike | None = None) -> npt.NDArray[Any]:
        """The action for each row: a key, shape (1,); or the index of the greatest legal logit.

        A model that gives the index itself has it where it is legal. Where the agent would ask its fallback,
        which is not here, since a legal logit or a key is not finite, the action is the back, or NaN for a key,
        which means behind all. Keys are as the model gives them: the environment, as the agent, clips
        them to the bounds of the action space.

        Args:
            obs: one row or a batch.
            mask: legal actions, one row or a batch; ignored where the model gives keys.
        """
        scores = self.score(obs)
        if self.kind == "priority" or (self.kind is None and self.out_width == 1):
            return np.where(np.isfinite(scores), scores, np.float32(np.nan))
        if self.kind == "placement" and self.out_width == 1:
            scores = self._logits(scores)
        masked = scores.astype(np.float64)
        broken = ~np.isfinite(masked)
        if mask is not None:
            legal = as_array("mask", mask).astype(bool)
            if legal.shape != scores.shape:
                raise errors.ShapeError(f"mask: want {scores.shape}, got {legal.shape}")
            masked[~legal], broken = -np.inf, broken & legal
        none = broken.any(axis=-1) | np.isinf(masked).all(axis=-1)
        best = np.where(none, scores.shape[-1] - 1, masked.argmax(axis=-1))
        actions: npt.NDArray[Any] = best[()]  # of one row: a number
        return actions

    @staticmethod
    def _logits(indices: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """An index as the greatest logit, and the back as the next."""
        places = np.arange(int(schema("placement").action["n"]))
        chosen = (places == np.trunc(indices)) & (indices >= 0)
        logits: npt.NDArray[np.float32] = np.where(chosen, np.float32(2), np.float32(0))
        logits[..., -1] = np.maximum(logits[..., -1], 1)
        logits[~np.isfinite(indices[..., 0])] = np.nan
        return logits

    def close(self) -> None:
        """Free the library's side."""
        self._model.close()


def load_policy(path: str | os.PathLike[str]) -> Policy:
    """Load an ONNX file into the Go runtime; it need not have a schema of ours.

    Raises:
        ModelError: the file is no model, or has something that the runtime does not know: every such node
            is named.
        OSError: the file cannot be read.
        ConfigError: what is given is no path.
    """
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path) or "\0" in os.fsdecode(path):
        raise errors.ConfigError(f"path: want that of an ONNX file, got {shortly(path)}")
    return Policy(Path(path).read_bytes(), str(path))
