"""The models that labkit is held against: how transformers and labkit each describe them, and random weights.

Nothing here imports torch or transformers before a function is called. The two descriptions of each case are written
out separately, so that a wrong reading of one cannot hide in the other.
"""

import dataclasses

import numpy as np

from labkit.model import ModelConfig, assemble

GRID = 64  # weights are whole multiples of 1/64 in [−2, 2): exact in every float, one byte each in a golden file

_GPT2 = {"vocab_size": 37, "n_embd": 20, "n_layer": 2, "n_head": 4, "n_inner": 44, "n_positions": 41}
_GPT2 |= {"layer_norm_epsilon": 1e-3, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
_GPT2 |= {"bos_token_id": None, "eos_token_id": None}
_OURS = {"vocab_size": 37, "d_model": 20, "n_layers": 2, "n_heads": 4, "d_ff": 44, "max_len": 41, "eps": 1e-3}
_OURS_GPT2 = _OURS | {"norm": "layer", "ffn": "gelu", "positions": "learned", "tied": True}
_OURS_GPT2 |= {"attention_bias": True, "output_bias": True, "ffn_bias": True}
_OPENAI = {"vocab_size": 37, "n_embd": 20, "n_layer": 2, "n_head": 4, "n_positions": 41, "layer_norm_epsilon": 1e-3}
_OPENAI |= {"afn": "gelu", "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}

_LLAMA = {"vocab_size": 37, "hidden_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 6}
_LLAMA |= {"num_key_value_heads": 2, "intermediate_size": 44, "max_position_embeddings": 41, "rms_norm_eps": 1e-3}
_LLAMA |= {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}, "tie_word_embeddings": False}
_OURS_LLAMA = _OURS | {"n_kv_heads": 2, "d_head": 6, "base": 500.0}


def _scaled(theirs, ours, max_len=41):
    """Return both descriptions of a Llama with 8 pairs a head and a scaling."""
    rope = {"rope_parameters": {"rope_theta": 500.0} | theirs, "max_position_embeddings": max_len, "head_dim": 16}
    return "LlamaForCausalLM", _LLAMA | rope, _OURS_LLAMA | {"d_head": 16, "rope_scaling": ours, "max_len": max_len}


# name: (class in transformers, its config, labkit's config)
CASES = {
    "gpt2": ("GPT2LMHeadModel", _GPT2 | {"activation_function": "gelu_new"}, _OURS_GPT2 | {"gelu": "tanh"}),
    "gpt2-exact-gelu": ("GPT2LMHeadModel", _GPT2 | {"activation_function": "gelu"}, _OURS_GPT2 | {"gelu": "none"}),
    "gpt2-untied": ("GPT2LMHeadModel", _GPT2 | {"tie_word_embeddings": False}, _OURS_GPT2 | {"tied": False}),
    "gpt1-post-norm": ("OpenAIGPTLMHeadModel", _OPENAI, _OURS_GPT2 | {"norm_place": "post", "d_ff": 80}),
    "llama": ("LlamaForCausalLM", _LLAMA, _OURS_LLAMA),
    "llama-tied": ("LlamaForCausalLM", _LLAMA | {"tie_word_embeddings": True}, _OURS_LLAMA | {"tied": True}),
    "llama-mha": (
        "LlamaForCausalLM",
        _LLAMA | {"num_key_value_heads": 4},
        _OURS_LLAMA | {"n_kv_heads": 4},
    ),
    "llama-mqa-biases": (
        "LlamaForCausalLM",
        _LLAMA | {"num_key_value_heads": 1, "attention_bias": True},
        _OURS_LLAMA | {"n_kv_heads": 1, "attention_bias": True, "output_bias": True},
    ),
    "llama-linear": _scaled({"rope_type": "linear", "factor": 3.0}, {"kind": "linear", "factor": 3.0}),
    "llama-dynamic": _scaled(
        {"rope_type": "dynamic", "factor": 2.0},
        {"kind": "dynamic", "factor": 2.0, "original_max_len": 11},
        max_len=11,
    ),
    "llama-yarn": _scaled(
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "beta_fast": 8.0},
        {"kind": "yarn", "factor": 4.0, "original_max_len": 128, "beta_fast": 8.0},
        max_len=512,
    ),
    "llama-llama3": _scaled(
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        {"kind": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_len": 64},
        max_len=512,
    ),
    "mistral-window": ("MistralForCausalLM", _LLAMA | {"sliding_window": 5}, _OURS_LLAMA | {"window": 5}),
    "qwen2-qkv-bias": (
        "Qwen2ForCausalLM",
        {name: value for name, value in _LLAMA.items() if name != "head_dim"} | {"hidden_size": 24},
        _OURS_LLAMA | {"d_model": 24, "attention_bias": True},
    ),
    "qwen3-qk-norm": ("Qwen3ForCausalLM", _LLAMA, _OURS_LLAMA | {"qk_norm": True}),
}


def labkit_config(name):
    return ModelConfig(**CASES[name][2])


def transformers_model(name, seed=0):
    """Return a transformers model of a case, with every one of its tensors drawn at random."""
    import torch
    import transformers

    kind, settings, _ = CASES[name]
    kind = getattr(transformers, kind)
    config = kind.config_class(**settings)
    config._attn_implementation = "eager"
    model = kind(config).eval()
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for tensor_name, tensor in model.named_parameters():
            tensor.copy_(torch.from_numpy(drawn(tensor_name, tuple(tensor.shape), rng)))
    return model


def drawn(name, shape, rng):
    """Draw one tensor away from its default: no norm weight of 1, no bias of 0, and logits of std above 1."""
    if len(shape) == 1:
        mean, std = (0, 0.2) if name.endswith("bias") else (1, 0.25)
    else:
        mean, std = 0, 0.4 if "emb" in name or "wte" in name or "wpe" in name or "head" in name else 0.2
    steps = np.clip(np.round(rng.normal(mean, std, shape) * GRID), -128, 127)
    return (steps / GRID).astype(np.float32)


def labkit_params(model, config):
    """Return labkit's parameters with the weights of a transformers model."""
    state = {name: tensor.detach().numpy() for name, tensor in model.state_dict().items()}
    tensors = from_gpt2(state) if config.norm == "layer" else from_llama(state)
    if config.tied:
        np.testing.assert_array_equal(tensors.pop("head"), tensors["embedding"])
    return assemble(config, tensors)


def from_gpt2(state):
    """Rename GPT-2's (and GPT-1's) tensors; their matrices are stored [d_in, d_out] already, with Q, K, V in one."""
    tensors = {}
    whole = {
        "wte.weight": "embedding",
        "tokens_embed.weight": "embedding",
        "wpe.weight": "positions",
        "positions_embed.weight": "positions",
        "ln_f.weight": "final_norm.weight",
        "ln_f.bias": "final_norm.bias",
        "lm_head.weight": "head",
    }
    parts = {
        "ln_1.weight": "attention_norm.weight",
        "ln_1.bias": "attention_norm.bias",
        "attn.c_proj.weight": "attention.w_o",
        "attn.c_proj.bias": "attention.b_o",
        "ln_2.weight": "ffn_norm.weight",
        "ln_2.bias": "ffn_norm.bias",
        "mlp.c_fc.weight": "ffn.w_up",
        "mlp.c_fc.bias": "ffn.b_up",
        "mlp.c_proj.weight": "ffn.w_down",
        "mlp.c_proj.bias": "ffn.b_down",
    }
    for name, array in state.items():
        name = name.removeprefix("transformer.")
        if name in whole:
            tensors[whole[name]] = array
            continue
        _, layer, part = name.split(".", 2)
        if part.startswith("attn.c_attn."):
            letter = "w" if part.endswith("weight") else "b"
            for which, piece in zip("qkv", np.split(array, 3, axis=-1), strict=True):
                tensors[f"blocks.{layer}.attention.{letter}_{which}"] = piece
        else:
            tensors[f"blocks.{layer}.{parts[part]}"] = array
    return tensors


def from_llama(state):
    """Rename the tensors of a Llama, Mistral or Qwen; their matrices are stored [d_out, d_in]."""
    tensors = {}
    whole = {
        "model.embed_tokens.weight": "embedding",
        "model.norm.weight": "final_norm.weight",
        "lm_head.weight": "head",
    }
    parts = {
        "input_layernorm.weight": "attention_norm.weight",
        "post_attention_layernorm.weight": "ffn_norm.weight",
        "self_attn.q_norm.weight": "attention.q_norm",
        "self_attn.k_norm.weight": "attention.k_norm",
    }
    for which in "qkvo":
        parts[f"self_attn.{which}_proj.weight"] = f"attention.w_{which}"
        parts[f"self_attn.{which}_proj.bias"] = f"attention.b_{which}"
    for which in ("gate", "up", "down"):
        parts[f"mlp.{which}_proj.weight"] = f"ffn.w_{which}"
    for name, array in state.items():
        if name in whole:
            tensors[whole[name]] = array
            continue
        _, _, layer, part = name.split(".", 3)
        tensors[f"blocks.{layer}.{parts[part]}"] = array.T if array.ndim == 2 else array
    return tensors


def token_ids(config, batch=2, T=23, seed=1):
    """Draw a batch of sequences, none of which is the other's copy."""
    return np.random.default_rng(seed).integers(0, config.vocab_size, size=(batch, T))


def settings(config):
    """Return a config as plain numbers and strings, for a golden file."""
    return dataclasses.asdict(config)
