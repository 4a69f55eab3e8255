"""The library over forks and interrupts: private copies, guards, deadlines that only end a hang."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable

import ghostgym
import numpy as np
import pytest
from ghostgym import _native, errors

DEADLINE = 60  # seconds, after which a child counts as hung
ROUNDS = 300  # allocations on each of four goroutines, and a collection


def work(rounds: int = ROUNDS) -> int:
    """Make the runtime collect, which hangs in one that came through a fork."""
    seen = _native.call("selftest.work", rounds)
    assert isinstance(seen, int)
    return seen


def bytes_of(rounds: int) -> int:
    return 4 * sum((1 << 12) + i for i in range(rounds))


def in_child(body: Callable[[], None]) -> int:
    """Run body in a forked child: 0, 42 for a ForkedError, 1 for another error, below 0 a signal."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(DEADLINE)  # its default action ends a child that hangs: exit code -SIGALRM
        code = 1
        try:
            body()
            code = 0
        except errors.ForkedError:
            code = 42
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def step_once(vector: _native.Vector) -> None:
    vector.reset({})
    vector.arrays["action"][:] = [1, 2]
    vector.step()
    assert vector.arrays["observation"].tolist() == [1, 2]


@pytest.fixture
def vector() -> _native.Vector:
    made = _native.Vector({"selftest": 2})
    step_once(made)
    return made


@pytest.mark.parametrize("use", ["reset", "step", "info"])
def test_parents_object_is_refused_in_the_child(vector: _native.Vector, use: str) -> None:
    body = (lambda: vector.reset({})) if use == "reset" else getattr(vector, use)
    assert in_child(body) == 42
    step_once(vector)  # and is as it was in the parent


def test_library_itself_refuses_in_the_child(vector: _native.Vector) -> None:
    inherited = _native.library()

    def body() -> None:
        buffer = _native._buffer()
        code = inherited.gg_step(vector.number, buffer.pointer)
        with pytest.raises(errors.ForkedError, match="before the fork"):
            _native._finish(code, buffer)

    assert in_child(body) == 0


def test_closing_in_the_child_leaves_the_parents_object(vector: _native.Vector) -> None:
    assert in_child(vector.close) == 0
    step_once(vector)


def test_children_load_their_own_and_collect() -> None:
    want = bytes_of(ROUNDS)
    assert work() == want

    def body() -> None:
        assert work() == want
        step_once(_native.Vector({"selftest": 2}))

    assert [in_child(body) for _ in range(8)] == [0] * 8
    assert work() == want


@pytest.mark.parametrize("loads", [True, False])
def test_nested_forks(loads: bool) -> None:
    """Every generation has its own library, also where one between has loaded none."""
    work(1)

    def generation(below: int) -> None:
        if loads or below == 0:
            assert work(50) == bytes_of(50)
        if below:
            assert in_child(lambda: generation(below - 1)) == 0
            assert work(50) == bytes_of(50)

    assert in_child(lambda: generation(3)) == 0


def test_fork_holds_the_loaders_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """No child inherits a library that another thread was loading, or a lock that it held."""
    did = []

    class Lock:
        def acquire(self) -> None:
            did.append("acquire")

        def release(self) -> None:
            did.append("release")

    def body() -> None:
        assert did == ["acquire"]
        assert work(10) == bytes_of(10)

    work(1)
    monkeypatch.setattr(_native, "_lock", Lock())
    assert in_child(body) == 0
    assert did == ["acquire", "release"]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools(method: str) -> None:
    work(1)
    with multiprocessing.get_context(method).Pool(2) as pool:
        answers = pool.map_async(work, [100] * 6).get(timeout=DEADLINE)
    assert answers == [bytes_of(100)] * 6


def wait_to_be_interrupted() -> None:
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    _native.call_interruptible("selftest.wait")


def test_interrupt_cancels_a_long_call() -> None:
    """Ctrl-C reaches Python while Go works, and Go stops working; the library is usable after."""
    with pytest.raises(KeyboardInterrupt):
        wait_to_be_interrupted()
    assert work(10) == bytes_of(10)


def test_cancel_is_said_until_it_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupt between the start of the thread and the call in Go is not lost."""
    heard = threading.Event()
    said = []

    class Late:
        """A library that hears the second cancel only: at the first its call had not begun."""

        def gg_call(self, *_: object) -> int:
            return 0 if heard.wait(DEADLINE) else -1

        def gg_cancel(self, *_: object) -> int:
            said.append("cancel")
            if len(said) == 2:
                heard.set()
            return 0

    monkeypatch.setattr(_native, "_library", Late())
    with pytest.raises(KeyboardInterrupt):
        wait_to_be_interrupted()
    assert heard.is_set()


def test_a_panic_is_an_error_and_no_more() -> None:
    with pytest.raises(errors.GhostgymError, match="on request"):
        _native.call("selftest.panic")
    assert work(10) == bytes_of(10)


def test_replies_larger_than_the_buffer_come_whole() -> None:
    big = bytes(np.arange(3 * _native._REPLY_BYTES, dtype=np.uint8))
    assert _native.call("selftest.echo", big) == big


def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ghostgym, "__version__", "9.9.9")
    with pytest.raises(ImportError, match=r"9\.9\.9"):
        _native._open(str(_native._PATH))


def hashes_of(workload: str) -> list[str]:
    """Whole episodes, in a process that has its own library."""
    env = ghostgym.GhostVectorEnv(1, horizon_bursts=200)
    instances = [{"workload": workload, "seed": s, "episode": 0} for s in range(20)]
    played = env.rollout(["rr", "gittins+wp"], instances, workers=2)
    return [h for row in played.trace_hash for h in row]


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_runs_are_the_same_in_children(method: str) -> None:
    loads = ["rocksdb:load=0.9", "sched_bench:threads=30"]
    here = [hashes_of(w) for w in loads]
    with multiprocessing.get_context(method).Pool(2) as pool:
        there = pool.map_async(hashes_of, loads).get(timeout=DEADLINE)
    assert there == here
    assert len(set(here[0])) == 40


def test_interrupt_ends_a_reset_in_which_nothing_is_asked() -> None:
    """A machine that is never full asks nothing for as long as its horizon; Ctrl-C is heard all the same."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    env = ghostgym.PriorityEnv("bimodal:load=0.05:cpus=16", horizon_bursts=1e9)  # an hour
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            env.reset(seed=1)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(errors.OverError, match="half-way"):
        env.step(env.action_space.sample())
    env.reset(options={"instances": [{"workload": "frame", "seed": 1}]})
    env.step(env.action_space.sample())


def test_calls_from_signal_handlers_and_finalizers_keep_replies_apart() -> None:
    """Between a call and the reading of its reply, other code of the same thread may call the library."""
    finish, met = _native._finish, []

    def interrupted(code: int, buffer: _native._Buffer) -> bytes:
        if not met:
            met.append("mine")
            met.append(_native.call("selftest.echo", "other"))
        return finish(code, buffer)

    with pytest.MonkeyPatch.context() as m:
        m.setattr(_native, "_finish", interrupted)
        assert _native.call("selftest.echo", "mine") == "mine"
    assert met == ["mine", "other"]
