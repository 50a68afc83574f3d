"""Checkpoints that transformers saved, read by labkit: the same config, the same logits, in every dtype and layout."""

import dataclasses
import importlib
import json

import numpy as np
import oracle_models
import pytest

from labkit.checkpoint import find_tensors, load, load_tokenizer
from labkit.model import forward, named_tensors
from labkit.tokenizer import ForeignTokenizer

pytestmark = pytest.mark.oracle

TOLERANCE = 1e-5
NAMES = [name for name in oracle_models.CASES if name != "gpt1-post-norm"]  # read by no loader


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a function from a case's name to the model that transformers saved and read back, and its directory."""
    torch = importlib.import_module("torch")

    def save(name, dtype="float32", **options):
        model = oracle_models.transformers_model(name).to(getattr(torch, dtype))
        folder = tmp_path_factory.mktemp(name)
        model.save_pretrained(folder, **options)
        again = type(model).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        return again.eval(), folder  # read anew, as a model cast to half precision and back has rounded frequencies

    return save


def logits(model, ids):
    import torch

    with torch.no_grad():
        return model(torch.from_numpy(ids)).logits.numpy()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", NAMES)
def test_saved_by_transformers(saved, agree, name, dtype):
    model, folder = saved(name, dtype)
    params, config = load(folder)
    assert config == oracle_models.labkit_config(name)
    stored = {tensor.dtype for tensor in find_tensors(folder).values()}
    assert stored == {{"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[dtype]}
    ids = oracle_models.token_ids(config)
    theirs = logits(model, ids)
    assert theirs.std() >= 1
    agree(f"{name}: logits of a saved checkpoint", forward(params, config, ids), theirs, TOLERANCE)


@pytest.mark.parametrize("name", ["gpt2", "llama", "llama-tied", "qwen3-qk-norm"])
def test_sharded(saved, agree, name):
    model, folder = saved(name, max_shard_size="8KB")
    assert len(list(folder.glob("*.safetensors"))) >= 3
    assert not (folder / "model.safetensors").exists()
    params, config = load(folder)
    ids = oracle_models.token_ids(config)
    agree(f"{name}: logits of a sharded checkpoint", forward(params, config, ids), logits(model, ids), TOLERANCE)


OLDER = [name for name in NAMES if name.startswith("llama-") and "rope_type" in str(oracle_models.CASES[name][1])]


@pytest.mark.parametrize("name", [name for name in OLDER if oracle_models.labkit_config(name).rope_scaling])
@pytest.mark.parametrize("key", ["type", "rope_type"])
def test_the_older_way_to_write_a_scaling(saved, name, key):
    _, folder = saved(name)
    raw = json.loads((folder / "config.json").read_text())
    rope = raw.pop("rope_parameters")
    raw["rope_theta"] = rope.pop("rope_theta")
    raw["rope_scaling"] = {key: rope.pop("rope_type")} | rope
    (folder / "config.json").write_text(json.dumps(raw))
    assert load(folder)[1] == oracle_models.labkit_config(name)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_tensor_would_be_seen(saved, name):
    model, folder = saved(name)
    params, config = load(folder)
    ids = oracle_models.token_ids(config)
    theirs = logits(model, ids)
    tensors = named_tensors(params)
    q, k = tensors["blocks.1.attention.w_q"], tensors["blocks.1.attention.w_k"]
    changed = dataclasses.replace(params.blocks[1].attention, w_q=q[::-1], w_k=k)
    blocks = (params.blocks[0], dataclasses.replace(params.blocks[1], attention=changed))
    moved = forward(dataclasses.replace(params, blocks=blocks), config, ids)
    assert np.abs(moved - theirs).max() > 100 * TOLERANCE * np.abs(theirs).max()


@pytest.mark.parametrize("name", NAMES)
def test_one_lost_tensor_is_named(saved, name):
    from safetensors.numpy import load_file, save_file

    _, folder = saved(name)
    stored = load_file(folder / "model.safetensors")
    for lost in sorted(stored)[:: max(1, len(stored) // 5)]:
        save_file({key: array for key, array in stored.items() if key != lost}, folder / "model.safetensors")
        with pytest.raises(ValueError, match=f"'{lost}' is missing"):
            load(folder)


def test_a_real_tokenizer_of_another_kind(tmp_path):
    tokenizers = importlib.import_module("tokenizers")
    vocabulary = {"[UNK]": 0, "emma": 1, "was": 2, "clever": 4, "[PAD]": 6}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["[PAD]"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    ours = load_tokenizer(tmp_path)
    assert isinstance(ours, ForeignTokenizer)
    np.testing.assert_array_equal(ours.encode("emma was rich"), [1, 2, 0])
    assert ours.decode([1, 4]) == "emma clever"
    np.testing.assert_array_equal(ours.known(), [True, True, True, False, True, False, True])
    for call, said in [
        (lambda: ours.decode([7]), r"token_ids must lie in 0 … 6 \(vocab_size = 7\), got 7"),
        (lambda: ours.decode([[1]]), "token_ids must be integers"),
        (lambda: ours.encode(3), "text must be a string"),
        (lambda: ours.encode("\ud800"), "half a surrogate pair"),
    ]:
        with pytest.raises(ValueError, match=said):
            call()
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Nothing"}}')
    with pytest.raises(ValueError, match="is no tokenizer"):
        load_tokenizer(tmp_path)
