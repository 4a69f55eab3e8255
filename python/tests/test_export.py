"""Export, and models in the Go runtime: checked before they are written, the same bits everywhere."""

import json
import os
import pickle
import resource
import subprocess
from pathlib import Path

import ghostgym
import gymnasium as gym
import numpy as np
import onnx
import onnxruntime
import pytest
from ghostgym import export
from nets import net_model
from onnx import TensorProto, helper, numpy_helper
from programs import built


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
    program = built("ghostlab")
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
    programs = built("ghostd"), built("ghostlab")
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


def test_a_score_that_is_no_number_counts_where_it_is_legal():
    net, theta, _ = net_model("placement")
    proto = onnx.load_model_from_string(net.to_onnx(theta))
    by = np.ones(9, np.float32)
    by[4] = 0
    proto.graph.initializer.append(numpy_helper.from_array(by, "by"))
    proto.graph.node.append(helper.make_node("Div", ["score", "by"], ["broken"], "divide"))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("broken", TensorProto.FLOAT, ["batch", 9]))
    policy = ghostgym.Policy(export.with_metadata(proto.SerializeToString(), "placement"))
    rows = np.random.default_rng(2).normal(size=(50, net.inputs)).astype(np.float32)
    mask = np.ones((50, 9), bool)
    assert (policy.act(rows) == 8).all()
    assert (policy.act(rows, mask) == 8).all()
    mask[:, 4] = False
    best = np.where(mask, net.score(theta, rows), -np.inf).argmax(axis=1)
    assert np.array_equal(policy.act(rows, mask), best)
    assert len(set(best.tolist())) > 3


def index_model():
    """A placement model that ends in an arg-max of its own; and the logits before it."""
    net, theta, _ = net_model("placement")
    proto = onnx.load_model_from_string(net.to_onnx(theta))
    proto.graph.node.append(helper.make_node("ArgMax", ["score"], ["index"], "best", axis=1, keepdims=1))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("index", TensorProto.INT64, ["batch", 1]))
    return export.with_metadata(proto.SerializeToString(), "placement"), net, theta


def test_a_model_that_gives_the_index_acts_as_in_the_agent():
    model, net, theta = index_model()
    policy = ghostgym.Policy(model)
    assert (policy.kind, policy.out_width) == ("placement", 1)
    rows = np.random.default_rng(2).normal(size=(200, net.inputs)).astype(np.float32)
    best = net.score(theta, rows).argmax(axis=1)
    assert len(set(best.tolist())) > 3
    assert np.array_equal(policy.act(rows), best)
    mask = np.random.default_rng(3).integers(0, 2, (200, 9)).astype(bool)
    mask[:, 8] = True
    legal = mask[np.arange(200), best]
    assert np.array_equal(policy.act(rows, mask), np.where(legal, best, 8))
    assert policy.act(rows[0], mask[0]) == policy.act(rows, mask)[0]
    env = ghostgym.GhostVectorEnv(1, kind="placement", workload="rocksdb:load=0.95", horizon_bursts=200)
    obs, info = env.reset(seed=4)
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, info = env.step(policy.act(obs, info["action_mask"]))
        total += reward[0]
        over = terminated[0] or truncated[0]
    played = env.rollout([policy], [{"workload": "rocksdb:load=0.95", "seed": 4, "episode": 0}])
    assert total == played.returns[0, 0]
    assert info["trace_hash"][0] == played.trace_hash[0][0]


def test_an_export_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    """Whatever breaks, and whenever: the file is the old one or the new one, and nothing lies beside it."""
    net, theta, _ = net_model()
    rows = np.random.default_rng(2).uniform(-1, 1, (1000, net.inputs)).astype(np.float32)
    path = tmp_path / "m.onnx"

    def save(by=0.0):
        changed = theta + np.float32(by)
        return export.save(path, net.to_onnx(changed), "priority", lambda r: net.score(changed, r), rows)

    save()
    before = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    for name in ("replace", "fchmod"):
        with monkeypatch.context() as m:
            m.setattr(export.os, name, broken)
            with pytest.raises(OSError, match="No space"):
                save(0.1)
        assert path.read_bytes() == before, name
        assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"], name
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            save(0.1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    save(0.1)
    assert path.read_bytes() != before
    with pytest.raises(OSError, match="null"):
        export.save("/dev/null/m.onnx", net.to_onnx(theta), "priority", lambda r: net.score(theta, r), rows)


def test_a_reference_is_held_to_every_row_and_output(tmp_path):
    net, theta, _ = net_model("placement")
    raw = net.to_onnx(theta)
    rows = np.random.default_rng(2).uniform(-1, 1, (1200, net.inputs)).astype(np.float32)

    def save(reference):
        return export.save(tmp_path / "m.onnx", raw, "placement", reference, rows)

    def one_off(r):
        scores = net.score(theta, r)
        scores[1107, 6] += 0.01
        return scores

    with pytest.raises(ghostgym.ModelError, match=r"on 1 of 1200 observations, worst on number 1107: output 6"):
        save(one_off)
    with pytest.raises(ghostgym.ModelError, match="disagrees"):
        save(lambda r: np.full((len(r), 9), np.nan, np.float32))
    with pytest.raises(ghostgym.ModelError, match=r"\(1200, 1\)"):
        save(lambda r: net.score(theta, r)[:, :1])
    with pytest.raises(ghostgym.ModelError, match=r"1200"):
        save(lambda r: net.score(theta, r)[0])
    assert list(tmp_path.iterdir()) == []


def test_metadata_of_others_is_kept_and_ours_replaced():
    _, _, model = net_model()
    proto = onnx.load_model_from_string(model)
    entry = proto.metadata_props.add()
    entry.key, entry.value = "author", "somebody"
    ranges = {"cpus": (4, 8)}
    again = export.with_metadata(proto.SerializeToString(), "priority", ranges, seed=7, recipe={"a": [1]})
    meta = ghostgym.Policy(again).metadata
    assert meta["author"] == "somebody"
    assert json.loads(meta["ghostgym.ranges"]) == {"cpus": [4, 8]}
    assert (meta["ghostgym.seed"], json.loads(meta["ghostgym.recipe"])) == ("7", {"a": [1]})
    assert again == export.with_metadata(again, "priority", ranges, recipe={"a": [1]}, seed=7)
    for bad in (b"\xff", b"no model"):
        with pytest.raises(ghostgym.ModelError, match="cannot be read"):
            export.with_metadata(bad, "priority")
    with pytest.raises(ghostgym.ConfigError, match="want an environment"):
        export.with_metadata(model, gym.make("CartPole-v1"))


def test_models_may_be_any_bytes_and_are_pickled_whole():
    _, _, model = net_model()
    rows = np.random.default_rng(1).normal(size=(5, ghostgym.schema("priority").width))
    want = ghostgym.Policy(model).score(rows)
    for same in (bytearray(model), memoryview(model)):
        assert np.array_equal(ghostgym.Policy(same).score(rows), want)
    named = pickle.loads(pickle.dumps(ghostgym.Policy(model, "mine")))
    assert (named.name, bytes(named)) == ("mine", model)
    assert np.array_equal(named.score(rows), want)


def test_keys_out_of_bounds_are_told():
    """They lose their order: by a warning when a model is written, and in the counts of whoever runs it."""
    net, theta, _ = net_model()
    wild = theta * np.float32(1000)
    rows = np.random.default_rng(2).uniform(-1, 1, (1000, net.inputs)).astype(np.float32)
    with pytest.warns(UserWarning, match="clipped there"):
        export.save("/dev/null", net.to_onnx(wild), "priority", lambda r: net.score(wild, r), rows)
    policy = ghostgym.Policy(export.with_metadata(net.to_onnx(wild), "priority"))
    report = ghostgym.evaluate(policy, ["bimodal"], 1, [], bursts=100, warmup=0)
    clipped = report["workloads"]["bimodal"]["schedulers"]["learned"]["fates"]["clipped"]
    env = ghostgym.PriorityEnv("bimodal", horizon_bursts=100)
    row, _ = env.reset(seed=0)
    over = False
    while not over:
        row, _, a, b, info = env.step(policy.act(row))
        over = a or b
    assert info["illegal_actions"] == info["figures"]["fates"]["clipped"] == clipped > 10


def test_metadata_is_checked():
    model = net_model()[2]
    for bad in (
        {"schema": "x"},
        {"schema_hash": "zz"},
        {"version": "9"},
        {"foo": object()},
        {"foo": float("nan")},
    ):
        with pytest.raises(ghostgym.ConfigError, match=next(iter(bad))):
            export.with_metadata(model, "priority", **bad)
    for ranges in (
        3,
        "x",
        {"cpus": 4},
        {"cpus": [4]},
        {"cpus": [8, 4]},
        {"cpus": [4, 8, 9]},
        {"cpus": [0, np.inf]},
    ):
        with pytest.raises(ghostgym.ConfigError, match="ranges"):
            export.with_metadata(model, "priority", ranges)
    stamped = export.with_metadata(
        model,
        "priority",
        {"cpus": np.array([4, 8])},
        rate=np.float32(0.5),
        layers=np.array([16]),
        where=Path("here"),
    )
    meta = ghostgym.Policy(stamped).metadata
    assert json.loads(meta["ghostgym.ranges"]) == {"cpus": [4, 8]}
    assert (meta["ghostgym.rate"], meta["ghostgym.layers"], meta["ghostgym.where"]) == ("0.5", "[16]", '"here"')


def test_arguments_of_save_are_checked(tmp_path):
    net, theta, model = net_model()
    rows = np.random.default_rng(2).uniform(-1, 1, (1000, net.inputs)).astype(np.float32)
    good = {"reference": lambda r: net.score(theta, r), "observations": rows}
    for bad, says in (
        ({"reference": None}, "reference"),
        ({"observations": "x"}, "observations"),
        ({"observations": [[1], [1, 2]]}, "observations"),
        ({"tolerance": "x"}, "tolerance"),
        ({"tolerance": np.inf}, "tolerance"),
        ({"tolerance": -1}, "tolerance"),
        ({"reference": lambda r: np.full((len(r), 1), np.inf)}, "disagrees"),
    ):
        with pytest.raises(ghostgym.GhostgymError, match=says):
            export.save(tmp_path / "m.onnx", model, "priority", **{**good, **bad})
    assert not list(tmp_path.iterdir())
    for sizes in ((19, -1), (-1,), (19.5,), (19, 16, 0)):
        with pytest.raises(ghostgym.ConfigError, match="want a whole number"):
            export.ScoreNet(*sizes)
    with pytest.raises(ghostgym.ShapeError, match="theta"):
        net.score(theta[:-1], rows)
    for path in (None, 5, b"m.onnx", "", "a\0b"):
        with pytest.raises(ghostgym.ConfigError, match="path"):
            ghostgym.load_policy(path)


def test_files_are_written_where_links_lead_and_with_their_mode(tmp_path):
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("target")
    before = os.umask(0o027)
    try:
        export.write_whole(link, b"one")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert target.read_bytes() == b"one"
    assert target.stat().st_mode & 0o777 == 0o640
    target.chmod(0o600)
    export.write_whole(target, b"two")
    assert target.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    export.write_whole(pipe, b"three")
    assert os.read(reader, 9) == b"three"
    os.close(reader)
    assert pipe.is_fifo()
    with pytest.raises(OSError, match="directory"):
        export.write_whole(tmp_path, b"")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "pipe", "target"]
