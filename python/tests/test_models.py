"""Rollouts, export, and models in the Go runtime: the same bits everywhere."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import ghostgym
import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
from ghostgym import _native, export
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parents[2]


def net_model(kind="priority", seed=1, hidden=16):
    s = ghostgym.schema(kind)
    net = export.ScoreNet(s.width, hidden, 1 if kind == "priority" else 9)
    theta = net.initial(np.random.default_rng(seed))
    return net, theta, export.with_metadata(net.to_onnx(theta), kind)


@pytest.mark.parametrize(("kind", "wp"), [("priority", False), ("priority", True), ("placement", False)])
def test_a_rollout_is_stepping(kind, wp):
    """Returns and traces are equal, to the bit, whoever asks the policy."""
    _, _, model = net_model(kind)
    policy = ghostgym.Policy(model)
    options = {"horizon_bursts": 150, **({"wakeup_preemption": True} if wp else {})}
    instances = ghostgym.sample_instances(1, seed=3, held_out=True)
    env = ghostgym.GhostVectorEnv(1, kind=kind, autoreset="Disabled", **options)
    played = env.rollout([model, policy], instances, workers=2)
    alone = env.rollout([model], instances, workers=1)
    assert np.array_equal(played.returns[0], played.returns[1])
    assert np.array_equal(played.returns[0], alone.returns[0])
    for i, instance in enumerate(instances):
        obs, info = env.reset(options={"instances": [instance]})
        total, over = 0.0, False
        while not over:
            action = policy.act(obs, info["action_mask"])
            obs, reward, terminated, truncated, info = env.step(action)
            total += reward[0]
            over = terminated[0] or truncated[0]
        assert total == played.returns[0, i], instance
        assert info["trace_hash"][0] == played.trace_hash[0][i]


@pytest.mark.parametrize("steps", [1, 2, 17, 40])
def test_a_rollout_ends_where_stepping_does(steps):
    """Also within a batch: twelve threads begin at the same instant."""
    _, _, model = net_model()
    policy = ghostgym.Policy(model)
    options = {"max_episode_steps": steps, "wakeup_preemption": True, "events": "all", "horizon_bursts": 100}
    instance = {"workload": "sched_bench:threads=12:cpus=4", "seed": 3, "episode": 1}
    env = ghostgym.GhostVectorEnv(1, autoreset="Disabled", **options)
    played = env.rollout([policy], [instance])
    obs, _ = env.reset(options={"instances": [instance]})
    total = 0.0
    for step in range(steps):
        obs, reward, terminated, truncated, info = env.step(policy.act(obs))
        total += reward[0]
        assert (terminated[0], truncated[0]) == (False, step == steps - 1)
    assert total == played.returns[0, 0]
    assert info["trace_hash"][0] == played.trace_hash[0][0]


@pytest.mark.parametrize("workload", ["bimodal:load=0.5:cpus=6", "rocksdb:load=0.5:cpus=6"])
def test_returns_order_schedulers(workload):
    """Taking turns is worse than the Gittins index, and knowing the future is best.

    That guessing is worse than taking turns takes more seeds to tell: the Go tests do.
    """
    env = ghostgym.GhostVectorEnv(1, profile="ideal", slice_us=10, horizon_bursts=500)
    instances = [{"workload": workload, "seed": s, "episode": 0} for s in range(40)]
    random, rr, gittins, oracle = env.rollout(["random", "rr", "gittins", "oracle"], instances).returns.mean(
        axis=1
    )
    assert max(random, rr) < gittins < oracle


def test_schedulers_by_name():
    env = ghostgym.GhostVectorEnv(1, horizon_bursts=300)
    instances = [{"workload": "rocksdb:load=0.9", "seed": s, "episode": 0} for s in range(3)]
    r = env.rollout(["rr", "gittins", "oracle"], instances)
    assert r.returns.shape == (3, 3)
    slow = r.figures["slowdown_mean"].mean(axis=1)
    assert slow[0] > slow[1]
    assert r.figures["wait_mean_us"][2].mean() < r.figures["wait_mean_us"][0].mean()
    for bad in (["no-such"], ["learned"], [3], []):
        with pytest.raises(ghostgym.ConfigError):
            env.rollout(bad, instances)
    with pytest.raises(ghostgym.ConfigError, match="priority"):
        ghostgym.GhostVectorEnv(1, kind="placement").rollout([net_model()[2]], instances)


@pytest.mark.parametrize("hidden", [0, 16])
def test_net_runtime_and_reference_agree(hidden):
    net, theta, model = net_model(hidden=hidden)
    rows = np.random.default_rng(2).normal(size=(500, net.inputs)).astype(np.float32)
    ours = ghostgym.Policy(model).score(rows)
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, {"row": rows})[0]
    assert np.abs(ours - theirs).max() < 1e-5
    assert np.abs(ours - net.score(theta, rows)).max() < 1e-5


def test_rows_do_not_depend_on_their_batch():
    policy = ghostgym.Policy(net_model()[2])
    rows = np.random.default_rng(2).normal(size=(257, policy.width)).astype(np.float32)
    whole = policy.score(rows)
    for n in (1, 2, 7, 64):
        parts = np.concatenate([policy.score(rows[i : i + n]) for i in range(0, len(rows), n)])
        assert np.array_equal(parts.view(np.uint32), whole.view(np.uint32))
    assert np.array_equal(policy.score(rows[3]), whole[3])


def test_the_program_scores_the_same_bits(tmp_path):
    program = ROOT / "bin" / "ghostlab"
    if not program.exists():
        pytest.skip("bin/ghostlab is not built: make build")
    _, _, model = net_model("placement")
    (tmp_path / "m.onnx").write_bytes(model)
    rows = np.random.default_rng(5).normal(size=(50, ghostgym.schema("placement").width)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    command = [program, "infer", tmp_path / "m.onnx", "--rows", tmp_path / "rows.npy", "--json", "-"]
    said = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    bits = np.array([[int(b, 16) for b in row] for row in said["bits"]], np.uint32)
    assert np.array_equal(bits, ghostgym.Policy(model).score(rows).view(np.uint32))


@pytest.mark.parametrize(("kind", "wp"), [("priority", False), ("priority", True), ("placement", False)])
def test_one_file_is_one_policy_everywhere(tmp_path, kind, wp):
    """ghostd, ghostlab, a rollout and the package: the same rows, the same bits, the same run."""
    programs = ROOT / "bin" / "ghostd", ROOT / "bin" / "ghostlab"
    if not all(p.exists() for p in programs):
        pytest.skip("bin/ghostd and bin/ghostlab are not built: make build")
    _, _, model = net_model(kind, seed=4)
    file, trace = tmp_path / "m.onnx", tmp_path / "run.trace"
    file.write_bytes(model)

    def program(*command):
        done = subprocess.run([*command, "--json", "-"], capture_output=True, timeout=60, check=False, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    load, scheduler = "heavytail:load=0.9", "learned+wp" if wp else "learned"
    flags = ["--workload", load, "--bursts", "300", "--seed", "5", "--scheduler", scheduler]
    ran = program(programs[0], "run", *flags, "--model", file, "--record", trace)
    told = program(programs[1], "infer", file, "--rows", trace)
    policy = ghostgym.load_policy(file)
    options = {"horizon_bursts": 300, **({"wakeup_preemption": True} if wp else {})}
    env = gym.make(f"ghostgym/{kind.title()}-v0", workload=load, **options)
    obs, info = env.reset(seed=5)
    rows, over = [], False
    while not over:
        rows.append(obs)
        obs, _, terminated, truncated, info = env.step(policy.act(obs, info["action_mask"]))
        over = terminated or truncated
    bits = np.array([[int(b, 16) for b in row] for row in told["bits"]], np.uint32)
    assert np.array_equal(policy.score(np.array(rows)).view(np.uint32), bits)
    vector = ghostgym.GhostVectorEnv(1, kind=kind, **options)
    rolled = vector.rollout([policy], [{"workload": load, "seed": 5, "episode": 0}])
    assert info["trace_hash"] == ran["result"]["trace_hash"] == rolled.trace_hash[0][0]
    assert info["return"] == ran["result"]["return"] == rolled.returns[0, 0]


def test_export_refuses_what_disagrees(tmp_path):
    net, theta, _ = net_model()
    rows = np.random.default_rng(2).uniform(-1, 1, (1000, net.inputs)).astype(np.float32)
    path = tmp_path / "m.onnx"
    raw = net.to_onnx(theta)
    with pytest.raises(ghostgym.ModelError, match="disagrees"):
        export.save(path, raw, "priority", lambda r: net.score(theta, r) + 0.01, rows)
    with pytest.raises(ghostgym.ModelError, match="1000 rows"):
        export.save(path, raw, "priority", lambda r: net.score(theta, r), rows[:999])
    with pytest.raises(ghostgym.ModelError, match="rows of"):
        export.save(path, raw, "placement", lambda r: net.score(theta, r), rows)
    assert list(tmp_path.iterdir()) == []
    policy = export.save(
        path, raw, "priority", lambda r: net.score(theta, r), rows, ranges={"cpus": [4, 8]}, recipe="test"
    )
    assert policy.kind == "priority"
    meta = ghostgym.load_policy(path).metadata
    assert meta["ghostgym.schema_hash"] == ghostgym.schema("priority").hash
    assert meta["ghostgym.recipe"] == "test"
    with pytest.raises(OSError, match="nowhere"):
        export.save(tmp_path / "nowhere" / "m.onnx", raw, "priority", lambda r: net.score(theta, r), rows)


def test_stamp(tmp_path):
    net, theta, _ = net_model()
    path = tmp_path / "foreign.onnx"
    path.write_bytes(net.to_onnx(theta))
    foreign = ghostgym.load_policy(path)
    assert foreign.kind is None
    assert foreign.score(np.zeros(net.inputs)).shape == (1,)
    assert foreign.act(np.zeros((4, net.inputs))).shape == (4, 1)
    env = gym.make("ghostgym/Priority-v0")
    assert export.stamp(path, env).kind == "priority"
    stamped = path.read_bytes()
    with pytest.raises(ghostgym.ModelError, match="rows of"):
        export.stamp(path, "placement")
    with pytest.raises(ghostgym.ModelError, match="disagrees"):
        export.stamp(path, env, reference=lambda rows: net.score(theta, rows) * 1.5)
    with pytest.raises(ghostgym.ModelError, match="1000 rows"):
        export.stamp(path, env, observations=np.zeros((10, net.inputs)))
    assert path.read_bytes() == stamped


def test_stamp_refuses_what_is_not_finite(tmp_path):
    width = ghostgym.schema("placement").width
    nodes = [
        helper.make_node("MatMul", ["row", "w"], ["z"], "dense"),
        helper.make_node("Div", ["z", "nothing"], ["out"], "by zero"),
    ]
    weights = np.random.default_rng(1).normal(size=(width, 9)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("row", TensorProto.FLOAT, ["n", width])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 9])],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.zeros(9, np.float32), "nothing")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = tmp_path / "zero.onnx"
    onnx.save(model, path)
    before = path.read_bytes()
    with pytest.raises(ghostgym.ModelError, match="not written: it gives"):
        export.stamp(path, "placement")
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["priority", "placement"])
def test_rows_met_are_observations(kind):
    space = ghostgym.schema(kind).observation_space
    rows = export.rows_met(ghostgym.Policy(net_model(kind)[2]), kind, 1500)
    assert len(rows) >= 1500
    assert all(space.contains(row) for row in rows[::50])
    assert len(np.unique(rows, axis=0)) > 1000


def test_act_obeys_the_mask():
    policy = ghostgym.Policy(net_model("placement")[2])
    rows = np.random.default_rng(2).normal(size=(100, policy.width))
    mask = np.random.default_rng(3).integers(0, 2, (100, 9)).astype(np.int8)
    mask[:, 8] = 1
    actions = policy.act(rows, mask)
    assert (mask[np.arange(100), actions] == 1).all()
    assert policy.act(rows[0], mask[0]) == actions[0]
    assert policy.act(rows[0], np.zeros(9, bool)) == 8
    with pytest.raises(ghostgym.ShapeError):
        policy.act(rows, mask[:3])


def graph_of(rng, opset):
    """A random chain of the operators that the runtime has, rows in and rows out."""
    width, nodes, inits, name = 8, [], [], "row"

    def const(value, dtype=np.float32):
        inits.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(inits)}"))
        return inits[-1].name

    def add(op, inputs, **attributes):
        nonlocal name
        nodes.append(helper.make_node(op, inputs, [f"v{len(nodes)}"], f"n{len(nodes)}", **attributes))
        name = f"v{len(nodes) - 1}"

    for _ in range(6):
        op = rng.choice(
            ["Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Relu", "LeakyRelu", "Tanh", "Sigmoid", "Softmax"]
            + ["Clip", "Identity", "Concat", "Reshape", "Flatten"]
            + (["LayerNormalization"] if opset >= 17 else [])
        )
        if op == "Gemm":
            out = int(rng.integers(3, 12))
            add("Gemm", [name, const(rng.normal(size=(out, width))), const(rng.normal(size=out))], transB=1)
            width = out
        elif op == "MatMul":
            out = int(rng.integers(3, 12))
            add("MatMul", [name, const(rng.normal(size=(width, out)))])
            width = out
        elif op in ("Add", "Sub", "Mul", "Div"):
            add(op, [name, const(rng.uniform(0.5, 2, size=width))])
        elif op == "LeakyRelu":
            add(op, [name], alpha=0.2)
        elif op == "Softmax":
            add(op, [name], axis=1)
        elif op == "Clip":
            add(op, [name, const(-1.5), const(1.0)])
        elif op == "Concat":
            add(op, [name, name], axis=1)
            width *= 2
        elif op == "Reshape":
            add(op, [name, const([-1, width], np.int64)])
        elif op == "Flatten":
            add(op, [name], axis=1)
        elif op == "LayerNormalization":
            add(op, [name, const(rng.normal(size=width)), const(rng.normal(size=width))], axis=-1)
        else:
            add(op, [name])
    last = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])]
    first = [helper.make_tensor_value_info("row", TensorProto.FLOAT, ["n", 8])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", first, last, inits), opset_imports=[helper.make_opsetid("", opset)]
    )
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model.SerializeToString()


@pytest.mark.parametrize("opset", [11, 13, 17, 20])
def test_random_graphs_against_onnx_runtime(opset):
    rng = np.random.default_rng(opset)
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    for _ in range(25):
        model = graph_of(rng, opset)
        policy = ghostgym.Policy(model)
        session = onnxruntime.InferenceSession(model, quiet, providers=["CPUExecutionProvider"])
        for n in (1, 7, 64):
            rows = rng.normal(size=(n, 8)).astype(np.float32)
            theirs = session.run(None, {"row": rows})[0]
            ours = policy.score(rows)
            assert np.allclose(ours, theirs, rtol=2e-5, atol=2e-5), np.abs(ours - theirs).max()


def test_ctrl_c_ends_a_long_call():
    code = """
        import os, signal, threading
        from ghostgym import _native
        _native.call("selftest.echo")
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            _native.call_interruptible("selftest.wait")
        except KeyboardInterrupt:
            print("interrupted")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "interrupted", done.stderr


def test_evaluate():
    assert signal.SIGINT
    model = net_model()[2]
    kwargs = {"seeds": 3, "against": ["rr", "gittins"], "bursts": 200}
    report = ghostgym.evaluate(ghostgym.Policy(model), ["bimodal:load=0.8", "frame"], **kwargs)
    again = ghostgym.evaluate(model, ["bimodal:load=0.8", "frame"], workers=1, **kwargs)
    assert report["workloads"] == again["workloads"]
    assert json.loads(json.dumps(report)) == report
    w = report["workloads"]["bimodal:load=0.8"]
    assert set(w["schedulers"]) == {"learned", "rr", "gittins"}
    assert w["schedulers"]["rr"]["wait_mean_us"]["n"] == 3
    assert w["schedulers"]["rr"]["fates"]["requested"] > 0
    pairs = {(p["a"], p["b"]) for p in w["paired"]}
    assert pairs == {("learned", "rr"), ("learned", "gittins")}
    assert all(p["lo"] <= p["diff"] <= p["hi"] for p in w["paired"] if p["lo"] is not None)


def test_evaluate_takes_seeds_and_tells_how_far_it_is(monkeypatch):
    monkeypatch.setattr(_native, "_PROGRESS_SECONDS", 0.001)
    told = []
    kwargs = {"against": ["rr"], "bursts": 4000, "workers": 1}
    some = ghostgym.evaluate(
        "las", "rocksdb:load=0.9", range(7, 27), progress=lambda *far: told.append(far), **kwargs
    )
    assert told
    assert told == sorted(told)
    assert all(0 <= done <= total == 40 for done, total in told)
    assert sorted({r["seed"] for r in some["runs"]}) == list(range(7, 27))
    assert some["manifest"]["finished"] == 40
    for bad in ([1, 3], [], 0, range(0, 4, 2)):
        with pytest.raises(ghostgym.ConfigError, match="seeds"):
            ghostgym.evaluate("las", "bimodal", bad, **kwargs)


def test_a_library_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(ghostgym, "__version__", "9.9.9")
    with pytest.raises(ImportError, match=r"9\.9\.9"):
        _native._open(str(_native._PATH))
    assert os.path.exists(_native._PATH)
