"""The chain of equalities, from multi-head attention to tiled attention and to the parallel loss, executed.

Every link compares two ways to the same numbers in float64, and carries a control: the same comparison with the fault
that it exists to catch, which must not pass.
"""

import dataclasses

import numpy as np

from labkit.attention import scaled_dot_product_attention
from labkit.block import AttentionParams, BlockConfig, attention_sublayer
from labkit.flash import flash_attention
from labkit.heads import multi_head_attention
from labkit.kv_cache import grouped_query_attention, repeat_kv
from labkit.mask import causal_mask
from labkit.model import ModelConfig, assemble, forward, loss, named_tensors, new_cache, parameter_shapes
from labkit.rope import interleaved_to_half
from labkit.softmax import cross_entropy

EQUAL, UNEQUAL = 1e-13, 1e-3  # of the largest entry; float64 rounding leaves about 1e-15
T, D_MODEL, D_HEAD, HEADS = 9, 10, 6, 4
CONFIG = ModelConfig(
    vocab_size=31,
    d_model=D_MODEL,
    n_layers=3,
    n_heads=HEADS,
    n_kv_heads=2,
    d_head=D_HEAD,
    d_ff=14,
    max_len=40,
    base=50.0,
)


def draw(*shape, seed, std=1.0):
    return np.random.default_rng(seed).normal(0, std, shape)


def random_params(config):
    """Return weights none of which is at its default, in float64."""
    rng = np.random.default_rng(0)
    shapes = parameter_shapes(config)
    return assemble(config, {name: rng.normal(len(shape) == 1, 0.4, shape) for name, shape in shapes.items()})


def distance(a, b):
    assert a.shape == b.shape
    return np.abs(a - b).max() / np.abs(b).max()


def ids(batch=2, length=T):
    return np.random.default_rng(1).integers(0, CONFIG.vocab_size, (batch, length))


def projections(n_kv_heads):
    q, kv = HEADS * D_HEAD, n_kv_heads * D_HEAD
    shapes = ((D_MODEL, q), (D_MODEL, kv), (D_MODEL, kv), (q, D_MODEL))
    return [draw(*shape, seed=number) for number, shape in enumerate(shapes)]


def grouped(x, weights, n_kv_heads):
    """Return grouped-query attention as a block computes it, without positions."""
    config = BlockConfig(d_model=D_MODEL, n_heads=HEADS, n_kv_heads=n_kv_heads, d_head=D_HEAD, d_ff=1, positions="none")
    return attention_sublayer(x, AttentionParams(*weights), config, mask=causal_mask(T))


def mha_is_gqa_with_a_group_for_every_head():
    x, (w_q, w_k, w_v, w_o) = draw(2, T, D_MODEL, seed=9), projections(HEADS)
    mha = multi_head_attention(x, w_q, w_k, w_v, w_o, HEADS, causal_mask(T))
    wrong = grouped(x, (w_q, np.roll(w_k, D_HEAD, axis=1), w_v, w_o), HEADS)  # each head with its neighbour's keys
    return distance(grouped(x, (w_q, w_k, w_v, w_o), HEADS), mha), distance(wrong, mha)


def gqa_is_mha_with_repeated_heads():
    x, (w_q, w_k, w_v, w_o) = draw(2, T, D_MODEL, seed=9), projections(2)
    wide_k, wide_v = (repeat_kv(w.reshape(D_MODEL, 2, 1, D_HEAD), HEADS).reshape(D_MODEL, -1) for w in (w_k, w_v))
    mha = multi_head_attention(x, w_q, wide_k, wide_v, w_o, HEADS, causal_mask(T))
    tiled = multi_head_attention(x, w_q, np.tile(w_k, 2), np.tile(w_v, 2), w_o, HEADS, causal_mask(T))
    gqa = grouped(x, (w_q, w_k, w_v, w_o), 2)
    return distance(gqa, mha), distance(gqa, tiled)


def mqa_is_gqa_with_one_group():
    x, (w_q, w_k, w_v, w_o) = draw(2, T, D_MODEL, seed=9), projections(1)
    k, v = x @ w_k, x @ w_v
    pieces = [x @ w_q[:, head * D_HEAD : (head + 1) * D_HEAD] for head in range(HEADS)]
    heads = [scaled_dot_product_attention(q, k, v, causal_mask(T)) for q in pieces]
    mqa, wrong = np.concatenate(heads, axis=-1) @ w_o, np.concatenate(heads[::-1], axis=-1) @ w_o
    gqa = grouped(x, (w_q, w_k, w_v, w_o), 1)
    return distance(gqa, mqa), distance(gqa, wrong)


def cached(config, params, tokens, sizes, restart=False):
    """Return the logits of a cached pass in pieces; `restart` plants positions that begin anew with each piece."""
    cache, start, rows = new_cache(params, config, batch=len(tokens)), 0, []
    for size in sizes:
        positions = np.arange(size) if restart else None
        rows.append(forward(params, config, tokens[:, start : start + size], cache, positions=positions))
        start += size
    assert start == tokens.shape[1]
    return np.concatenate(rows, axis=1)


def one_token_at_a_time_is_the_full_pass():
    params = random_params(CONFIG)
    full = forward(params, CONFIG, ids())
    steps = [1] * T
    wrong = cached(CONFIG, params, ids(), steps, restart=True)
    return distance(cached(CONFIG, params, ids(), steps), full), distance(wrong, full)


def a_prompt_in_chunks_is_the_full_pass():
    params = random_params(CONFIG)
    full = forward(params, CONFIG, ids())
    bidirectional = forward(params, CONFIG, ids(), mask=np.ones((T, T), dtype=bool))
    pieces = cached(CONFIG, params, ids(), (4, 1, 3, 1))
    return distance(pieces, full), distance(pieces, bidirectional)


def a_sliding_window_in_chunks_is_the_full_pass():
    config = dataclasses.replace(CONFIG, window=3)
    params = random_params(config)
    pieces = cached(config, params, ids(), (2, 1, 1, 4, 1))  # past full step by step, then by more than the window
    return distance(pieces, forward(params, config, ids())), distance(pieces, forward(params, CONFIG, ids()))


def interleaved_is_half_split_after_a_permutation():
    params = random_params(CONFIG)
    tensors, permuted = named_tensors(params), {}
    for name, array in tensors.items():
        if name.endswith(("w_q", "w_k")):
            heads = CONFIG.n_heads if name.endswith("w_q") else CONFIG.n_kv_heads
            permuted[name] = interleaved_to_half(array, heads)
    interleaved = forward(params, dataclasses.replace(CONFIG, rope_pairing="interleaved"), ids())
    half = forward(assemble(CONFIG, tensors | permuted), CONFIG, ids())
    return distance(half, interleaved), distance(forward(params, CONFIG, ids()), interleaved)


def tiled_is_naive():
    q, k, v = draw(2, HEADS, T, D_HEAD, seed=0), draw(2, 2, 23, D_HEAD, seed=1), draw(2, 2, 23, 5, seed=2)
    naive = grouped_query_attention(q, k, v, causal_mask(T, 23))
    top_left = grouped_query_attention(q, k, v, np.tri(T, 23, dtype=bool))
    tiled = flash_attention(q, k, v, causal=True, block_q=4, block_k=5)
    return distance(tiled, naive), distance(tiled, top_left)


def one_pass_of_losses_is_a_pass_for_each_prefix():
    params, tokens = random_params(CONFIG), ids()
    prefixes = [forward(params, CONFIG, tokens[:, : t + 1])[:, -1] for t in range(T - 1)]
    one_by_one = np.stack([cross_entropy(row, tokens[:, t + 1]) for t, row in enumerate(prefixes)], axis=1)
    seeing_all = forward(params, CONFIG, tokens[:, :-1], mask=np.ones((T - 1, T - 1), dtype=bool))
    wrong = cross_entropy(seeing_all, tokens[:, 1:])
    return distance(loss(params, CONFIG, tokens), one_by_one), distance(wrong, one_by_one)


CHAIN = {
    "multi-head = grouped-query with G = H": mha_is_gqa_with_a_group_for_every_head,
    "grouped-query = multi-head with repeated K and V heads": gqa_is_mha_with_repeated_heads,
    "multi-query = grouped-query with G = 1": mqa_is_gqa_with_one_group,
    "cached, a token at a time = full pass (3 layers, RoPE)": one_token_at_a_time_is_the_full_pass,
    "cached, in chunks = full pass (3 layers, RoPE)": a_prompt_in_chunks_is_the_full_pass,
    "cached, sliding window = full pass (3 layers, RoPE)": a_sliding_window_in_chunks_is_the_full_pass,
    "interleaved = half-split after permuting W_q and W_k": interleaved_is_half_split_after_a_permutation,
    "tiled = naive (ragged, causal, T = 9, S = 23, G = 2)": tiled_is_naive,
    "one pass of losses = one pass a prefix": one_pass_of_losses_is_a_pass_for_each_prefix,
}


def test_the_chain(record_property):
    rows = {name: link() for name, link in CHAIN.items()}
    for name, (difference, control) in rows.items():
        record_property("chain", f"{name:<56} {difference:>10.1e} {control:>9.1e}")
    for name, (difference, control) in rows.items():
        assert difference <= EQUAL, name
        assert control >= UNEQUAL, f"{name}: the control passes, so the link proves nothing"
