"""What the demo claims, on reports made by hand."""

import warnings

import pytest

from train import demo

METRICS = ("wait_mean_us", "slowdown_mean")


def report(rows):
    """A report where learned has the same row against everybody, by workload; ``None`` is a plain win by half."""
    halved = {"diff": -1.0, "lo": -2.0, "hi": -0.5, "percent": -50.0, "percent_lo": -50.0, "percent_hi": -50.0}
    return {
        "workloads": {
            name: {
                "held_out": held,
                "paired": [
                    {"a": "learned", "b": b, "metric": m, **halved, **rows.get(name, {}).get(m, {})}
                    for b in [*demo.RIVALS, "gittins"]
                    for m in METRICS
                ],
            }
            for name, (held, _) in demo.WORKLOADS.items()
        }
    }


def lost(name):
    return {name: {"wait_mean_us": {"diff": 0.0, "lo": -1.0, "hi": 1.0, "percent": 3.0}}}


def test_both_figures_are_told_for_the_workloads_that_were_chosen():
    lines, told = demo.claims(report(lost("bimodal") | lost(demo.HELD_OUT_KIND)))
    assert "no difference shown" in lines[0]
    assert "not adjusted" in lines[1]
    rows = {line[:28].strip(): line[28:].split() for line in lines[3:]}
    assert rows["bimodal"] == ["seed", *["="] * 5]
    assert rows["heavytail"] == ["seed", *["50", "%"] * 5]
    assert told[0].startswith("On 8 of 9 workloads held out in seed or parameters")
    assert "bimodal;" not in told[0]
    assert demo.HELD_OUT_KIND not in told[0]
    assert ["slowdown" in told[1], "wait" in told[2]] == [True, True]
    for line in told[1:]:
        assert "chosen because" in line
        assert "is 0.500 of gittins' (less is better; geometric mean of 8, 95 % interval 0.500 to 0.500)" in line


@pytest.mark.parametrize("low", [None, -100.0, -120.0])
def test_a_ratio_without_an_interval_is_left_out(low):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, told = demo.claims(report({"heavytail": {"slowdown_mean": {"percent_lo": low}}}))
        assert "geometric mean of 8," in told[1]
        assert told[1].endswith("Left out, for want of a ratio with an interval: heavytail.")
        assert "geometric mean of 9," in told[2]
        everywhere = {name: {"slowdown_mean": {"percent_lo": low}} for name in demo.WORKLOADS}
        _, told = demo.claims(report(everywhere))
    assert told[1].startswith("Its mean slowdown there cannot be set against gittins'.")


def test_one_repetition_claims_nothing():
    nothing = {"wait_mean_us": dict.fromkeys(("lo", "hi", "percent_lo", "percent_hi"))}
    lines, told = demo.claims(report(dict.fromkeys(demo.WORKLOADS, nothing)))
    assert all(line.split()[-5:] == ["–"] * 5 for line in lines[3:])
    assert told == [
        "On 0 of 9 workloads held out in seed or parameters the learned policy waits less than each of fifo, rr, "
        "front, random, with 95 % intervals below zero: none."
    ]


def test_a_training_that_cannot_be_is_refused(tmp_path, capsys, monkeypatch):
    def train(*_):
        raise demo.ghostgym.ConfigError("seconds: 1e-09 is too short")

    monkeypatch.setattr(demo.es, "train", train)
    assert demo.main(["--out", str(tmp_path), "--seconds", "1e-9"]) == 2
    assert capsys.readouterr().err == "demo: seconds: 1e-09 is too short\n"
