"""What bad input gets: a documented exception that names the cause, and nothing lost."""

from pathlib import Path

import ghostgym
import gymnasium as gym
import numpy as np
import onnx
import pytest
from ghostgym import _native, export
from nets import net_model

PRIORITY, PLACEMENT = "ghostgym/Priority-v0", "ghostgym/Placement-v0"


@pytest.mark.parametrize(
    ("kwargs", "says"),
    [
        ({"workload": "bimodel"}, "bimodal"),
        ({"workload": "bimodal:load=9"}, "load"),
        ({"workload": "bimodal:lood=0.9"}, "load"),
        ({"workload": "nowhere.json"}, "nowhere.json"),
        ({"profile": "linus"}, "linux"),
        ({"reward": "speed"}, "slowdown"),
        ({"events": "some"}, "fork"),
        ({"timing": "later"}, "async"),
        ({"timing": "hold"}, "hold"),
        ({"horizon_bursts": -1}, "horizon"),
        ({"invalid_action": "ignore"}, "raise"),
        ({"age_bound_us": -5}, "age_bound_us"),
        ({"age_bound_us": 0}, "age_bound_us: 0 is not between 0.001"),
        ({"inference_us": -1}, "inference_us: -1 is not between 0 and"),
        ({"slice_us": 0}, "slice_us: 0 is not"),
        ({"horizon_bursts": 0}, "horizon_bursts: 0 is no positive"),
        ({"no_such_option": 1}, "no_such_option"),
        ({"workload": 3}, "workloads"),
        ({"workload": ""}, "no name"),
        ({"workload": "/dev/zero"}, "not a regular file"),
        ({"profile": 3}, "profile: want text, got 3"),
        ({"wakeup_preemption": "yes"}, "wakeup_preemption: want true or false"),
        ({"horizon_bursts": "x"}, "horizon_bursts: want a number"),
        ({"horizon_bursts": float("nan")}, "horizon"),
        ({"inference_us": float("nan")}, "inference_us"),
        ({"slice_us": 2**70}, "slice_us"),
        ({"warmup": 1}, "warmup: 1"),
    ],
)
def test_configurations(kwargs, says):
    with pytest.raises(ghostgym.ConfigError, match=says):
        gym.make(PRIORITY, **kwargs)
    with pytest.raises(ghostgym.ConfigError, match=says):
        gym.make_vec(PRIORITY, num_envs=2, **kwargs)


def test_more_configurations():
    with pytest.raises(ghostgym.ConfigError, match="keys"):
        gym.make(PLACEMENT, wakeup_preemption=True)
    with pytest.raises(ghostgym.ConfigError, match="SameStep"):
        gym.make_vec(PRIORITY, num_envs=2, autoreset="same_step")
    with pytest.raises(ghostgym.ConfigError, match="max_episode_steps"):
        gym.make_vec(PRIORITY, num_envs=2, max_episode_steps=-1)
    for make in (ghostgym.PriorityEnv, ghostgym.GhostVectorEnv):
        with pytest.raises(ghostgym.ConfigError, match="ansi"):
            make(render_mode="human")
    for bad in (0, -1, 2.5, "2", None, 10**12):
        with pytest.raises(ghostgym.ConfigError, match="num_envs"):
            ghostgym.GhostVectorEnv(bad)
    with pytest.raises(ghostgym.ConfigError, match=r"max_episode_steps: want a whole number, got 2\.5"):
        ghostgym.GhostVectorEnv(2, max_episode_steps=2.5)
    for bad in (-1, 1.5, 1000):
        with pytest.raises(ghostgym.ConfigError, match="workers"):
            ghostgym.GhostVectorEnv(2, workers=bad)
    env = gym.make(PRIORITY)
    with pytest.raises(ghostgym.ConfigError, match="seeds"):
        env.reset(options={"seeds": 3})
    assert issubclass(ghostgym.ConfigError, ValueError)


GOOD = {"workload": "bimodal", "seed": 1, "episode": 0}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seed": 1.5}, "seed: want a whole number"),
        ({"seed": "x"}, "seed: want a whole number"),
        ({"seed": {}}, "seed: want a whole number"),
        ({"seed": True}, "seed: want a whole number"),
        ({"seed": np.array([[1], [2]])}, r"seed\[0\]"),
        ({"seed": [1]}, "seed: 1 given for 2"),
        ({"seed": [1.5, 2]}, r"seed\[0\].*1\.5"),
        ({"seed": [1, -2]}, r"seed\[1\].*-2"),
        ({"seed": [2**64, 1]}, r"seed\[0\]"),
        ({"options": {"instances": 3}}, "instances: want a list"),
        ({"options": {"instances": []}}, "instances: 0 given"),
        ({"options": {"instances": ["bimodal", None]}}, r"instances\[0\]"),
        ({"options": {"instances": [None, {}]}}, r"instances\[1\]"),
        ({"options": {"instances": [None, {"workload": "frame"}]}}, r"instances\[1\].*'seed'"),
        ({"options": {"instances": [{**GOOD, "seed": -1}, None]}}, r"instances\[0\]\.seed.*-1"),
        ({"options": {"instances": [None, {**GOOD, "episode": 0.5}]}}, r"instances\[1\]\.episode"),
        ({"options": {"instances": [None, {**GOOD, "sed": 1}]}}, r"instances\[1\]\.sed: unknown"),
        ({"options": {"instances": [GOOD, {**GOOD, "workload": 3}]}}, r"instances\[1\]\.workload: want text"),
        ({"options": {"instances": [GOOD, {**GOOD, "workload": "nope"}]}}, "environment 1.*nope"),
    ],
)
def test_resets_that_are_refused_change_nothing(arguments, says):
    made = [ghostgym.GhostVectorEnv(2, workload="frame", horizon_bursts=60) for _ in range(2)]
    for env in made:
        env.reset(seed=1)
    for step in range(200):
        if step in (0, 5):
            with pytest.raises(ghostgym.ConfigError, match=says):
                made[0].reset(**arguments)
        left, right = (env.step(np.zeros((2, 1), np.float32)) for env in made)
        for a, b in zip(left[:4], right[:4], strict=True):
            assert np.array_equal(a, b)


def test_a_refused_first_reset_leaves_nothing_to_step():
    env = ghostgym.GhostVectorEnv(2)
    with pytest.raises(ghostgym.ConfigError, match="nope"):
        env.reset(options={"instances": [GOOD, {**GOOD, "workload": "nope"}]})
    with pytest.raises(ghostgym.OverError, match="environment 0"):
        env.step(np.zeros((2, 1), np.float32))


def test_a_step_of_one_that_is_over_steps_none():
    n = 8
    load = ["frame", "bimodal:load=0.9"]
    made = [ghostgym.GhostVectorEnv(n, workload=load, autoreset="Disabled", horizon_bursts=60) for _ in range(2)]
    over = np.zeros(n, bool)
    for env in made:
        env.reset(seed=1)
    action = np.zeros((n, 1), np.float32)
    while not over.any():
        for env in made:
            _, _, a, b, _ = env.step(action)
            over = a | b
    assert not over[0], "one before it could be stepped"
    with pytest.raises(ghostgym.OverError, match=f"environment {int(np.argmax(over))}"):
        made[0].step(action)
    for env in made:
        env.reset(options={"reset_mask": over})
    left, right = (env.step(action) for env in made)
    for a, b in zip(left[:4], right[:4], strict=True):
        assert np.array_equal(a, b), "the others have missed no step"


def test_step_before_reset_and_after_the_end():
    env = ghostgym.PriorityEnv("bimodal:load=0.9", horizon_bursts=30)
    with pytest.raises(ghostgym.OverError, match="reset"):
        env.step(np.zeros(1, np.float32))
    env.reset(seed=1)
    over = False
    while not over:
        _, _, a, b, _ = env.step(np.zeros(1, np.float32))
        over = a or b
    with pytest.raises(ghostgym.OverError):
        env.step(np.zeros(1, np.float32))
    env.reset()
    env.step(np.zeros(1, np.float32))


def test_illegal_actions():
    env = gym.make_vec(PLACEMENT, num_envs=3, workload="rocksdb:load=0.95", invalid_action="raise", copy=False)
    obs, info = env.reset(seed=1)
    before = obs.copy()
    legal = np.array([8, 8, 8])
    wrong = legal.copy()
    wrong[1] = int(np.flatnonzero(info["action_mask"][1] == 0)[0]) if (info["action_mask"][1] == 0).any() else 9
    with pytest.raises(ghostgym.ActionError, match="environment 1"):
        env.step(wrong)
    assert np.array_equal(obs, before), "nothing has been stepped"
    env.step(legal)
    keys = gym.make_vec(PRIORITY, num_envs=2, invalid_action="raise")
    keys.reset(seed=1)
    for bad in (np.nan, 1.5, -np.inf):
        with pytest.raises(ghostgym.ActionError):
            keys.step(np.array([[0], [bad]], np.float32))
    keys.step(np.array([[0.5], [1]]))  # float64 fits
    with pytest.raises(ghostgym.ActionError):
        keys.step(np.array([[0], [1e300]]))
    lax = gym.make(PRIORITY, workload="bimodal:load=0.95", horizon_bursts=50)
    lax.reset(seed=1)
    over = False
    while not over:
        _, _, a, b, info = lax.step(np.array([np.nan], np.float32))
        over = a or b
    assert info["illegal_actions"] > 0


def test_shapes():
    env = gym.make_vec(PRIORITY, num_envs=4)
    env.reset(seed=1)
    for bad in (np.zeros((3, 1)), np.zeros(()), "up", np.zeros((4, 0)), np.zeros((4, 2)), np.zeros(4), None):
        with pytest.raises(ghostgym.ShapeError, match="actions"):
            env.step(bad)
    places = gym.make_vec(PLACEMENT, num_envs=4)
    places.reset(seed=1)
    for bad in (8, [8], np.full((4, 1), 8), np.full(4, 8.0), np.full(4, True), [8, 8, 8, [8]]):
        with pytest.raises(ghostgym.ShapeError, match="actions"):
            places.step(bad)
    places.step([8, 8, 8, 8])
    env.close()
    with pytest.raises(ghostgym.ClosedError):
        env.step(np.zeros((4, 1)))


def test_models(tmp_path):
    net = export.ScoreNet(ghostgym.schema("priority").width)
    model = net.to_onnx(net.initial(np.random.default_rng(1)))
    for cut in (0, 1, 10, len(model) // 2, len(model) - 3):
        path = tmp_path / "cut.onnx"
        path.write_bytes(model[:cut])
        with pytest.raises(ghostgym.ModelError, match=r"cut\.onnx"):
            ghostgym.load_policy(path)
    proto = onnx.ModelProto()
    proto.ParseFromString(model)
    for node in proto.graph.node:
        node.op_type = "Sinh"
    with pytest.raises(ghostgym.ModelError, match=r"(?s)hidden.*score") as refused:
        ghostgym.Policy(proto.SerializeToString())
    assert "Sinh" in str(refused.value)
    policy = ghostgym.Policy(model)
    ragged = [[1.0] * net.inputs, [2.0]]
    complex_row = np.zeros(net.inputs, complex)
    for bad in (np.zeros(3), np.zeros((2, 3)), np.zeros((1, 1, net.inputs)), ragged, complex_row, "x", None, 3):
        with pytest.raises(ghostgym.ShapeError):
            policy.score(bad)
    policy.close()
    with pytest.raises(ghostgym.ClosedError):
        policy.score(np.zeros(net.inputs))
    for no_bytes in (None, 3, "model.onnx", np.zeros(3, np.uint8)):
        with pytest.raises(ghostgym.ConfigError, match="want the bytes"):
            ghostgym.Policy(no_bytes)
    with pytest.raises(OSError, match="absent"):
        ghostgym.load_policy(tmp_path / "absent.onnx")


def test_another_schema_is_refused_by_what_differs():
    s = ghostgym.schema("priority")
    net = export.ScoreNet(s.width)
    stamped = export.with_metadata(net.to_onnx(net.initial(np.random.default_rng(1))), "priority")
    proto = onnx.ModelProto()
    proto.ParseFromString(stamped)
    for p in proto.metadata_props:
        if p.key == export.META_SCHEMA:
            assert "utilisation" in p.value
            p.value = p.value.replace("utilisation", "usefulness")
        if p.key == export.META_HASH:
            p.value = "0123456789abcdef" * 4
    policy = ghostgym.Policy(proto.SerializeToString())
    assert policy.kind is None
    for part in (s.hash[:12], "0123456789ab", "utilisation", "usefulness"):
        assert part in policy.refusal
    env = ghostgym.GhostVectorEnv(1)
    with pytest.raises(ghostgym.ModelError, match="utilisation"):
        env.rollout([bytes(policy)], [{"workload": "bimodal", "seed": 1, "episode": 0}])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"tasks": {"a": {"run": 10, "sleeep": 5}}}', r"1:\d+.*sleeep"),
        ('{"tasks": {"a": {"run": "long"}}}', r"1:\d+.*run"),
        ('{"tasks": {"a": {"run": 10}}', r"\d+:\d+"),
        ("[]", r"1:1"),
        ('{"global": {"duration": 1}}', "tasks"),
    ],
)
def test_rtapp_files(tmp_path, text, says):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(ghostgym.ConfigError, match=says) as refused:
        gym.make(PRIORITY, workload=str(path))
    assert "bad.json" in str(refused.value)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"policy": None}, "policy: .*None"),
        ({"policy": 3}, "policy: .*3"),
        ({"policy": ["rr"]}, "policy: "),
        ({"policy": "rrr"}, 'did you mean "rr"'),
        ({"workloads": None}, "workloads: .*None"),
        ({"workloads": []}, "at least one workload"),
        ({"workloads": [[]]}, "workload"),
        ({"workloads": {"a": 3}}, r"workloads\['a'\]: .*3"),
        ({"workloads": {"a": []}}, '"a" has no instances'),
        ({"seeds": 2.5}, "seeds: .*2.5"),
        ({"seeds": [-1, 0]}, r"seeds\[0\]: .*-1"),
        ({"workloads": ["frame", "frame"]}, "'frame' stands twice"),
        ({"policy": Path("model.onnx")}, "load_policy"),
        ({"seeds": None}, "seeds: .*None"),
        ({"seeds": 10**30}, "seeds: "),
        ({"against": "rr"}, "against: .*'rr'"),
        ({"against": None}, "against: .*None"),
        ({"held_out": 3}, "held_out: .*3"),
        ({"held_out": {"frame": "seed"}}, "held_out: .*bimodal.*frame"),
        ({"held_out": {"bimodal": "sead"}}, "sead"),
        ({"bursts": 0}, "bursts: 0"),
        ({"bursts": "x"}, "bursts: want a number"),
        ({"bursts": 10**400}, "bursts"),
        ({"warmup": 1}, "warmup: 1"),
        ({"wakeup_preemption": "yes"}, "wakeup_preemption: "),
        ({"progress": 5}, "progress: "),
        ({"workers": -1}, "workers: -1"),
        ({"timing": "later"}, "async"),
        ({"fallback": "nope"}, "nope"),
    ],
)
def test_evaluations(arguments, says):
    good = {"policy": net_model()[2], "workloads": ["bimodal"], "seeds": 1, "against": ["fifo"], "bursts": 20}
    with pytest.raises(ghostgym.ConfigError, match=says):
        ghostgym.evaluate(**{**good, **arguments})


def test_seeds_of_every_kind_of_integer():
    """NumPy's count as Python's, in the single environment as in the vector."""
    single, vector = ghostgym.PriorityEnv(), ghostgym.GhostVectorEnv(1)
    want = single.reset(seed=3)[0]
    for seed in (np.int64(3), np.uint8(3), np.array(3)):
        assert np.array_equal(single.reset(seed=seed)[0], want)
        assert np.array_equal(vector.reset(seed=seed)[0][0], want)
    for bad in (-1, 1.5, "1", True, np.array([1, 2, 3]), 2**64):
        for env in (single, vector):
            with pytest.raises(ghostgym.ConfigError, match="seed"):
                env.reset(seed=bad)
    assert ghostgym.evaluate("rr", ["frame"], np.arange(3, 5), ["las"], bursts=20)["manifest"]["seed"] == 3


def test_arrays_count_as_lists():
    env = ghostgym.GhostVectorEnv(2, workload=np.array(["bimodal", "frame"]), warmup=np.array(0.2))
    env.reset(seed=1)
    with pytest.raises(ghostgym.ConfigError, match="want a number"):
        ghostgym.PriorityEnv(warmup=np.array([0.1, 0.2]))
    with pytest.raises(ghostgym.ConfigError, match=r"out of range") as refused:
        ghostgym.GhostVectorEnv(10**400)
    assert len(str(refused.value)) < 200


def test_kinds_come_from_the_id():
    for make in (gym.make, gym.make_vec):
        with pytest.raises(ghostgym.ConfigError, match="kind"):
            make(PRIORITY, kind="placement")
    with pytest.raises(ghostgym.ConfigError, match="did you mean 'events'"):
        ghostgym.PriorityEnv(evnts="all")


@pytest.mark.parametrize("bad", [3, "x", ["instances"], b"instances"])
def test_reset_options_of_a_wrong_kind(bad):
    for env in (ghostgym.PriorityEnv(), ghostgym.GhostVectorEnv(1)):
        with pytest.raises(ghostgym.ConfigError, match="reset options: want a dict"):
            env.reset(options=bad)


def test_what_is_no_name_and_no_list():
    for bad in ([], None, 3, {}):
        with pytest.raises(ghostgym.ConfigError, match="kind: "):
            ghostgym.GhostVectorEnv(1, kind=bad)
        with pytest.raises(ghostgym.ConfigError, match="schema: "):
            ghostgym.schema(bad)
        with pytest.raises(ghostgym.ConfigError, match="autoreset: "):
            ghostgym.GhostVectorEnv(1, autoreset=bad)
    env = ghostgym.GhostVectorEnv(1)
    for bad in (None, 3, "rr", {"rr": 1}, b"rr"):
        with pytest.raises(ghostgym.ConfigError, match="policies: want a list"):
            env.rollout(bad, [GOOD])
        with pytest.raises(ghostgym.ConfigError, match="instances: want a list"):
            env.rollout(["rr"], bad)
    with pytest.raises(ghostgym.ShapeError, match="reset_mask: "):
        env.reset(options={"reset_mask": [[1], [1, 2]]})


def test_folders_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("in the way")
    with pytest.raises(ghostgym.ConfigError, match="file"):
        _native.call(
            "compare",
            {
                "groups": {"bimodal": ["bimodal"]},
                "schedulers": ["rr"],
                "reps": 1,
                "bursts": 100.0,
                "out": str(file / "sub"),
            },
        )
    with pytest.raises(ghostgym.ConfigError, match="seedz"):
        _native.call("compare", {"seedz": 1})


@pytest.mark.parametrize(
    ("policies", "error", "says"),
    [
        ([b""], ghostgym.ModelError, "policy 0: model: .*empty"),
        (["rr", b"\0" * 100], ghostgym.ModelError, "policy 1: model"),
        ("rr", ghostgym.ConfigError, "want a list"),
        (["rr", "learned"], ghostgym.ConfigError, "policy 1: .*needs a model"),
        (["rr@nowhere"], ghostgym.ConfigError, "nowhere"),
        ([bytearray(b"x")], ghostgym.ConfigError, r"policies\[0\].*bytearray"),
    ],
)
def test_rollouts(policies, error, says):
    env = ghostgym.GhostVectorEnv(1)
    with pytest.raises(error, match=says):
        env.rollout(policies, [GOOD])


def test_what_else_a_rollout_is_given():
    env = ghostgym.GhostVectorEnv(1)
    for bad, says in (([], "0 instances"), (None, "list"), ([None], "instance"), ([3], r"instances\[0\]")):
        with pytest.raises(ghostgym.ConfigError, match=says):
            env.rollout(["rr"], bad)
    with pytest.raises(ghostgym.ConfigError, match="workers: -1"):
        env.rollout(["rr"], [GOOD], workers=-1)
    net = export.ScoreNet(env.schema.width)
    raw = net.to_onnx(net.initial(np.random.default_rng(1)))
    with pytest.raises(ghostgym.ModelError, match=r"export\.stamp"):
        env.rollout([raw], [GOOD])
    with pytest.raises(ghostgym.ConfigError, match="fallback"):
        env.rollout([export.with_metadata(raw, env)], [GOOD], fallback="learned")
    for arguments, says in (
        ({"n": 0}, "n 0"),
        ({"n": "x"}, "n: want a whole number"),
        ({"n": 1, "kinds": "bimodal"}, "kinds: want a list"),
        ({"n": 1, "kinds": ["bimodel"]}, "bimodal"),
        ({"n": 1, "seed": -1}, "seed"),
    ):
        with pytest.raises(ghostgym.ConfigError, match=says):
            ghostgym.sample_instances(**arguments)
