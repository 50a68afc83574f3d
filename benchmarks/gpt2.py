"""GPT-2 small's shape with random weights, the same weights for each contestant."""

import dataclasses
import warnings

import numpy as np

from labkit.accounting import GPT2_SMALL
from labkit.model import init_params, named_tensors


def config_and_params(smoke):
    tiny = {"d_model": 24, "n_heads": 3, "n_kv_heads": 3, "d_head": 8, "d_ff": 48, "n_layers": 2, "vocab_size": 97}
    config = dataclasses.replace(GPT2_SMALL, **tiny) if smoke else GPT2_SMALL
    return config, init_params(config, seed=0)


def token_ids(config, T):
    return np.random.default_rng(T).integers(0, config.vocab_size, size=(1, T))


def transformers_model(config, params):
    """Return transformers' GPT-2 with labkit's weights, on PyTorch's fused attention (SDPA)."""
    import torch
    import transformers

    from benchmarks import THREADS

    torch.set_num_threads(THREADS)
    transformers.logging.set_verbosity_error()
    settings = transformers.GPT2Config(
        vocab_size=config.vocab_size,
        n_positions=config.max_len,
        n_embd=config.d_model,
        n_layer=config.n_layers,
        n_head=config.n_heads,
        n_inner=config.d_ff,
        layer_norm_epsilon=config.eps,
        bos_token_id=None,
        eos_token_id=None,
        attn_implementation="sdpa",
    )
    model = transformers.GPT2LMHeadModel(settings).eval()
    state = {name: torch.from_numpy(array) for name, array in _their_names(named_tensors(params), config).items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"lm_head.weight"}:  # tied: the embedding is the head
        raise ValueError(f"transformers' GPT-2 misses {missing} and does not know {unexpected}")
    model.tie_weights()
    return model


def _their_names(tensors, config):
    """Rename labkit's tensors as transformers names them; it keeps the projections to q, k and v in one matrix."""
    theirs = {"wte.weight": tensors["embedding"], "wpe.weight": tensors["positions"]}
    theirs |= {f"ln_f.{kind}": tensors[f"final_norm.{kind}"] for kind in ("weight", "bias")}
    for layer in range(config.n_layers):
        ours = {name.partition(f"blocks.{layer}.")[2]: array for name, array in tensors.items()}
        for kind, letter in (("weight", "w"), ("bias", "b")):
            parts = {
                "ln_1": ours[f"attention_norm.{kind}"],
                "ln_2": ours[f"ffn_norm.{kind}"],
                "attn.c_attn": np.concatenate([ours[f"attention.{letter}_{which}"] for which in "qkv"], axis=-1),
                "attn.c_proj": ours[f"attention.{letter}_o"],
                "mlp.c_fc": ours[f"ffn.{letter}_up"],
                "mlp.c_proj": ours[f"ffn.{letter}_down"],
            }
            theirs |= {f"h.{layer}.{part}.{kind}": array for part, array in parts.items()}
    return {f"transformer.{name}": array for name, array in theirs.items()}


def quiet():
    """Return a context in which torch computes no gradients and transformers' notices stay unseen."""
    import torch

    warnings.filterwarnings("ignore", module="transformers")
    return torch.inference_mode()
