"""Whole models against transformers: full, cached, in chunks; and proof that the comparison can fail."""

import dataclasses
import importlib
import inspect

import numpy as np
import oracle_models
import pytest

from labkit.model import assemble, forward, generate, loss, named_tensors, new_cache

pytestmark = pytest.mark.oracle

TOLERANCE = 1e-5
NAMES = list(oracle_models.CASES)
CACHED = [name for name in NAMES if name != "gpt1-post-norm"]  # transformers' GPT-1 has no cache
CHUNKS = (9, 1, 1, 5, 7)


@pytest.fixture(scope="module")
def built():
    """Return a function from a case's name to its transformers model, labkit's config and params, and token ids."""
    importlib.import_module("torch")
    importlib.import_module("transformers")
    memory = {}

    def build(name):
        if name not in memory:
            model, config = oracle_models.transformers_model(name), oracle_models.labkit_config(name)
            ids = oracle_models.token_ids(config)
            memory[name] = model, config, oracle_models.labkit_params(model, config), ids
        return memory[name]

    return build


def run(model, ids, **options):
    import torch

    with torch.no_grad():
        return model(torch.from_numpy(ids), **options)


def distance(ours, theirs):
    return np.abs(ours - theirs).max() / np.abs(theirs).max()


@pytest.mark.parametrize("name", NAMES)
def test_logits(built, agree, name):
    model, config, params, ids = built(name)
    theirs = run(model, ids).logits.numpy()
    assert theirs.std() >= 1
    agree(f"{name}: logits", forward(params, config, ids), theirs, TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_matters(built, name):
    model, config, params, ids = built(name)
    theirs = run(model, ids).logits.numpy()
    tensors = named_tensors(params)
    rng = np.random.default_rng(5)
    for tensor_name, tensor in tensors.items():
        changed = tensor + rng.normal(0, 0.01, tensor.shape).astype(np.float32)
        moved = distance(forward(assemble(config, tensors | {tensor_name: changed}), config, ids), theirs)
        if tensor_name.endswith("b_k") and config.positions != "rope":
            # Without a rotation a bias of the keys adds the same q·b to every score of a row: softmax cancels it.
            assert moved <= TOLERANCE, tensor_name
        else:
            assert moved > 3 * TOLERANCE, tensor_name


@pytest.mark.parametrize("name", NAMES)
def test_the_mask_matters(built, name):
    model, config, params, ids = built(name)
    theirs = run(model, ids).logits.numpy()
    everything = np.ones((ids.shape[1], ids.shape[1]), dtype=bool)
    assert distance(forward(params, config, ids, mask=everything), theirs) > 100 * TOLERANCE


WRONG = [
    ("gpt2", {"gelu": "none"}),
    ("gpt2-exact-gelu", {"gelu": "tanh"}),
    ("gpt2", {"eps": 1e-5}),
    ("llama", {"eps": 1e-5}),
    ("llama", {"base": 501.0}),
    ("llama", {"rope_pairing": "interleaved"}),
    ("llama", {"positions": "none"}),
    ("llama-linear", {"rope_scaling": None}),
    ("llama-dynamic", {"rope_scaling": None}),
    ("llama-yarn", {"rope_scaling": None}),
    ("llama-yarn", {"rope_scaling": {"kind": "yarn", "factor": 4.0, "original_max_len": 128}}),
    (
        "llama-yarn",
        {
            "rope_scaling": {
                "kind": "yarn",
                "factor": 4.0,
                "original_max_len": 128,
                "beta_fast": 8.0,
                "attention_factor": 1.0,
            }
        },
    ),
    ("llama-llama3", {"rope_scaling": None}),
    ("llama-llama3", {"rope_scaling": {"kind": "linear", "factor": 8.0}}),
    ("mistral-window", {"window": None}),
    ("mistral-window", {"window": 6}),
]


@pytest.mark.parametrize(("name", "change"), WRONG, ids=[f"{name}-{next(iter(change))}" for name, change in WRONG])
def test_every_choice_matters(built, name, change):
    model, config, params, ids = built(name)
    theirs = run(model, ids).logits.numpy()
    assert distance(forward(params, dataclasses.replace(config, **change), ids), theirs) > 3 * TOLERANCE


@pytest.mark.parametrize("name", CACHED)
def test_cached_in_chunks(built, agree, name):
    import transformers

    model, config, params, ids = built(name)
    # transformers renames the argument in the course of version 5
    argument = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    theirs_cache = {argument: transformers.DynamicCache(config=model.config), "use_cache": True}
    ours_cache = new_cache(params, config, batch=len(ids), max_len=ids.shape[1])
    start, ours, theirs = 0, [], []
    for size in CHUNKS:
        chunk = ids[:, start : start + size]
        theirs.append(run(model, chunk, **theirs_cache).logits.numpy())
        ours.append(forward(params, config, chunk, ours_cache))
        start += size
    assert start == ids.shape[1]
    ours, theirs = np.concatenate(ours, axis=1), np.concatenate(theirs, axis=1)
    agree(f"{name}: logits, cached, chunks of {', '.join(map(str, CHUNKS))}", ours, theirs, TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_residual_stream_and_attention_weights(built, agree, name):
    model, config, params, ids = built(name)
    output = run(model, ids, output_hidden_states=True, output_attentions=True)
    _, capture = forward(params, config, ids, capture=True)
    last = None if config.norm_place == "post" else -1  # transformers' last one is normalised already
    streams = np.stack([state.numpy() for state in output.hidden_states])[:last]
    agree(f"{name}: residual stream between blocks", capture.residual[::2][:last], streams, TOLERANCE)
    theirs = np.stack([weights.numpy() for weights in output.attentions])
    agree(f"{name}: attention weights", capture.weights, theirs, TOLERANCE)


@pytest.mark.parametrize("name", ["gpt2", "gpt2-exact-gelu", "gpt1-post-norm"])
def test_logits_in_float64(agree, name):
    """In double precision next to nothing is left; only without RoPE, whose angles transformers makes in float32."""
    importlib.import_module("transformers")
    model, config = oracle_models.transformers_model(name).double(), oracle_models.labkit_config(name)
    ids = oracle_models.token_ids(config)
    ours = forward(oracle_models.labkit_params(model, config), config, ids)
    agree(f"{name}: logits", ours, run(model, ids).logits.numpy(), 1e-13)


# The losses of transformers come from a pass over all T tokens, those of labkit from T − 1: the same rows, except that
# dynamic scaling makes every row depend on the length of the pass.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "llama-dynamic"])
def test_loss(built, agree, name):
    import torch

    model, config, params, ids = built(name)
    theirs = run(model, ids, labels=torch.from_numpy(ids)).loss.numpy()
    agree(f"{name}: loss", loss(params, config, ids).mean(), theirs, TOLERANCE)


@pytest.mark.parametrize("name", CACHED)
def test_greedy_generation(built, name):
    import torch

    model, config, params, ids = built(name)
    prompt = ids[:1, :6]
    theirs = model.generate(
        torch.from_numpy(prompt),
        attention_mask=torch.ones(1, 6, dtype=torch.long),
        max_new_tokens=17,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=None,
        bos_token_id=None,
    )
    assert list(generate(params, config, prompt[0], 17)) == theirs[0, 6:].tolist()


def test_left_padding(built, agree):
    """A padded row gives, at its real tokens, what it gives alone."""
    import torch

    from labkit.mask import causal_mask, combine, padding_mask, padding_positions

    for name in ("llama", "gpt2"):
        model, config, params, ids = built(name)
        lengths = np.array([23, 14])
        real = padding_mask(lengths, 23, side="left")
        positions = padding_positions(lengths, 23, side="left")
        ids = np.where(real, ids, 0)
        theirs = run(
            model, ids, attention_mask=torch.from_numpy(real.astype(int)), position_ids=torch.from_numpy(positions)
        )
        mask = combine(causal_mask(23), real[:, None, None, :])
        ours = forward(params, config, ids, mask=mask, positions=positions)
        agree(f"{name}: logits, left-padded", ours[real], theirs.logits.numpy()[real], TOLERANCE)
