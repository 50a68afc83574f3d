"""GPT-2 as a textbook writes it down: plain NumPy, one sequence, one head after the other, and no cache.

It stands for the first version that anyone writes. Nothing in it is slow on purpose.
"""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x * x * x)))


def layer_norm(x, weight, bias, eps):
    mean, variance = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return weight * (x - mean) / np.sqrt(variance + eps) + bias


def attention(q, k, v, mask):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    return softmax(np.where(mask, scores, -np.inf)) @ v


def heads(x, w, n_heads):
    q, k, v = (x @ w[f"attention.w_{which}"] + w[f"attention.b_{which}"] for which in "qkv")
    mask = np.tril(np.ones((len(x), len(x)), dtype=bool))
    q, k, v = (np.split(each, n_heads, axis=-1) for each in (q, k, v))
    return np.concatenate([attention(*each, mask) for each in zip(q, k, v, strict=True)], axis=-1)


def block(x, w, n_heads, eps):
    normed = layer_norm(x, w["attention_norm.weight"], w["attention_norm.bias"], eps)
    x = x + heads(normed, w, n_heads) @ w["attention.w_o"] + w["attention.b_o"]
    normed = layer_norm(x, w["ffn_norm.weight"], w["ffn_norm.bias"], eps)
    return x + gelu(normed @ w["ffn.w_up"] + w["ffn.b_up"]) @ w["ffn.w_down"] + w["ffn.b_down"]


def gpt(token_ids, weights, layers, n_heads, eps):
    """Return logits [T, vocab_size] of token ids [T]; `layers` holds one dict of arrays for each block."""
    x = weights["embedding"][token_ids] + weights["positions"][: len(token_ids)]
    for layer in layers:
        x = block(x, layer, n_heads, eps)
    x = layer_norm(x, weights["final_norm.weight"], weights["final_norm.bias"], eps)
    return x @ weights["embedding"].T


def weights_of(params, config):
    """Return labkit's tensors as this file wants them: those outside the blocks, and a dict for each block."""
    from labkit.model import named_tensors

    tensors = named_tensors(params)
    layers = [{} for _ in range(config.n_layers)]
    for name, array in tensors.items():
        if name.startswith("blocks."):
            _, layer, part = name.split(".", 2)
            layers[int(layer)][part] = array
    return tensors, layers
