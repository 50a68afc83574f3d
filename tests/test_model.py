import dataclasses
import math
import re
import tracemalloc
from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import labkit.model
from labkit.accounting import GPT2_SMALL, GPT2_XL, LLAMA2_7B, LLAMA2_70B, LLAMA3_8B, LLAMA3_70B, MISTRAL_7B, QWEN3_0_6B
from labkit.block import transformer_block
from labkit.mask import causal_mask, combine, leaks, padding_mask, padding_positions
from labkit.model import (
    Capture,
    ModelConfig,
    Params,
    assemble,
    count_params,
    forward,
    generate,
    init_params,
    loss,
    named_tensors,
    new_cache,
    parameter_shapes,
)
from labkit.norm import layer_norm, rms_norm
from labkit.sampling import greedy, sample
from labkit.softmax import cross_entropy

T = 9
SIZES = {"vocab_size": 31, "d_model": 10, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "d_head": 6, "d_ff": 14}
SIZES |= {"max_len": 40, "base": 50.0}
GPT2 = SIZES | {"n_kv_heads": 4, "norm": "layer", "ffn": "gelu", "positions": "learned", "tied": True}
GPT2 |= {"attention_bias": True, "output_bias": True, "ffn_bias": True}
CONFIGS = {
    "llama": SIZES,
    "llama, tied": SIZES | {"tied": True},
    "gpt2": GPT2,
    "gpt2, untied": GPT2 | {"tied": False},
    "post-norm": SIZES | {"norm_place": "post"},
    "post-norm, LayerNorm, learned": GPT2 | {"norm_place": "post"},
    "no positions": SIZES | {"positions": "none"},
    "window": SIZES | {"window": 3},
    "q/k norm, biases": SIZES | {"qk_norm": True, "attention_bias": True},
    "yarn": SIZES | {"rope_scaling": {"kind": "yarn", "factor": 4.0, "original_max_len": 16, "beta_fast": 2.0}},
    "one layer, multi-query": SIZES | {"n_layers": 1, "n_kv_heads": 1},
}


def make(name="llama", **changes):
    return ModelConfig(**(CONFIGS[name] | changes))


def draw_tensors(config, seed=0, dtype=np.float64):
    """Draw weights none of which is at its default."""
    rng = np.random.default_rng(seed)
    shapes = parameter_shapes(config)
    return {name: rng.normal(len(shape) == 1, 0.4, shape).astype(dtype) for name, shape in shapes.items()}


def draw_params(config, seed=0, dtype=np.float64):
    return assemble(config, draw_tensors(config, seed, dtype))


def ids(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, SIZES["vocab_size"], shape or (2, T))


def close(a, b, tolerance=1e-12):
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * np.abs(b).max())


# What the config says before any array exists


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (GPT2_SMALL, 124_439_808),
        (GPT2_XL, 1_557_611_200),
        (LLAMA2_7B, 6_738_415_616),
        (LLAMA2_70B, 68_976_648_192),
        (LLAMA3_8B, 8_030_261_248),
        (LLAMA3_70B, 70_553_706_496),
        (MISTRAL_7B, 7_241_732_096),
        (QWEN3_0_6B, 596_049_920),
    ],
)
def test_published_parameter_counts_without_allocating(config, published):
    tracemalloc.start()
    counted = count_params(config)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counted["total"] == published
    assert sum(counted.values()) == 2 * published
    assert peak < 1_000_000


def test_parts_of_gpt2_by_hand():
    d, layers = 768, 12
    assert count_params(GPT2_SMALL) == {
        "embedding": 50257 * d,
        "positions": 1024 * d,
        "attention": layers * (4 * d * d + 4 * d),
        "ffn": layers * (8 * d * d + 4 * d + d),
        "norms": (2 * layers + 1) * 2 * d,
        "head": 0,
        "total": 124_439_808,
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_counts_are_those_of_the_arrays(name):
    config = make(name)
    tensors = named_tensors(init_params(config, seed=0))
    assert {key: array.shape for key, array in tensors.items()} == parameter_shapes(config)
    counted = count_params(config)
    assert counted["total"] == sum(array.size for array in tensors.values())
    parts = {"norms": "norm", "attention": ".attention.[wb]", "ffn": r".ffn\.", "embedding": "emb", "head": "head"}
    for part, pattern in parts.items():
        assert counted[part] == sum(array.size for key, array in tensors.items() if re.search(pattern, key)), part


def test_a_tied_head_is_counted_once_and_shared():
    tied, untied = make(tied=True), make()
    assert count_params(untied)["total"] - count_params(tied)["total"] == 31 * 10
    params = draw_params(tied)
    assert params.head is None
    out = forward(params, tied, ids())
    louder = dataclasses.replace(params, embedding=params.embedding * np.array([[2.0]] + [[1.0]] * 30))
    tokens = np.where(ids() == 0, 1, ids())  # token 0 is never read, so its row acts through the head alone
    out, doubled = forward(params, tied, tokens), forward(louder, tied, tokens)
    np.testing.assert_allclose(doubled[..., 0], 2 * out[..., 0])
    np.testing.assert_array_equal(doubled[..., 1:], out[..., 1:])


def test_config_is_a_value():
    assert make() == make()
    assert hash(make("yarn")) == hash(make("yarn"))
    assert make() != make(tied=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().d_model = 12


# Initial weights


def test_same_seed_same_logits_other_seed_others():
    config = make()
    first, again, other = (forward(init_params(config, seed), config, ids()) for seed in (7, 7, 8))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3 * np.abs(first).max()


def test_initial_weights():
    config = ModelConfig(**(GPT2 | {"vocab_size": 500, "d_model": 60, "d_head": 32, "d_ff": 200, "qk_norm": True}))
    params = init_params(config, seed=3)
    tensors = named_tensors(params)
    for name, array in tensors.items():
        assert array.dtype == np.float32
        if array.ndim == 1:
            ones = name.endswith(("weight", "q_norm", "k_norm"))
            np.testing.assert_array_equal(array, 1 if ones else 0)
        else:
            expected = 0.02 / math.sqrt(2 * 3) if name.endswith(("w_o", "w_down")) else 0.02
            assert abs(array.std() / expected - 1) < 0.05, name
            assert abs(array.mean()) < 4 * expected / math.sqrt(array.size), name
    matrices = [array.ravel() for array in tensors.values() if array.ndim == 2]
    assert not any(np.array_equal(a[:50], b[:50]) for i, a in enumerate(matrices) for b in matrices[:i])


def test_float32_weights_are_float64_weights_rounded():
    config = make()
    single, double = init_params(config, 0), init_params(config, 0, dtype=np.float64)
    for name, array in named_tensors(double).items():
        np.testing.assert_array_equal(array.astype(np.float32), named_tensors(single)[name])
    wide = init_params(config, 0, dtype=np.float64, std=0.2)
    np.testing.assert_allclose(wide.embedding, 10 * double.embedding)


@pytest.mark.parametrize("name", CONFIGS)
def test_initial_loss_is_about_that_of_a_guess(name):
    config = make(name, vocab_size=200)
    losses = loss(init_params(config, seed=0), config, np.random.default_rng(2).integers(0, 200, (8, 30)))
    assert losses.shape == (8, 29)
    assert abs(losses.mean() - math.log(200)) < 0.05


# The forward pass


@pytest.mark.parametrize("name", CONFIGS)
def test_forward_is_its_parts(name):
    config = make(name)
    params, tokens = draw_params(config), ids()
    mask = causal_mask(T) if config.window is None else causal_mask(T) & ~np.tri(T, k=-config.window, dtype=bool)
    x = np.array([[params.embedding[token] for token in row] for row in tokens])
    if config.positions == "learned":
        x = x + np.array([params.positions[t] for t in range(T)])
    states = [x]
    for block in params.blocks:
        x, capture = transformer_block(x, block, config, np.arange(T), mask, capture=True)
        states += [capture.after_attention, capture.after_ffn]
    if config.norm_place == "pre" and config.norm == "layer":
        x = layer_norm(x, params.final_norm.weight, params.final_norm.bias, config.eps)
    elif config.norm_place == "pre":
        x = rms_norm(x, params.final_norm.weight, config.eps)
    expected = x @ (params.embedding if config.tied else params.head).T
    logits, capture = forward(params, config, tokens, capture=True)
    assert logits.shape == (2, T, 31)
    close(logits, expected)
    close(capture.residual, np.stack(states))
    np.testing.assert_array_equal(forward(params, config, tokens), logits)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_weight_matters(name):
    config = make(name)
    tensors = draw_tensors(config)
    out = forward(assemble(config, tensors), config, ids())
    rng = np.random.default_rng(4)
    for key, array in tensors.items():
        changed = assemble(config, tensors | {key: array + rng.normal(0, 0.1, array.shape)})
        moved = np.abs(forward(changed, config, ids()) - out).max()
        unseen = key.endswith("b_k") and config.positions != "rope"  # softmax cancels it
        assert moved < 1e-10 if unseen else moved > 1e-6, key


def test_capture():
    config = make()
    params = draw_params(config)
    logits, capture = forward(params, config, ids(), capture=True)
    assert isinstance(capture, Capture)
    assert capture.residual.shape == (7, 2, T, 10)
    assert capture.weights.shape == (3, 2, 4, T, T)
    np.testing.assert_allclose(capture.weights.sum(axis=-1), 1)
    assert not capture.weights[..., ~causal_mask(T)].any()
    np.testing.assert_array_equal(capture.residual[0], params.embedding[ids()])
    lens = rms_norm(capture.residual[-1], params.final_norm.weight) @ params.head.T
    close(lens, logits)
    cache = new_cache(params, config, batch=2, max_len=T)
    forward(params, config, ids()[:, :6], cache)
    _, late = forward(params, config, ids()[:, 6:], cache, capture=True)
    assert late.weights.shape == (3, 2, 4, 3, T)
    close(late.residual, capture.residual[:, :, 6:])
    close(late.weights, capture.weights[..., 6:, :])


def with_another(row, position):
    """Return token ids that differ at one position."""
    return np.where(np.arange(len(row)) == position, (row + 1) % 31, row)


@pytest.mark.parametrize("name", CONFIGS)
def test_no_leak(name):
    config = make(name)
    params, tokens = draw_params(config), ids(T)
    out = forward(params, config, tokens)
    for position in range(T):
        moved = np.abs(forward(params, config, with_another(tokens, position)) - out).max(axis=-1) > 0
        np.testing.assert_array_equal(moved[:position], False)
        assert moved[position]
    everything = np.ones((T, T), dtype=bool)
    out = forward(params, config, tokens, mask=everything)
    assert np.abs(forward(params, config, with_another(tokens, T - 1), mask=everything) - out)[0].max() > 0


@pytest.mark.parametrize("position", range(T - 1))
def test_the_leak_detector_finds_a_leak_of_one_position_in_a_model(position):
    config = make()
    params = draw_params(config)
    x = np.random.default_rng(0).normal(size=(T, 10))
    planted = causal_mask(T)
    planted[position, position + 1] = True
    expected = np.zeros((T, T), dtype=bool)
    assert not leaks(partial(run_blocks, params, config, mask=causal_mask(T)), x).any()
    expected[position, position + 1] = True
    np.testing.assert_array_equal(leaks(partial(run_blocks, params, config, mask=planted), x), expected)


def run_blocks(params, config, x, mask):
    for block in params.blocks:
        x = transformer_block(x, block, config, mask=mask)
    return x


def test_leading_axes_are_a_loop():
    config = make("gpt2")
    params, tokens = draw_params(config), ids(2, 3, T)
    out, losses = forward(params, config, tokens), loss(params, config, tokens)
    assert out.shape == (2, 3, T, 31)
    for index in np.ndindex(2, 3):
        close(out[index], forward(params, config, tokens[index]))
        close(losses[index], loss(params, config, tokens[index]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "post-norm", "yarn"])
def test_dtype_of_the_weights_is_that_of_the_logits(name, dtype):
    config = make(name)
    params = draw_params(config, dtype=dtype)
    logits, capture = forward(params, config, ids(), capture=True)
    assert {logits.dtype, capture.residual.dtype, capture.weights.dtype} == {np.dtype(dtype)}
    assert loss(params, config, ids()).dtype == dtype
    cache = new_cache(params, config, batch=2)
    assert forward(params, config, ids(), cache).dtype == dtype
    assert cache.dtype == dtype
    exact = forward(draw_params(config), config, ids())
    close(logits.astype(float), exact, {"float16": 3e-2, "float32": 1e-5, "float64": 1e-12}[dtype])


@pytest.mark.parametrize("name", CONFIGS)
def test_inputs_stay_as_they_were(name):
    config = make(name)
    params, tokens, mask, positions = draw_params(config), ids(), causal_mask(T), np.arange(T)
    arrays = [*named_tensors(params).values(), tokens, mask, positions]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    _, capture = forward(params, config, tokens, mask=mask, positions=positions, capture=True)
    forward(params, config, tokens, new_cache(params, config, batch=2))
    loss(params, config, tokens)
    list(generate(params, config, tokens, 3, stop_tokens=[1]))
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)
    assert not any(np.shares_memory(capture.residual, array) for array in arrays)


# The loss


@pytest.mark.parametrize("name", CONFIGS)
def test_one_pass_of_losses_is_a_pass_for_each_prefix(name):
    config = make(name)
    params, tokens = draw_params(config), ids()
    losses = loss(params, config, tokens)
    for t in range(T - 1):
        last = forward(params, config, tokens[:, : t + 1])[:, -1]
        close(losses[:, t], cross_entropy(last, tokens[:, t + 1]))


def test_loss_by_hand():
    """With a head of zeros every token gets 1/vocab_size."""
    config = make()
    params = dataclasses.replace(draw_params(config), head=np.zeros((31, 10)))
    np.testing.assert_allclose(loss(params, config, ids()), math.log(31))


# The cache


@pytest.mark.parametrize("name", CONFIGS)
@given(cuts=st.sets(st.integers(1, T - 1)))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_cached_in_any_chunks_equals_full(name, cuts):
    config = make(name)
    params, tokens = draw_params(config), ids()
    full, cache = forward(params, config, tokens), new_cache(params, config, batch=2, max_len=T)
    done = 0
    for chunk in np.split(tokens, sorted(cuts), axis=1):
        assert cache.length == done
        rows = forward(params, config, chunk, cache)
        close(rows, full[:, done : done + chunk.shape[1]])
        done += chunk.shape[1]


def test_bidirectional_attention_cannot_be_cached():
    config = make()
    params, tokens = draw_params(config), ids()
    full = forward(params, config, tokens, mask=np.ones((T, T), dtype=bool))
    cache = new_cache(params, config, batch=2, max_len=T)
    rows = []
    for t in range(T):
        rows.append(forward(params, config, tokens[:, t : t + 1], cache, mask=np.ones((1, t + 1), dtype=bool)))
    assert np.abs(np.concatenate(rows, axis=1) - full).max() > 0.1


def test_a_fork_does_not_see_the_other():
    config = make()
    params, tokens = draw_params(config), ids()
    cache = new_cache(params, config, batch=2, max_len=T)
    forward(params, config, tokens[:, :5], cache)
    fork = cache.fork()
    other = (tokens + 1) % 31
    forward(params, config, other[:, 5:], fork)
    close(forward(params, config, tokens[:, 5:], cache), forward(params, config, tokens)[:, 5:])
    cache.reset()
    close(forward(params, config, other, cache), forward(params, config, other))


@pytest.mark.parametrize("name", ["llama", "gpt2", "window"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_of_unequal_lengths_is_each_alone(name, side):
    config = make(name)
    params, lengths = draw_params(config), np.array([6, 2])
    real = padding_mask(lengths, 6, side)
    tokens, after = np.where(real, ids(2, 6), 0), ids(2, 3, seed=5)
    cache = new_cache(params, config, batch=2)
    cache.expect(lengths, side)
    prompt, steps = forward(params, config, tokens, cache), forward(params, config, after, cache)
    for row in range(2):
        alone = forward(params, config, np.concatenate([tokens[row][real[row]], after[row]]))
        close(prompt[row][real[row]], alone[: lengths[row]])
        close(steps[row], alone[lengths[row] :])


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_by_mask_and_positions(name, side):
    config = make(name)
    params, lengths = draw_params(config), np.array([T, 4])
    real = padding_mask(lengths, T, side)
    positions = padding_positions(lengths, T, side)
    mask = combine(causal_mask(T), real[:, None, None, :])
    tokens = np.where(real, ids(), 0)
    logits = forward(params, config, tokens, mask=mask, positions=positions)
    assert np.isfinite(logits).all()
    for row in range(2):
        close(logits[row][real[row]], forward(params, config, tokens[row][real[row]]))


def test_an_error_leaves_the_cache_as_it_was():
    config = make()
    params, tokens = draw_params(config), ids()
    cache = new_cache(params, config, batch=2, max_len=T)
    forward(params, config, tokens[:, :4], cache)
    wrong = [
        {"token_ids": tokens[:, 4:] + 31},
        {"token_ids": np.concatenate([tokens, tokens], axis=1)},
        {"token_ids": tokens[:1, 4:]},
        {"token_ids": tokens[:, 4:], "mask": np.ones((5, 8), dtype=bool)},
        {"token_ids": tokens[:, 4:], "mask": np.ones((3, 5, 9), dtype=bool)},
        {"token_ids": tokens[:, 4:], "positions": np.arange(4)},
        {"token_ids": tokens[:, 4:], "positions": np.arange(5) - 3},
        {"token_ids": tokens[:, 4:], "params": dataclasses.replace(params, blocks=params.blocks[:2])},
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match=r".+"):
            forward(**({"params": params, "config": config, "cache": cache} | arguments))
        assert cache.length == 4
    close(forward(params, config, tokens[:, 4:], cache), forward(params, config, tokens)[:, 4:])


# Generation


@pytest.mark.parametrize("name", CONFIGS)
def test_generation_with_and_without_cache(name):
    config = make(name)
    params = draw_params(config)
    prompt = [1, 5, 9, 2]
    cached = list(generate(params, config, prompt, 12))
    assert cached == list(generate(params, config, prompt, 12, use_cache=False))
    tokens = list(prompt)
    for _ in range(12):
        tokens.append(int(forward(params, config, np.array(tokens))[-1].argmax()))
    assert cached == tokens[4:]
    assert all(type(token) is int for token in cached)


def test_sampled_generation_follows_its_rng():
    config = make()
    params = draw_params(config)
    hot = partial(sample, temperature=1.5, top_k=20)

    def run(seed, use_cache=True):
        return list(generate(params, config, [1, 5, 9, 2], 20, hot, np.random.default_rng(seed), use_cache))

    assert run(0) == run(0) == run(0, use_cache=False)
    assert run(0) != run(1)
    cold = partial(sample, temperature=0.0)
    assert list(generate(params, config, [1, 5], 9, cold, np.random.default_rng(0))) == list(
        generate(params, config, [1, 5], 9, greedy)
    )


def test_a_batch_is_each_prompt_alone():
    config = make()
    params, prompts = draw_params(config), ids(3, 4)
    tokens = list(generate(params, config, prompts, 7))
    assert [token.shape for token in tokens] == [(3,)] * 7
    for row in range(3):
        assert [int(token[row]) for token in tokens] == list(generate(params, config, prompts[row], 7))
    assert len({tuple(row) for row in np.stack(tokens, axis=1).tolist()}) > 1


def test_stop_tokens():
    config = make()
    params = draw_params(config)
    free = list(generate(params, config, [1, 5, 9, 2], 12))
    stop = free[4]
    first = free.index(stop)
    for kind in (list, tuple, set, np.array):
        assert list(generate(params, config, [1, 5, 9, 2], 12, stop_tokens=kind([stop]))) == free[: first + 1]
    absent = next(token for token in range(31) if token not in free)
    assert list(generate(params, config, [1, 5, 9, 2], 12, stop_tokens=[absent])) == free


def test_a_sequence_that_has_ended_waits_for_the_others():
    config = make()
    params, prompts = draw_params(config), ids(3, 4)
    free = np.stack(list(generate(params, config, prompts, 10)))
    stop = int(free[1, 0])
    stopped = np.stack(list(generate(params, config, prompts, 10, stop_tokens=[stop])))
    for row in range(3):
        seen = free[:, row].tolist()
        end = seen.index(stop) if stop in seen else 10
        expected = seen[: end + 1] + [stop] * 10
        assert stopped[:, row].tolist() == expected[: len(stopped)]
    ends = [free[:, row].tolist().index(stop) if stop in free[:, row] else 9 for row in range(3)]
    assert len(stopped) == max(ends) + 1
    assert len(set(ends)) > 1  # so that one really waited


def test_generation_streams(monkeypatch):
    """Each token is given out before the next is computed, and a cached step reads one token."""
    config, lengths = make(), []
    params = draw_params(config)

    def counted(params, config, token_ids, cache=None, **options):
        lengths.append(token_ids.shape[-1])
        return forward(params, config, token_ids, cache, **options)

    monkeypatch.setattr(labkit.model, "forward", counted)
    tokens = generate(params, config, [1, 5, 9, 2], 30)
    assert lengths == []
    next(tokens)
    assert lengths == [4]
    next(tokens)
    next(tokens)
    assert lengths == [4, 1, 1]
    lengths.clear()
    assert len(list(generate(params, config, [1, 5, 9, 2], 3, use_cache=False))) == 3
    assert lengths == [4, 5, 6]


def test_a_new_generation_starts_clean():
    config = make()
    params = draw_params(config)
    first, second = generate(params, config, [1, 5, 9, 2], 6), generate(params, config, [7, 3], 6)
    mixed = [(a, b) for a, b in zip(first, second, strict=True)]
    assert [a for a, _ in mixed] == list(generate(params, config, [1, 5, 9, 2], 6))
    assert [b for _, b in mixed] == list(generate(params, config, [7, 3], 6))


def test_generation_up_to_the_last_learned_position():
    config = make("gpt2", max_len=8)
    params = draw_params(config)
    for use_cache in (True, False):
        assert len(list(generate(params, config, [1, 5, 9], 6, use_cache=use_cache))) == 6
    with pytest.raises(ValueError, match="a prompt of 3 and 7 new tokens need 9 positions, but max_len is 8"):
        generate(params, config, [1, 5, 9], 7)
    rope = make(max_len=8)
    assert len(list(generate(draw_params(rope), rope, [1, 5, 9], 7))) == 7  # RoPE has no last position
    assert list(generate(params, config, [1, 5, 9], 0)) == []


def test_a_token_that_must_not_be_read_is_never_generated():
    config = make()
    params = draw_params(config)

    def padded(logits, rng):
        return greedy(np.where(np.arange(31) < 20, logits, -np.inf), rng)

    assert max(generate(params, config, [1, 5, 9, 2], 30, padded)) < 20


# Names


@pytest.mark.parametrize("name", CONFIGS)
def test_names_there_and_back(name):
    config = make(name)
    tensors = draw_tensors(config)
    params = assemble(config, tensors)
    assert isinstance(params, Params)
    back = named_tensors(params)
    assert back.keys() == tensors.keys()
    for key, array in tensors.items():
        assert back[key] is array


# Errors


def call(name="llama", tokens=None, cache=None, **options):
    config = make(name)
    return forward(draw_params(config), config, ids() if tokens is None else tokens, cache, **options)


def changed(name="llama", drop=(), **tensors):
    config = make(name)
    kept = {key: array for key, array in draw_tensors(config).items() if key not in drop}
    return assemble(config, kept | tensors)


def cache_of(**changes):
    config = make(**changes)
    return new_cache(draw_params(config), config, batch=2)


def stream(prompt=(1, 5), new=3, **options):
    config = make()
    return generate(draw_params(config), config, prompt, new, **options)


def make_init(seed=0, **options):
    return init_params(make(), seed, **options)


BAD_CONFIGS = [
    ({"vocab_size": 0}, "vocab_size must be an integer of at least 1, got 0"),
    ({"vocab_size": 31.0}, "vocab_size must be an integer"),
    ({"n_layers": 0}, "n_layers must be an integer of at least 1"),
    ({"n_layers": True}, "n_layers must be an integer"),
    ({"max_len": -1}, "max_len must be an integer of at least 1, got -1"),
    ({"tied": "yes"}, "tied must be one of True, False, got 'yes'"),
    ({"tied": 1}, "tied must be one of True, False, got 1"),
    ({"d_model": None}, "d_model must be an integer"),
    ({"n_kv_heads": 3}, "n_heads must be divisible by n_kv_heads"),
    ({"d_head": 7}, "d_head must be even"),
    ({"norm": "rmsnorm"}, "norm must be one of"),
]

BAD_CALLS = [
    (lambda: call(tokens=np.array([[1, 31]])), r"token_ids must lie in 0 … 30 \(vocab_size = 31\), got 31"),
    (lambda: call(tokens=np.array([1, -1])), "token_ids must lie in 0 … 30 .* got -1"),
    (lambda: call(tokens=np.array([1.0, 2.0])), "token_ids must hold integers, got dtype float64"),
    (lambda: call(tokens=np.array([True, False])), "token_ids must hold integers, got dtype bool"),
    (lambda: call(tokens=np.array(["a"])), "token_ids .* must hold real numbers"),
    (lambda: call(tokens=np.zeros((2, 0), int)), "token_ids .* axis T is empty"),
    (lambda: call(tokens=[]), "axis T is empty"),
    (lambda: call(tokens=np.array(3)), "token_ids .* needs at least 1 axes"),
    (lambda: call("gpt2", tokens=ids(41)), r"positions must lie in 0 … 39 \(max_len = 40\), got 40"),
    (lambda: call("gpt2", positions=np.arange(T) + 32), r"positions must lie in 0 … 39 .* got 40"),
    (lambda: call("gpt2", positions=np.arange(T) - 1), "positions must lie in 0 … 39 .* got -1"),
    (lambda: call("gpt2", positions=np.arange(T) / 1), "positions must hold integers"),
    (lambda: call("gpt2", positions=np.array([3])), r"positions has shape \(1,\), expected \(9,\) or \(2, 9\)"),
    (lambda: call(positions=np.arange(T - 1)), r"positions has shape \(8,\), expected \(9,\) or \(2, 9\)"),
    (lambda: call(positions=np.zeros((3, T), int)), r"positions has shape \(3, 9\)"),
    (lambda: call(positions=-np.arange(T)), "positions must be at least 0"),
    (lambda: call(positions=np.linspace(0, 1, T)), "positions must hold integers"),
    (lambda: call(mask=np.ones((T, T), int)), "mask must be Boolean"),
    (lambda: call(mask=causal_mask(T, T + 1)), r"mask has shape \(9, 10\), which does not broadcast"),
    (lambda: call(mask=np.ones((2, T, T), bool)), r"mask has shape \(2, 9, 9\), which does not broadcast"),
    (lambda: call(mask=np.ones((5, 2, 1, T, T), bool)), "mask has shape"),
    (lambda: call(tokens=ids(T), cache=cache_of()), r"token_ids \[B, T\] needs exactly 2 axes"),
    (lambda: call(tokens=ids(3, T), cache=cache_of()), "axis 2 is 3, expected 2"),
    (lambda: call(tokens=ids(2, 41), cache=cache_of()), "overflow"),
    (lambda: call(cache=cache_of(n_layers=2)), "cache has n_layers = 2, but the config has 3"),
    (lambda: call(cache=cache_of(window=4)), "cache has window = 4, but the config has None"),
    (lambda: call("window", cache=cache_of()), "cache has window = None, but the config has 3"),
    (lambda: call(cache=cache_of(n_kv_heads=4)), "axis 4 is 2, expected 4"),
    (lambda: call(cache=cache_of(d_head=8)), "axis 8 is 6, expected 8"),
    (lambda: changed(drop=["head"]), r"the weights lack 'head', expected in shape \(31, 10\)"),
    (lambda: changed(drop=["blocks.1.ffn.w_gate"]), "the weights lack 'blocks.1.ffn.w_gate'"),
    (lambda: changed("gpt2", drop=["positions"]), "the weights lack 'positions'"),
    (
        lambda: changed("gpt2", head=np.ones((31, 10))),
        "the weights hold 'head', which a model of this",
    ),
    (lambda: changed(positions=np.ones((40, 10))), "the weights hold 'positions'"),
    (lambda: changed(**{"blocks.3.attention.w_q": np.ones((10, 24))}), r"the weights hold 'blocks\.3\.attention\.w_q'"),
    (lambda: changed(embedding=np.ones((10, 31))), r"embedding has shape \(10, 31\), expected \(31, 10\)"),
    (
        lambda: changed(**{"blocks.0.attention.w_o": np.ones((10, 24))}),
        r"w_o has shape \(10, 24\), expected",
    ),
    (lambda: forward(draw_params(make("llama")), make("gpt2"), ids()), "the weights lack 'positions'"),
    (lambda: forward(draw_params(make("llama")), make(n_layers=2), ids()), r"the weights hold 'blocks\.2"),
    (
        lambda: forward(draw_params(make("llama")), make(d_ff=15), ids()),
        r"w_up has shape \(10, 14\), expected",
    ),
    (lambda: loss(draw_params(make()), make(), [3]), r"token_ids .* T of at least 2 .* got shape \(1,\)"),
    (lambda: loss(draw_params(make()), make(), 3), r"T of at least 2"),
    (lambda: loss(draw_params(make()), make(), np.zeros((2, 0), int)), r"T of at least 2"),
    (lambda: loss(draw_params(make()), make(), [3, 31]), "token_ids must lie in 0 … 30 .* got 31"),
    (lambda: loss(draw_params(make()), make(), [3, -1, 2]), "token_ids must lie in 0 … 30 .* got -1"),
    (lambda: loss(draw_params(make()), make(), [3.0, 1.0]), "token_ids must hold integers"),
    (lambda: new_cache(draw_params(make()), make(), batch=0), "batch must be an integer of at least 1"),
    (lambda: new_cache(draw_params(make()), make(), max_len=2.5), "max_len must be an integer"),
    (lambda: make_init(-1), "seed must be an integer of at least 0, got -1"),
    (lambda: make_init(None), "seed must be an integer"),
    (lambda: make_init(1.5), "seed must be an integer"),
    (lambda: make_init(dtype=int), "dtype must be a float, got int64"),
    (lambda: make_init(std=float("inf")), "std must be a finite number"),
    (lambda: make_init(std=-0.1), "std must be a finite number of at least 0"),
    (lambda: stream(prompt=[]), "prompt .* axis T is empty"),
    (lambda: stream(prompt=np.zeros((0, 3), int)), r"prompt must be \[T\] or \[B, T\] .* got shape \(0, 3\)"),
    (lambda: stream(prompt=np.zeros((1, 2, 3), int)), r"prompt must be \[T\] or \[B, T\] .* got shape \(1, 2, 3\)"),
    (lambda: stream(prompt=5), "prompt .* needs at least 1 axes"),
    (lambda: stream(prompt=[1, 31]), "prompt must lie in 0 … 30 .* got 31"),
    (lambda: stream(prompt=[1.5]), "prompt must hold integers"),
    (lambda: stream(new=-1), "max_new_tokens must be an integer of at least 0, got -1"),
    (lambda: stream(new=2.0), "max_new_tokens must be an integer"),
    (lambda: stream(stop_tokens=[31]), "stop_token must be an integer of at least 0 and at most 30, got 31"),
    (lambda: stream(stop_tokens=[1.5]), "stop_token must be an integer"),
    (lambda: stream(stop_tokens=7), "stop_tokens must be a sequence of token ids, got 7"),
    (lambda: generate(draw_params(make()), make(d_ff=15), [1], 3), "w_up has shape"),
    (lambda: list(stream(sampler=lambda logits, rng: np.array([[3]]))), "token .* needs exactly 1 axes"),
    (lambda: list(stream(sampler=lambda logits, rng: np.array([31]))), "token must lie in 0 … 30 .* got 31"),
    (lambda: list(stream(sampler=lambda logits, rng: np.array([3.0]))), "token must hold integers"),
    (lambda: list(stream(sampler=sample)), "rng must be a numpy.random.Generator, got None"),
]


@pytest.mark.parametrize(("change", "message"), BAD_CONFIGS)
def test_bad_configs(change, message):
    with pytest.raises(ValueError, match=message):
        make(**change)


@pytest.mark.parametrize(("bad", "message"), BAD_CALLS)
def test_bad_calls(bad, message):
    with pytest.raises(ValueError, match=message):
        bad()
