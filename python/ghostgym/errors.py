"""The exceptions of ghostgym: one family, each also what plain Python code would expect."""

from __future__ import annotations


class GhostgymError(RuntimeError):
    """Base of every error of this package; by itself, a defect of ours or of the machine."""


class ClosedError(GhostgymError):
    """An environment or a policy was used after close()."""


class ForkedError(GhostgymError):
    """An object made before os.fork() was used in the child: make a new one there."""


class ConfigError(GhostgymError, ValueError):
    """Something was asked for that does not exist or does not fit; the message names it."""


class ShapeError(GhostgymError, ValueError):
    """An array has the wrong shape or type."""


class ActionError(GhostgymError, ValueError):
    """An illegal action, where ``invalid_action="raise"``; nothing has been stepped."""


class ModelError(GhostgymError, ValueError):
    """A model cannot be read, run, or does not do what it is said to do."""


class OverError(GhostgymError):
    """A step after the end of an episode, or before the first reset."""


class BusyError(GhostgymError):
    """Another thread is using the object."""
