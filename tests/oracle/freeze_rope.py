"""Freeze what transformers computes for RoPE into tests/golden/rope.npz: `python tests/oracle/freeze_rope.py`."""

import json
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parents[1] / "golden" / "rope.npz"

# name: d_head, base, scaling in transformers' names (None = without), scaling in labkit's, lengths to ask for
CASES = {
    "plain": (64, 10000.0, None, None, [None]),
    "plain-128": (128, 500000.0, None, None, [None]),
    "plain-6": (6, 100.0, None, None, [None]),
    "linear": (64, 10000.0, {"rope_type": "linear", "factor": 4.0}, {"kind": "linear", "factor": 4.0}, [None, 90000]),
    "dynamic": (
        64,
        10000.0,
        {"rope_type": "dynamic", "factor": 2.0},
        {"kind": "dynamic", "factor": 2.0, "original_max_len": 4096},
        [None, 1, 4095, 4096, 4097, 6000, 8192, 100000],
    ),
    "dynamic-fraction": (
        16,
        1000.0,
        {"rope_type": "dynamic", "factor": 1.5},
        {"kind": "dynamic", "factor": 1.5, "original_max_len": 100},
        [None, 100, 101, 250],
    ),
    "llama-3.1": (
        128,
        500000.0,
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        {"kind": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_len": 8192},
        [None, 100000],
    ),
    "llama-3.2-1b": (
        64,
        500000.0,
        {
            "rope_type": "llama3",
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        {"kind": "llama3", "factor": 32.0, "original_max_len": 8192},
        [None],
    ),
    "llama3-other-bounds": (
        32,
        2000.0,
        {
            "rope_type": "llama3",
            "factor": 5.0,
            "low_freq_factor": 1.5,
            "high_freq_factor": 12.0,
            "original_max_position_embeddings": 500,
        },
        {"kind": "llama3", "factor": 5.0, "low_freq_factor": 1.5, "high_freq_factor": 12.0, "original_max_len": 500},
        [None],
    ),
    "yarn-qwen2.5": (
        128,
        1000000.0,
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
        {"kind": "yarn", "factor": 4.0, "original_max_len": 32768},
        [None, 100000],
    ),
    "yarn-gpt-oss": (
        64,
        150000.0,
        {
            "rope_type": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_position_embeddings": 4096,
        },
        {
            "kind": "yarn",
            "factor": 32.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "truncate": False,
            "original_max_len": 4096,
        },
        [None],
    ),
    "yarn-deepseek": (
        64,
        10000.0,
        {
            "rope_type": "yarn",
            "factor": 40.0,
            "mscale": 0.707,
            "mscale_all_dim": 1.0,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "original_max_position_embeddings": 4096,
        },
        {"kind": "yarn", "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.0, "original_max_len": 4096},
        [None],
    ),
    "yarn-given-factor": (
        32,
        10000.0,
        {
            "rope_type": "yarn",
            "factor": 8.0,
            "attention_factor": 1.5,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "original_max_position_embeddings": 2048,
        },
        {
            "kind": "yarn",
            "factor": 8.0,
            "attention_factor": 1.5,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "original_max_len": 2048,
        },
        [None],
    ),
    "yarn-no-ramp": (  # both ends of the ramp fall on pair 0
        16,
        10000.0,
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 6},
        {"kind": "yarn", "factor": 4.0, "original_max_len": 6},
        [None],
    ),
}


def theirs(d_head, base, scaling, ours, length=None):
    """Return the frequencies and the attention factor that transformers computes."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    trained = (ours or {}).get("original_max_len", 2048)
    factor = (ours or {}).get("factor", 1)
    max_len = trained if scaling is None or scaling["rope_type"] == "dynamic" else int(trained * factor)
    parameters = {"rope_theta": base} | (scaling or {"rope_type": "default"})
    config = LlamaConfig(
        hidden_size=4 * d_head,
        num_attention_heads=4,
        head_dim=d_head,
        max_position_embeddings=max_len,
        rope_parameters=parameters,
    )
    if scaling is None:
        freqs, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(config)
    else:
        freqs, factor = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, device="cpu", seq_len=length)
    return freqs.numpy(), float(factor)


def rotations():
    """Return queries, positions, frequencies, and the queries as transformers turns them, in either pairing."""
    import torch
    from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb as interleaved
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as half

    x = np.random.default_rng(7).normal(size=(2, 3, 5, 8))
    positions = np.array([[0, 1, 2, 3, 4], [3, 17, 4, 300, 90]])
    freqs = 200.0 ** (-np.arange(0, 8, 2) / 8)
    angles = torch.from_numpy(positions[..., None] * freqs)
    angles_half, angles_interleaved = torch.cat([angles, angles], -1), angles.repeat_interleave(2, -1)
    q = torch.from_numpy(x)
    with torch.no_grad():
        turned_half, _ = half(q, q, angles_half.cos(), angles_half.sin())
        turned_interleaved, _ = interleaved(q, q, angles_interleaved.cos(), angles_interleaved.sin())
    arrays = {"x": x, "positions": positions, "freqs": freqs}
    return arrays | {"half": turned_half.numpy(), "interleaved": turned_interleaved.numpy()}


def freeze(path=GOLDEN):
    """Write the frozen arrays, with labkit's description of each case beside what transformers computed."""
    arrays = {f"rotate/{name}": array for name, array in rotations().items()}
    cases = []
    for name, (d_head, base, scaling, ours, lengths) in CASES.items():
        for length in lengths:
            key = f"frequencies/{name}/{length}"
            arrays[key], factor = theirs(d_head, base, scaling, ours, length)
            case = {"key": key, "d_head": d_head, "base": base, "scaling": ours, "length": length}
            cases.append(case | {"attention_factor": factor})
    np.savez_compressed(path, cases=json.dumps(cases), **arrays)


if __name__ == "__main__":
    freeze()
