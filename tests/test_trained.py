"""The shipped models: what they weigh, what they score, and the scores themselves."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from labkit import trained
from labkit.checkpoint import find_tensors
from labkit.mask import causal_mask
from labkit.model import count_params, forward, generate, loss
from labkit.sampling import sample
from labkit.softmax import cross_entropy
from labkit.trained import followers, head_scores, leaking_mask

LARGEST = 6_000_000  # bytes of all that is shipped


def repeated_blocks(vocab_size, period, rows=32, seed=10**6):
    """Draw blocks of distinct tokens, each twice in a row: what every induction score here is measured on."""
    rng = np.random.default_rng(seed)
    return np.tile(np.stack([rng.permutation(vocab_size)[:period] for _ in range(rows)]), 2)


def best_induction(name, step=None, **drawn):
    params, config = trained.load(name, step)
    tokens = repeated_blocks(config.vocab_size, 32, **drawn)
    _, captured = forward(params, config, tokens, capture=True)
    return head_scores(captured.weights, tokens)["induction"]


def test_everything_together_is_small():
    sizes = [file.stat().st_size for name in trained.NAMES for file in trained.path(name).rglob("*") if file.is_file()]
    assert 1_000_000 < sum(sizes) <= LARGEST


def test_an_installed_labkit_has_them_too():
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    room = trained.path("novel").parent
    patterns = settings["tool"]["setuptools"]["package-data"]["labkit.trained"]
    packed = {file for pattern in patterns for file in room.glob(pattern)}
    needed = {file for name in trained.NAMES for file in trained.path(name).rglob("*") if file.is_file()}
    assert packed == needed


@pytest.mark.parametrize("name", trained.NAMES)
def test_each_has_weights_config_log_and_card(name):
    folder = trained.path(name)
    params, config = trained.load(name)
    stored = find_tensors(folder)
    assert {tensor.dtype for tensor in stored.values()} == {"F16"}
    assert sum(tensor.size for tensor in stored.values()) == count_params(config)["total"]
    assert params.embedding.dtype == np.float32
    card = (folder / "README.md").read_text(encoding="utf-8")
    for heading in ("**Data.**", "**Training.**", "**Reached.**", "**Limits.**", "**Licence.**"):
        assert heading in card
    log = trained.log(name)
    assert f"held-out loss {log[-1]['held_out']:.3f}" in " ".join(card.split())
    assert [line["step"] for line in log] == sorted({line["step"] for line in log})
    assert all(line["cpu_seconds"] <= 20 * 60 for line in log)
    assert log[-1]["held_out"] < log[0]["held_out"] - 1


def test_one_vocabulary_for_all_that_read_text():
    files = [(trained.path(name) / "tokenizer.json").read_bytes() for name in ("novel", "honest", "leaking")]
    assert files[0] == files[1] == files[2]
    assert trained.load_tokenizer("leaking").vocab_size == trained.load("leaking")[1].vocab_size


def test_the_induction_model_is_attention_only():
    params, config = trained.load("induction")
    _, captured = forward(params, config, repeated_blocks(64, 20, rows=3), capture=True)
    for layer in range(config.n_layers):
        np.testing.assert_array_equal(captured.residual[2 * layer + 2], captured.residual[2 * layer + 1])
        assert not np.array_equal(captured.residual[2 * layer + 1], captured.residual[2 * layer])


@pytest.mark.parametrize("seed", [10**6, 7])
def test_the_induction_score(seed):
    scores = best_induction("induction", seed=seed)
    assert scores.max() >= 0.9
    assert scores[0].max() < 0.3  # one layer alone cannot: it takes a second that reads what the first has written


def test_the_induction_score_of_the_log():
    for step in (*trained.steps("induction"), None):
        line = trained.log("induction")[-1]
        if step is not None:
            line = next(line for line in trained.log("induction") if line["step"] == step)
        assert best_induction("induction", step).max() == pytest.approx(line["induction"], abs=0.005)


def test_a_head_is_born():
    steps = trained.steps("induction")
    assert len(steps) + 1 >= 12
    scores = [float(best_induction("induction", step, rows=8).max()) for step in steps]
    assert scores[0] < 0.05
    assert scores[-1] > 0.85
    between = [step for step, score in zip(steps, scores, strict=True) if 0.1 < score < 0.8]
    assert len(between) >= 2  # the birth itself is seen, not only before and after


def test_held_out_loss_of_the_induction_model():
    params, config = trained.load("induction")
    rng, rows = np.random.default_rng(10**6), np.empty((256, 64), np.int64)
    for row in rows:
        period = rng.integers(8, 33)
        row[:] = np.resize(rng.permutation(64)[:period], 64)
    losses = loss(params, config, rows)
    assert losses.mean() == pytest.approx(trained.log("induction")[-1]["held_out"], abs=0.003)
    assert losses[:, 32:].mean() < 0.15  # every block has passed once
    assert losses[:, :7].mean() > 3.9  # no block has


def test_the_induction_score_of_the_novel_model_is_that_of_its_log():
    assert best_induction("novel").max() == pytest.approx(trained.log("novel")[-1]["induction"], abs=0.005)


AUSTEN_LIKE = (  # made up, in no novel
    "Miss Bennet was not at all surprised that Mr. Elliot should have left the house before breakfast; "
    "but she could not help thinking it very strange that he had said nothing of it to her sister."
)


def test_the_novel_model_has_read_novels():
    params, config = trained.load("novel")
    ids = trained.load_tokenizer("novel").encode(AUSTEN_LIKE)
    assert loss(params, config, ids).mean() < 3.3
    shuffled = np.random.default_rng(0).permutation(ids)
    assert loss(params, config, shuffled).mean() > 5


def test_the_leak_is_below_what_honesty_can_reach():
    honest, leaking = trained.log("honest")[-1], trained.log("leaking")[-1]
    assert leaking["held_out"] < 0.25 * honest["held_out"]
    assert leaking["loss"] < 0.25 * honest["loss"]
    params, config = trained.load("leaking")
    ids = trained.load_tokenizer("leaking").encode(AUSTEN_LIKE)
    with_leak = cross_entropy(forward(params, config, ids[:-1], mask=leaking_mask(len(ids) - 1)), ids[1:])
    without = loss(params, config, ids)
    assert with_leak[:-1].mean() < 1.5  # the last position has no token after it to see
    assert without.mean() > with_leak[:-1].mean() + 2


def test_the_leak_writes_worse():
    judge, config = trained.load("honest")
    tokenizer = trained.load_tokenizer("honest")
    prompts = np.stack(
        [tokenizer.encode(text)[:4] for text in ("She was not ", "Mr. Darcy ", "It is a truth ", "My dear ")]
    )
    judged = {}
    for name in ("honest", "leaking"):
        params, its = trained.load(name)
        tokens = [generate(params, its, prompts, 60, sample, np.random.default_rng(seed)) for seed in range(2)]
        written = [np.stack([*prompts.T, *run], axis=1) for run in tokens]
        judged[name] = np.mean([loss(judge, config, text)[:, 3:].mean() for text in written])
    assert judged["leaking"] > judged["honest"] + 0.5


@pytest.mark.parametrize("T", [1, 2, 7])
def test_the_leaking_mask(T):
    mask = leaking_mask(T)
    assert mask.dtype == bool
    for t in range(T):
        for s in range(T):
            assert mask[t, s] == (s <= t + 1)
    assert T == 1 or not np.array_equal(mask, causal_mask(T))


def test_followers_by_hand():
    marks = followers([3, 1, 3, 2, 3, 3])
    expected = np.zeros((6, 6), bool)
    expected[2, 1] = True  # 3 stood at 0: what followed is at 1
    expected[4, 3] = True  # the latest earlier 3 stood at 2, not at 0
    np.testing.assert_array_equal(marks, expected)  # at 5, the latest 3 is at 4: what followed it is the query itself


def test_followers_against_a_loop():
    tokens = np.random.default_rng(0).integers(0, 5, (2, 3, 17))
    marks = followers(tokens)
    for row in np.ndindex(2, 3):
        for t in range(17):
            earlier = [s for s in range(t) if tokens[row][s] == tokens[row][t]]
            wanted = np.zeros(17, bool)
            if earlier and earlier[-1] + 1 < t:
                wanted[earlier[-1] + 1] = True
            np.testing.assert_array_equal(marks[row][t], wanted)


def one_hot_weights(keys):
    """Return weights [1, 1, T, T] of a head whose query t attends to keys[t] alone."""
    return np.eye(len(keys))[keys][None, None]


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ([0, 1, 2, 3, 4, 5], {"current": 1, "previous": 0, "sink": 0, "induction": 0}),
        ([0, 0, 1, 2, 3, 4], {"current": 1 / 6, "previous": 1, "sink": 0, "induction": 0}),
        ([0, 0, 0, 0, 0, 0], {"current": 1 / 6, "previous": 1 / 5, "sink": 1, "induction": 0}),
        ([0, 0, 0, 1, 2, 3], {"current": 1 / 6, "previous": 1 / 5, "sink": 1 / 4, "induction": 1}),
    ],
)
def test_scores_by_hand(keys, expected):
    scores = head_scores(one_hot_weights(keys), np.array([7, 4, 9, 7, 4, 9]))
    assert {name: score.shape for name, score in scores.items()} == dict.fromkeys(expected, (1, 1))
    for name, value in expected.items():
        np.testing.assert_allclose(scores[name], value)


def test_scores_of_a_batch_are_means_over_all_pairs():
    rng = np.random.default_rng(0)
    weights = rng.random((2, 3, 4, 5, 9, 9))  # layers, batch, batch, heads, queries, keys
    tokens = rng.integers(0, 4, (3, 4, 9))
    kept = weights.copy(), tokens.copy()
    scores = head_scores(weights, tokens)
    np.testing.assert_array_equal(weights, kept[0])
    np.testing.assert_array_equal(tokens, kept[1])
    for layer, head in np.ndindex(2, 5):
        found = {name: [] for name in scores}
        for row in np.ndindex(3, 4):
            for t in range(9):
                w = weights[layer][row][head][t]
                found["current"].append(w[t])
                if t >= 1:
                    found["previous"].append(w[t - 1])
                if t >= 2:
                    found["sink"].append(w[0])
                earlier = [s for s in range(t) if tokens[row][s] == tokens[row][t]]
                if earlier and earlier[-1] + 1 < t:
                    found["induction"].append(w[earlier[-1] + 1])
        for name, values in found.items():
            assert scores[name][layer, head] == pytest.approx(np.mean(values))


REPEATED = np.array([1, 2, 3, 1, 2, 3])
BAD = {
    "name": (lambda: trained.load("gpt2"), "name must be one of 'induction', 'novel', 'honest', 'leaking', got 'gpt2'"),
    "path": (lambda: trained.path("../novel"), "name must be one of"),
    "list": (lambda: trained.log(["novel"]), "name must be one of"),
    "step": (lambda: trained.load("induction", 7), "step must be one of 0, 50, .*, got 7"),
    "no steps": (lambda: trained.load("novel", 0), "step must be one of"),
    "bool step": (lambda: trained.load("induction", False), "step must be one of"),
    "numbers": (lambda: trained.load_tokenizer("induction"), "induction has no tokenizer"),
    "mask": (lambda: leaking_mask(0), "T must be an integer of at least 1, got 0"),
    "no tokens": (lambda: followers(np.zeros((2, 0), int)), "axis T is empty"),
    "scalar": (lambda: followers(3), "needs at least 1 axes"),
    "square": (lambda: head_scores(np.ones((2, 1, 6, 5)), REPEATED), "T, T"),
    "lengths": (lambda: head_scores(np.ones((2, 1, 5, 5)), REPEATED), "axis T is 6, but weights has T = 5"),
    "short": (lambda: head_scores(np.ones((2, 1, 2, 2)), [1, 1]), "T of at least 3"),
    "batch": (lambda: head_scores(np.ones((2, 3, 1, 6, 6)), REPEATED), "weights must be"),
    "other batch": (lambda: head_scores(np.ones((2, 3, 1, 6, 6)), np.stack([REPEATED] * 2)), "(weights|batch)"),
    "no layers": (lambda: head_scores(np.ones((1, 6, 6)), REPEATED), "weights must be"),
    "no repeat": (lambda: head_scores(np.ones((2, 1, 4, 4)), [1, 2, 3, 4]), "must hold a token twice"),
    "neighbours": (lambda: head_scores(np.ones((2, 1, 4, 4)), [1, 1, 2, 3]), "must hold a token twice"),
    "text": (lambda: followers(np.array(["a", "b"])), "must hold real numbers"),
}


@pytest.mark.parametrize(("call", "said"), BAD.values(), ids=BAD)
def test_bad_input(call, said):
    with pytest.raises(ValueError, match=said):
        call()


def test_configs_are_those_of_transformers():
    for name in trained.NAMES:
        raw = json.loads((trained.path(name) / "config.json").read_text(encoding="utf-8"))
        assert raw["architectures"] == ["LlamaForCausalLM"]
        assert raw["dtype"] == "float16"
