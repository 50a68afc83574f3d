"""The training script: seeded, and a run that was stopped ends where one that was not would have ended."""

import importlib
import json
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle


@pytest.fixture
def training(monkeypatch):
    """Return the training script with a model so small, and so few steps, that it takes a second."""
    importlib.import_module("torch")
    importlib.import_module("tokenizers")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "training"))
    script = importlib.import_module("train")
    tiny = script.recipes.INDUCTION | {"rows": 4, "steps": 12, "fall": 5, "measure": 4, "also": (), "rise": 3}
    monkeypatch.setitem(script.recipes.RECIPES, "tiny", tiny)
    return script


def run(script, folder, monkeypatch, stop=None):
    """Train in a folder; stop before a step, as Ctrl-C would; return the log and the final weights."""
    draw = script.recipes.RECIPES["tiny"]["data"]

    def stopping(recipe, where):
        batch, held_out = draw(recipe, where)

        def drawn(rng, step):
            if step == stop:
                raise KeyboardInterrupt
            return batch(rng, step)

        return drawn, held_out

    monkeypatch.setattr(script, "BUILD", folder)
    with monkeypatch.context() as patch:
        patch.setitem(script.recipes.RECIPES["tiny"], "data", stopping)
        script.train("tiny")
    log = [json.loads(line) for line in (folder / "tiny" / "log.jsonl").read_text().splitlines()]
    return log, sys.modules["torch"].load(folder / "tiny" / "weights" / "00012.pt")


def test_a_stopped_run_goes_on(training, tmp_path, monkeypatch, capsys):
    log, weights = run(training, tmp_path / "whole", monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run(training, tmp_path / "stopped", monkeypatch, stop=10)
    assert not (tmp_path / "stopped" / "tiny" / "weights" / "00012.pt").exists()
    again, same = run(training, tmp_path / "stopped", monkeypatch)
    capsys.readouterr()
    assert weights.keys() == same.keys()
    for name, tensor in weights.items():
        assert tensor.equal(same[name]), name
    kept = ("step", "loss", "held_out", "induction")
    found = {line["step"]: [line[key] for key in kept] for line in again}
    assert found == {line["step"]: [line[key] for key in kept] for line in log}
    assert [line["step"] for line in log] == [0, 4, 8, 12]


def test_the_learning_rate_by_hand(training):
    recipe = {"rate": 2.0, "rise": 4, "steps": 20, "fall": 10}
    rates = [training.learning_rate(recipe, step) for step in (0, 1, 3, 5, 10, 15, 20)]
    assert rates == pytest.approx([0.5, 1.0, 2.0, 2.0, 2.0, 1.1, 0.2])
