"""The programs that the build leaves."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def built(name):
    """The path of a program; `make test` builds it first."""
    path = ROOT / "bin" / name
    assert path.exists(), f"{path} is not built: make build"
    return path
