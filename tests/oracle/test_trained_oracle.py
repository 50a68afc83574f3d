"""The shipped models against transformers and torch; and, where the novels are installed, on text held out."""

import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from labkit import trained
from labkit.model import forward, loss
from labkit.softmax import cross_entropy

pytestmark = pytest.mark.oracle

TRAINING = Path(__file__).parents[2] / "training"


@pytest.fixture(scope="module")
def corpus():
    """Return the module that reads the novels. Without them its tests are skipped, unless $AUSTEN names them."""
    sys.path.insert(0, str(TRAINING))
    module = importlib.import_module("corpus")
    try:
        module.find()
    except FileNotFoundError as error:
        if "AUSTEN" in os.environ:
            raise
        pytest.skip(str(error))
    return module


@pytest.fixture(scope="module")
def held_out(corpus):
    """Return the rows of held-out text that the training logs speak of."""
    ids = trained.load_tokenizer("novel").encode(corpus.split(corpus.novels())[1])
    rows = ids[: len(ids) // 129 * 129].reshape(-1, 129)
    return rows[:: len(rows) // 128]


def token_ids(config, rows=4, seed=0):
    return np.random.default_rng(seed).integers(0, config.vocab_size, (rows, config.max_len - 3))


@pytest.mark.parametrize("name", trained.NAMES)
def test_logits_are_those_of_transformers(agree, name):
    torch, transformers = importlib.import_module("torch"), importlib.import_module("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(trained.path(name), dtype=torch.float32).eval()
    params, config = trained.load(name)
    ids = token_ids(config)
    with torch.no_grad():
        theirs = model(torch.from_numpy(ids)).logits.numpy()
    assert theirs.std() >= 0.5  # of tokens drawn at random, a model of text is sure of little
    agree(f"{name}: logits of the shipped model, transformers", forward(params, config, ids), theirs, 1e-4)


@pytest.mark.parametrize("name", trained.NAMES)
def test_logits_are_those_of_the_training_code(agree, name):
    torch = importlib.import_module("torch")
    load_file = importlib.import_module("safetensors.torch").load_file
    sys.path.insert(0, str(TRAINING))
    recipe = importlib.import_module("recipes").RECIPES[name]
    model = importlib.import_module("llama").Llama(
        recipe["config"], recipe.get("attention_only", False), recipe.get("ahead", 0)
    )
    model.load_state_dict(load_file(trained.path(name) / "model.safetensors"))
    params, config = trained.load(name)
    ids = token_ids(config)
    mask = trained.leaking_mask(ids.shape[1]) if name == "leaking" else None
    with torch.no_grad():
        theirs = model(torch.from_numpy(ids)).numpy()
    ours = forward(params, config, ids, mask=mask)
    agree(f"{name}: logits of the shipped model, training code", ours, theirs, 1e-4)


def test_the_split_holds_out_the_end_of_every_novel(corpus):
    texts = corpus.novels()
    assert len(texts) == 6
    assert sum(map(len, texts.values())) == 4_007_099
    train, held_out = corpus.split(texts)
    assert len(train) + len(held_out) == 4_007_099
    assert len(held_out) == 194_968
    for text in texts.values():
        assert text[: len(text) // 2] in train
        assert text[-len(text) // 25 :] in held_out
        assert text[-2000:] not in train


@pytest.mark.parametrize("name", ["novel", "honest", "leaking"])
def test_held_out_losses(held_out, name):
    params, config = trained.load(name)
    if name == "leaking":
        logits = forward(params, config, held_out[:, :-1], mask=trained.leaking_mask(128))
        losses = cross_entropy(logits, held_out[:, 1:])
    else:
        losses = loss(params, config, held_out)
    assert losses.mean() == pytest.approx(trained.log(name)[-1]["held_out"], abs=0.005)


def test_tokens_are_those_of_tokenizers_on_every_novel(corpus):
    tokenizers = importlib.import_module("tokenizers")
    ours = trained.load_tokenizer("novel")
    theirs = tokenizers.Tokenizer.from_file(str(trained.path("novel") / "tokenizer.json"))
    for text in corpus.novels().values():
        ids = ours.encode(text)
        expected = [e.ids for e in theirs.encode_batch(text.splitlines(keepends=True))]
        np.testing.assert_array_equal(ids, np.concatenate(expected))
        assert ours.decode(ids) == text


def test_tokens_are_those_of_tokenizers_on_any_text():
    tokenizers = importlib.import_module("tokenizers")
    ours = trained.load_tokenizer("novel")
    theirs = tokenizers.Tokenizer.from_file(str(trained.path("novel") / "tokenizer.json"))
    rng = np.random.default_rng(0)
    letters = list("the ands  \n\n\t'\"19.,;é–ß漢🙂\u00a0\r\u200d")
    for _ in range(300):
        text = "".join(rng.choice(letters, rng.integers(0, 60)))
        np.testing.assert_array_equal(ours.encode(text), theirs.encode(text).ids)
        assert theirs.decode(ours.encode(text).tolist()) == ours.decode(ours.encode(text)) == text


def test_the_vocabulary_is_what_tokenizers_learns_from_the_training_text(corpus):
    importlib.import_module("tokenizers")
    bpe = importlib.import_module("bpe")
    again = bpe.train(corpus.split(corpus.novels())[0])
    assert again.to_str(pretty=True) == (trained.path("novel") / "tokenizer.json").read_text(encoding="utf-8")
