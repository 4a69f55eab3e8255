"""Hatchling's build hook: compile the Go library into the wheel, also for editable installs."""

from __future__ import annotations

import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import toolchain


class GoLibrary(BuildHookInterface):
    """Compile libghostgym.so with the toolchain that toolchain.py finds."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Ask the isolated build for the compilers that this machine lacks."""
        try:
            return toolchain.Toolchain().requirements()
        except toolchain.BuildError as problem:
            self.app.abort(f"ghostgym: {problem}")
        return []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile; ctypes needs no CPython ABI, so one wheel serves every Python of the platform."""
        try:
            found = toolchain.Toolchain()
            library = found.build_library()
        except toolchain.BuildError as problem:
            self.app.abort(f"ghostgym: {problem}")
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{found.platform_tag()}"
        if version != "editable":
            # git ignores the library, so the wheel would leave it out
            build_data["artifacts"].append(f"/python/ghostgym/{library.name}")

    def clean(self, versions: list[str]) -> None:
        """Remove the compiled library."""
        toolchain.LIBRARY.unlink(missing_ok=True)
