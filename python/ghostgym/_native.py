"""The only module that knows ctypes: the Go library, loaded when it is first needed.

A forked child must not enter the Go runtime that it inherited, since the runtime's threads are gone. So
before a fork the parent makes one copy of the library's file in memory that it never loads itself; a child
that needs the library loads that copy, a library of its own to the dynamic linker. The linker also takes a
path *string* that it has seen before for the same library, so each generation spells the path differently.
Objects of the parent raise ForkedError in the child.

Calls release the GIL. Python hears Ctrl-C only between calls. So a step that takes long comes in parts, and
any other call that may take long runs on a thread of its own while this one waits, and is cancelled when the
wait is interrupted.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from reprlib import repr as _shortly
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from . import errors

# GHOSTGYM_LIBRARY names another build of the library. Absolute: the linker looks elsewhere for a bare name.
_PATH = Path(os.environ.get("GHOSTGYM_LIBRARY") or Path(__file__).with_name("libghostgym.so")).absolute()
_REPLY_BYTES = 1 << 16
_PROGRESS_SECONDS = 0.5
_CANCEL_SECONDS = 0.05

_CLASSES: dict[int, type[errors.GhostgymError]] = {
    -2: errors.ClosedError,
    -3: errors.ConfigError,
    -4: errors.ShapeError,
    -5: errors.ActionError,
    -6: errors.ModelError,
    -7: errors.OverError,
    -8: errors.BusyError,
    -100: errors.ForkedError,
}
_CANCELLED = -9
_UNDER_WAY = 1


class _Reply(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("cap", ctypes.c_size_t),
        ("len", ctypes.c_size_t),
        ("ticket", ctypes.c_uint64),
    )


_SIGNATURES: dict[str, list[Any]] = {
    "gg_version": [],
    "gg_fetch": [ctypes.c_uint64],
    "gg_call": [
        ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64,
    ],
    "gg_cancel": [ctypes.c_uint64],
    "gg_open": [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int64)],
    "gg_bind": [
        ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t),
        ctypes.c_size_t,
    ],
    "gg_reset": [ctypes.c_int64, ctypes.c_char_p, ctypes.c_size_t],
    "gg_step": [ctypes.c_int64],
    "gg_resume": [ctypes.c_int64],
    "gg_info": [ctypes.c_int64],
    "gg_close": [ctypes.c_int64],
    "gg_model_open": [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int64)],
    "gg_model_score": [
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t,
        ctypes.c_size_t,
    ],
}  # fmt: skip

_lock = threading.RLock()
_library: ctypes.CDLL | None = None
_generation = 0  # grows in each forked child: what was made before the fork belongs to another
_file = -1  # of the library, kept open: a copy has these bytes even if an upgrade replaced the path
_spare = -1  # a copy that this process has not loaded: its children map it and share its pages
_local = threading.local()
_tokens = itertools.count(1)


def library() -> ctypes.CDLL:
    """This process's library, loaded at the first call (in a forked child: a private copy)."""
    global _library, _file, _spare
    if _library is not None:
        return _library
    with _lock:
        if _library is not None:  # another thread was faster
            return _library  # type: ignore[unreachable]
        if _generation == 0:
            try:
                _file = os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC)
                loaded = _open(str(_PATH))
            except OSError as error:
                if _file >= 0:
                    os.close(_file)
                    _file = -1
                raise ImportError(
                    f"{_PATH}: {error.strerror or error}: the Go library cannot be loaded; 'pip install .' or "
                    "'make build' in the source tree compiles it"
                ) from error
        else:
            fd = _spare if _spare >= 0 else _copy()
            loaded = _open(f"/proc/self/{'./' * _generation}fd/{fd}")
            os.close(fd)
            _spare = -1
        _library = loaded
        return loaded


def _open(path: str) -> ctypes.CDLL:
    lib = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    for name, arguments in _SIGNATURES.items():
        function = getattr(lib, name, None)
        if function is None:
            raise ImportError(f"{path}: no function {name}: the library is of another version")
        function.restype = ctypes.c_int32
        function.argtypes = [*arguments, ctypes.POINTER(_Reply)]
    from . import __version__

    buffer = ctypes.create_string_buffer(1024)
    reply = _Reply(ctypes.addressof(buffer), len(buffer), 0, 0)
    lib.gg_version(ctypes.byref(reply))
    said = buffer.raw[: reply.len].decode()
    if said.split("+")[0] != __version__:
        raise ImportError(
            f"{path} is version {said!r}, the Python beside it {__version__!r}: install both "
            "together, by 'pip install .' or 'make build'"
        )
    return lib


def _copy() -> int:
    fd = os.memfd_create("libghostgym", os.MFD_CLOEXEC)
    try:
        size, done = os.fstat(_file).st_size, 0
        while done < size:
            sent = os.sendfile(fd, _file, done, size - done)
            if not sent:
                raise OSError(errno.EIO, "the library's file has shrunk", str(_PATH))
            done += sent
    except BaseException:
        os.close(fd)
        raise
    return fd


def _before_fork() -> None:
    global _spare
    _lock.acquire()  # while another thread loads, a child would inherit half a library
    if _library is not None and _spare < 0:
        _spare = _copy()


def _after_fork_in_parent() -> None:
    _lock.release()


def _after_fork_in_child() -> None:
    global _library, _generation, _lock, _local
    _lock = threading.RLock()
    _local = threading.local()
    if _library is not None:
        _library = None
        _generation += 1


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)


class _Buffer:
    """Where the library puts a reply."""

    def __init__(self) -> None:
        self.bytes = ctypes.create_string_buffer(_REPLY_BYTES)
        self.reply = _Reply(ctypes.addressof(self.bytes), _REPLY_BYTES, 0, 0)
        self.pointer = ctypes.pointer(self.reply)


def _buffer() -> _Buffer:
    """A buffer that nobody uses, until it is given back.

    One a thread would not do: between a call and the reading of its reply, a finalizer or a signal handler
    may call the library in the same thread.
    """
    try:
        found: _Buffer = _local.free.pop()
    except (AttributeError, IndexError):
        found = _Buffer()
    return found


def _give_back(buffer: _Buffer) -> None:
    try:
        _local.free.append(buffer)
    except AttributeError:
        _local.free = [buffer]


def _finish(code: int, buffer: _Buffer) -> bytes:
    """The reply as bytes, or the exception that the code stands for; the buffer is given back."""
    reply = buffer.reply
    if reply.ticket:
        big = ctypes.create_string_buffer(reply.len)
        fetched = _Reply(ctypes.addressof(big), reply.len, 0, 0)
        fetch_code = library().gg_fetch(reply.ticket, ctypes.byref(fetched))
        body = big.raw[: fetched.len]
        code = code or fetch_code
    else:
        body = ctypes.string_at(reply.data, reply.len)
    _give_back(buffer)
    if code == 0:
        return body
    text = body.decode("utf-8", "replace")
    if code == _CANCELLED:
        raise KeyboardInterrupt(text)
    raise _CLASSES.get(code, errors.GhostgymError)(text)


def pack(value: Any) -> bytes:
    """Encode a request; NumPy's scalars and arrays count as Python's numbers and lists."""
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True, default=_plain)
    except (TypeError, OverflowError, ValueError) as error:
        raise errors.ConfigError(f"request: {error}") from error
    return packed


def _plain(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, int):
        raise TypeError(f"{_shortly(value)} is out of range: want whole numbers from -2**63 to 2**64 - 1")
    raise TypeError(
        f"{_shortly(value)} is a {type(value).__name__}: want numbers, strings, bytes and lists of them"
    )


def unpack(body: bytes) -> Any:
    """Decode a reply."""
    return msgpack.unpackb(body, raw=False, strict_map_key=False, timestamp=3) if body else None


def call(method: str, request: Any = None) -> Any:
    """Ask the library something that is answered at once."""
    name, body, buffer = method.encode(), pack(request if request is not None else {}), _buffer()
    code = library().gg_call(name, len(name), body, len(body), 0, buffer.pointer)
    return unpack(_finish(code, buffer))


def call_interruptible(
    method: str, request: Any = None, progress: Callable[[int, int], None] | None = None
) -> Any:
    """Ask the library something that may take long; Ctrl-C cancels it.

    ``progress`` is called now and then with what is done and the total, where the call knows them.
    """
    name, body, token, lib = method.encode(), pack(request or {}), next(_tokens), library()
    outcome: list[Any] = []
    # Not the thread's join and is_alive: before CPython 3.13, a join that is interrupted takes a thread that
    # runs for one that has ended.
    ended = threading.Event()

    def work() -> None:
        try:
            buffer = _buffer()
            code = lib.gg_call(name, len(name), body, len(body), token, buffer.pointer)
            outcome.append(_finish(code, buffer))
        except BaseException as error:
            outcome.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name=f"ghostgym {method}", daemon=True)
    try:
        thread.start()
        while not ended.wait(None if progress is None else _PROGRESS_SECONDS):
            done, total = call("progress", {"token": token})
            if total and progress is not None:
                progress(done, total)
    except BaseException:
        buffer = _buffer()
        while thread.ident is not None:  # again and again: the call may only have been about to begin
            lib.gg_cancel(token, buffer.pointer)
            if ended.wait(_CANCEL_SECONDS):
                break
        _give_back(buffer)
        raise
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return unpack(outcome[0])


class Handle:
    """An object inside the library. It belongs to the process, and the generation, that made it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.generation = _generation
        self.closed = False

    def check(self) -> None:
        """Raise if the object cannot be used here."""
        if self.closed:
            raise errors.ClosedError("it is closed")
        if self.generation != _generation:
            raise errors.ForkedError("this belongs to the process before the fork: make a new one in the child")

    def close(self) -> None:
        """Free the object; in a forked child it is the parent's to free."""
        if not self.closed and self.generation == _generation and _library is not None:
            buffer = _buffer()
            _library.gg_close(self.number, buffer.pointer)
            _give_back(buffer)
        self.closed = True

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the interpreter may be half gone
            self.close()

    def __reduce__(self) -> Any:
        raise TypeError("an object of the Go library cannot be pickled: pickle how to make it")


class Vector(Handle):
    """Environments that step together over arrays owned here."""

    def __init__(self, config: dict[str, Any]) -> None:
        body, number, buffer = pack(config), ctypes.c_int64(), _buffer()
        lib = library()
        code = lib.gg_open(body, len(body), ctypes.byref(number), buffer.pointer)
        layout = unpack(_finish(code, buffer))
        super().__init__(number.value)
        self.arrays: dict[str, npt.NDArray[Any]] = {
            f["name"]: np.zeros(f["shape"], dtype=f["dtype"]) for f in layout
        }
        arrays = list(self.arrays.values())
        pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
        sizes = (ctypes.c_size_t * len(arrays))(*(a.nbytes for a in arrays))
        buffer = _buffer()
        _finish(lib.gg_bind(self.number, pointers, sizes, len(arrays), buffer.pointer), buffer)
        self._step: Callable[..., int] = lib.gg_step

    def reset(self, request: dict[str, Any]) -> None:
        """Start episodes."""
        self.check()
        body, buffer = pack(request), _buffer()
        self._end(library().gg_reset(self.number, body, len(body), buffer.pointer), buffer)

    def step(self) -> None:
        """Answer one decision in each environment, with what the array "action" holds."""
        if self.closed or self.generation != _generation:
            self.check()
        buffer = _buffer()
        code = self._step(self.number, buffer.pointer)
        if code:
            self._end(code, buffer)
        else:
            _give_back(buffer)

    def _end(self, code: int, buffer: _Buffer) -> None:
        """Wait, in parts, until a step or a reset has ended."""
        while code == _UNDER_WAY:
            code = library().gg_resume(self.number, buffer.pointer)
        _finish(code, buffer)

    def render(self, index: int) -> str:
        """An environment as text: its open decision, CPUs and run queues."""
        self.check()
        text: str = call("render", {"handle": self.number, "index": index})
        return text

    def info(self) -> Any:
        """What the last step has to tell of episodes that ended."""
        self.check()
        buffer = _buffer()
        return unpack(_finish(library().gg_info(self.number, buffer.pointer), buffer))


class Model(Handle):
    """A model in the Go runtime."""

    def __init__(self, model: bytes) -> None:
        number, buffer = ctypes.c_int64(), _buffer()
        code = library().gg_model_open(model, len(model), ctypes.byref(number), buffer.pointer)
        self.info: dict[str, Any] = unpack(_finish(code, buffer))
        super().__init__(number.value)

    def score(self, rows: npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
        """Score len(rows) rows; both arrays are C-contiguous float32."""
        self.check()
        buffer = _buffer()
        code = library().gg_model_score(
            self.number, rows.ctypes.data, rows.size, out.ctypes.data, out.size, len(rows),
            buffer.pointer,
        )  # fmt: skip
        if code:
            _finish(code, buffer)
        else:
            _give_back(buffer)


def floats(body: bytes, shape: Sequence[int]) -> npt.NDArray[np.float64]:
    """A tensor of a reply."""
    tensor: npt.NDArray[np.float64] = np.frombuffer(body, dtype="<f8").reshape(shape).copy()
    return tensor
