"""What bad input gets: a documented exception that names the cause, and nothing lost."""

import ghostgym
import gymnasium as gym
import numpy as np
import onnx
import pytest
from ghostgym import _native, export

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
        ({"no_such_option": 1}, "no_such_option"),
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
    with pytest.raises(ghostgym.ConfigError, match="num_envs"):
        gym.make_vec(PRIORITY, num_envs=0)
    env = gym.make(PRIORITY)
    with pytest.raises(ghostgym.ConfigError, match="seeds"):
        env.reset(options={"seeds": 3})
    assert issubclass(ghostgym.ConfigError, ValueError)


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
    for bad in (np.zeros(3), np.zeros((2, 3)), np.zeros((1, 1, net.inputs))):
        with pytest.raises(ghostgym.ShapeError):
            policy.score(bad)
    policy.close()
    with pytest.raises(ghostgym.ClosedError):
        policy.score(np.zeros(net.inputs))
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
                "out": str(file / "sub"),
            },
        )
    with pytest.raises(ghostgym.ConfigError, match="seedz"):
        _native.call("compare", {"seedz": 1})
