"""Untrained nets, for tests of what is done with a net."""

import ghostgym
import numpy as np
from ghostgym import export


def net_model(kind="priority", seed=1, hidden=16):
    s = ghostgym.schema(kind)
    net = export.ScoreNet(s.width, hidden, 1 if kind == "priority" else 9)
    theta = net.initial(np.random.default_rng(seed))
    return net, theta, export.with_metadata(net.to_onnx(theta), kind)
