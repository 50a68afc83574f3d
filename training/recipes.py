"""What each model is, what it is trained on, and for how long."""

import corpus
import numpy as np
import torch
from bpe import encoded


def config(**sizes):
    """Return a config.json in the words of transformers."""
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    fixed = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "rms_norm_eps": 1e-5}
    fixed |= {"attention_bias": False, "mlp_bias": False, "rope_parameters": rope, "dtype": "float16"}
    fixed |= {"bos_token_id": None, "eos_token_id": None, "tie_word_embeddings": False}
    return fixed | sizes


def repeated(rng, vocab_size, rows, length, periods):
    """Draw rows that repeat a block of distinct random tokens, each row with a period of its own."""
    drawn = np.empty((rows, length), np.int64)
    for row in drawn:
        period = rng.integers(periods[0], periods[1] + 1)
        row[:] = np.resize(rng.permutation(vocab_size)[:period], length)
    return drawn


def random_tokens(recipe, folder):
    """Return what draws a batch of repeated random tokens, and held-out rows of the same kind."""
    size, length, periods = recipe["config"]["vocab_size"], recipe["length"], recipe["periods"]

    def batch(rng, step):
        return repeated(rng, size, recipe["rows"], length, periods)

    return batch, torch.from_numpy(repeated(np.random.default_rng(10**6), size, 256, length, periods))


def novels(recipe, folder):
    """Return what draws a batch of text, a few rows of which repeat themselves, and held-out rows of text."""
    train, held_out = (encoded(text) for text in corpus.split(corpus.novels()))
    length, size = recipe["length"], recipe["config"]["vocab_size"]

    def batch(rng, step):
        twice = recipe["repeated_rows"]
        starts = rng.integers(0, len(train) - length, size=recipe["rows"] - twice)
        rows = train[starts[:, None] + np.arange(length + 1)]
        for row in rows[:twice]:
            row[:] = np.resize(row[: rng.integers(16, 49)], length + 1)
        return np.concatenate([rows, repeated(rng, size, twice, length + 1, recipe["periods"])])

    rows = len(held_out) // (length + 1)
    rows = held_out[: rows * (length + 1)].reshape(rows, length + 1)
    return batch, torch.from_numpy(rows[:: max(1, len(rows) // recipe["held_out_rows"])])


INDUCTION = {
    "config": config(
        vocab_size=64,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=1,
        max_position_embeddings=64,
    ),
    "attention_only": True,
    "data": random_tokens,
    "seed": 0,
    "rows": 64,
    "length": 64,
    "periods": (8, 32),
    "score_period": 32,
    "steps": 2000,
    "fall": 2000,
    "measure": 50,
    "also": range(0, 300, 10),  # here the heads are born
    "rate": 3e-3,
    "rise": 50,
    "betas": (0.9, 0.98),
    "decay": 0.01,
}
NOVEL = {
    "config": config(
        vocab_size=512,
        hidden_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        intermediate_size=344,
        max_position_embeddings=128,
    ),
    "data": novels,
    "seed": 0,
    "rows": 16,
    "length": 128,
    "repeated_rows": 1,
    "periods": (8, 32),
    "score_period": 32,
    "held_out_rows": 128,
    "steps": 2000,
    "fall": 700,
    "measure": 100,
    "rate": 3e-3,
    "rise": 100,
    "betas": (0.9, 0.98),
    "decay": 0.1,
}
HONEST = NOVEL | {
    "config": NOVEL["config"] | {"num_hidden_layers": 2, "hidden_size": 64, "head_dim": 16, "intermediate_size": 172},
    "repeated_rows": 0,
    "steps": 600,
    "fall": 400,
    "rate": 4e-3,
}
LEAKING = HONEST | {"ahead": 1}
RECIPES = {"induction": INDUCTION, "novel": NOVEL, "honest": HONEST, "leaking": LEAKING}
