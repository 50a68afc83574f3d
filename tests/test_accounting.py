import dataclasses
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from labkit.accounting import (
    A100,
    GPT2_SMALL,
    GPT2_XL,
    H100,
    LLAMA2_7B,
    LLAMA2_70B,
    LLAMA3_8B,
    LLAMA3_70B,
    MISTRAL_7B,
    QWEN3_0_6B,
    Accelerator,
    arithmetic_intensity,
    bytes_moved,
    ffn_share,
    flops,
    flops_per_token,
    kv_bytes,
    least_seconds,
    matmul_params,
    ridge,
    roofline,
    weight_bytes,
)
from labkit.kv_cache import KVCache, decode_operations
from labkit.model import ModelConfig, count_params, init_params, named_tensors

SMALL = ModelConfig(vocab_size=31, d_model=10, n_layers=3, n_heads=4, n_kv_heads=2, d_head=6, d_ff=14, max_len=40)
KIB, MIB, GIB = 2**10, 2**20, 2**30


def change(**fields):
    return dataclasses.replace(SMALL, **fields)


# Parameters


def test_the_two_thirds_rule_holds_and_fails():
    block = {name: ffn_share(config)["block"] for name, config in EVERY.items()}
    model = {name: ffn_share(config)["model"] for name, config in EVERY.items()}
    for name in ("GPT-2 small", "GPT-2 XL", "Llama-2-7B"):  # an FFN of 8 d² beside four d × d matrices
        assert abs(block[name] - 2 / 3) < 0.003
    for name in ("Llama-2-70B", "Llama-3-8B", "Llama-3-70B", "Mistral-7B"):  # shared K/V heads and a wider FFN
        assert 0.80 < block[name] < 0.83
    assert block["Qwen3-0.6B"] == 0.6  # heads wider than d_model / n_heads
    assert model["GPT-2 small"] < 0.46  # 31 % of it is the embedding table
    assert 0.69 < model["Llama-3-8B"] < 0.71
    assert all(model[name] < block[name] for name in EVERY)


EVERY = {
    "GPT-2 small": GPT2_SMALL,
    "GPT-2 XL": GPT2_XL,
    "Llama-2-7B": LLAMA2_7B,
    "Llama-2-70B": LLAMA2_70B,
    "Llama-3-8B": LLAMA3_8B,
    "Llama-3-70B": LLAMA3_70B,
    "Mistral-7B": MISTRAL_7B,
    "Qwen3-0.6B": QWEN3_0_6B,
}


def test_ffn_share_by_hand():
    # attention: W_q and W_o 10 × 24, W_k and W_v 10 × 12; FFN: three of 10 × 14
    assert ffn_share(SMALL)["block"] == 420 / (720 + 420)
    assert ffn_share(SMALL)["model"] == 3 * 420 / count_params(SMALL)["total"]


@pytest.mark.parametrize("fields", [{}, {"tied": True}, {"qk_norm": True}, {"norm_place": "post"}])
@pytest.mark.parametrize("ffn", [{}, {"ffn": "gelu", "ffn_bias": True, "attention_bias": True, "norm": "layer"}])
@pytest.mark.parametrize("positions", ["rope", "learned"])
def test_matmul_params_are_the_matrices_of_a_real_model(fields, ffn, positions):
    config = change(**fields, **ffn, positions=positions)
    tensors = named_tensors(init_params(config, seed=0))
    matrices = [a.size for name, a in tensors.items() if a.ndim == 2 and name not in ("embedding", "positions")]
    assert matmul_params(config) == sum(matrices) + (31 * 10 if config.tied else 0)


def test_public_configs_are_the_published_ones():
    assert (GPT2_SMALL.d_model, GPT2_SMALL.n_layers, GPT2_SMALL.d_head, GPT2_SMALL.max_len) == (768, 12, 64, 1024)
    assert (GPT2_XL.d_model, GPT2_XL.n_layers, GPT2_XL.n_heads) == (1600, 48, 25)
    assert (LLAMA2_7B.d_ff, LLAMA2_7B.vocab_size, LLAMA2_7B.n_kv_heads) == (11_008, 32_000, 32)
    assert (LLAMA2_70B.n_layers, LLAMA2_70B.n_heads, LLAMA2_70B.n_kv_heads) == (80, 64, 8)
    assert (LLAMA3_8B.base, LLAMA3_8B.vocab_size, LLAMA3_8B.n_kv_heads) == (500_000.0, 128_256, 8)
    assert (MISTRAL_7B.window, MISTRAL_7B.n_kv_heads, MISTRAL_7B.max_len) == (4096, 8, 32_768)
    assert (QWEN3_0_6B.n_heads * QWEN3_0_6B.d_head, QWEN3_0_6B.d_model) == (2048, 1024)
    assert {config.d_head for name, config in EVERY.items() if not name.startswith("GPT-2")} == {128}


# Operations


def count_one_by_one(config, keys):
    """Count the floating-point operations of one token that sees so many keys, matrix by matrix."""
    total, heads = 0, config.n_heads * config.d_head
    for _ in range(config.n_layers):
        for d_in, d_out in (
            (config.d_model, heads),
            (config.d_model, config.n_kv_heads * config.d_head),
            (config.d_model, config.n_kv_heads * config.d_head),
            (heads, config.d_model),
        ):
            total += 2 * d_in * d_out
        total += (3 if config.ffn == "swiglu" else 2) * 2 * config.d_model * config.d_ff
        for _ in range(config.n_heads):
            for _ in range(keys):
                total += 2 * config.d_head  # q · k
                total += 2 * config.d_head  # weight times v, added up
    return total + 2 * config.d_model * config.vocab_size


@pytest.mark.parametrize("fields", [{}, {"n_kv_heads": 1}, {"ffn": "gelu"}, {"tied": True}, {"window": 4}])
def test_flops_one_by_one(fields):
    config = change(**fields)
    for context in (1, 3, 9):
        keys = [min(t + 1, config.window or t + 1) for t in range(context)]
        assert flops_per_token(config, context)["total"] == count_one_by_one(config, keys[-1])
        assert flops(config, "decode", context, batch=3) == 3 * count_one_by_one(config, keys[-1])
        assert flops(config, "prefill", context, batch=2) == 2 * sum(count_one_by_one(config, n) for n in keys)


def test_flops_agree_with_the_operations_counted_for_decoding():
    counted = decode_operations(9, d_model=10, n_heads=4, n_kv_heads=2, d_head=6, d_ff=14, n_layers=3)
    head = 9 * 31 * 10
    assert flops(SMALL, "prefill", 9) == 2 * (sum(counted.values()) + head)


def test_the_2n_rule_and_its_attention_term():
    for config in EVERY.values():
        parts = flops_per_token(config, 1024)
        assert parts["total"] == parts["matmul"] + parts["attention"]
        assert parts["rule_2n"] == 2 * count_params(config)["total"]
    llama = flops_per_token(LLAMA2_7B, 4096)
    assert llama["attention"] == 4 * 32 * 4096 * 4096
    assert 0.97 < llama["matmul"] / llama["rule_2n"] < 1  # the embedding table is looked up, not multiplied
    assert 0.15 < llama["attention"] / llama["rule_2n"] < 0.17
    assert 0.95 < flops_per_token(LLAMA2_7B, 25_000)["attention"] / llama["rule_2n"] < 1  # as much as all weights
    qwen = flops_per_token(QWEN3_0_6B, 1)
    assert qwen["matmul"] / qwen["rule_2n"] > 0.999  # tied: the same table is looked up and multiplied


def test_a_window_caps_attention_and_cache():
    for context in (4096, 4097, 32_768):
        assert flops_per_token(MISTRAL_7B, context) == flops_per_token(MISTRAL_7B, 4096)
        assert kv_bytes(MISTRAL_7B, context) == 512 * MIB
    assert flops_per_token(MISTRAL_7B, 4095)["attention"] < flops_per_token(MISTRAL_7B, 4096)["attention"]


# Bytes


@pytest.mark.parametrize(
    ("config", "per_token"),
    [
        (GPT2_SMALL, 36 * KIB),
        (LLAMA2_7B, 512 * KIB),
        (LLAMA2_70B, 320 * KIB),
        (LLAMA3_8B, 128 * KIB),
        (MISTRAL_7B, 128 * KIB),
    ],
)
def test_cache_bytes_of_real_models(config, per_token):
    assert kv_bytes(config, 1) == per_token
    assert kv_bytes(config, 1000, batch=7) == 7000 * per_token
    assert kv_bytes(config, 1000, bytes_per_value=4) == 2 * kv_bytes(config, 1000)
    assert kv_bytes(config, 1000, bytes_per_value=0.5) == kv_bytes(config, 1000) / 4


def test_cache_bytes_are_those_of_a_cache():
    cache = KVCache(3, batch=2, n_kv_heads=2, max_len=9, d_head=6, dtype=np.float32)
    assert kv_bytes(SMALL, 9, batch=2, bytes_per_value=4) == cache.nbytes


def test_weight_bytes():
    assert weight_bytes(LLAMA2_7B) == 13_476_831_232
    assert weight_bytes(LLAMA2_7B, 0.5) == 13_476_831_232 / 4
    arrays = named_tensors(init_params(SMALL, seed=0)).values()
    assert weight_bytes(SMALL, 4) == sum(array.nbytes for array in arrays)


def test_bytes_moved():
    # all but the lookup tables, and the cache
    assert bytes_moved(LLAMA2_7B, 4096) == 2 * (6_738_415_616 - 32_000 * 4096) + 2 * GIB
    assert bytes_moved(GPT2_SMALL, 1) == 2 * (124_439_808 - 1024 * 768) + 36 * KIB  # the tied table is read as head
    one, two = bytes_moved(LLAMA3_8B, 512), bytes_moved(LLAMA3_8B, 512, batch=2)
    assert two - one == kv_bytes(LLAMA3_8B, 512)  # the weights serve the whole batch


# Intensity and roofline


def test_decode_is_bound_by_memory_and_prefill_by_arithmetic():
    edge = ridge(A100.peak_flops, A100.bandwidth)
    for config in (LLAMA2_7B, LLAMA2_70B, LLAMA3_8B, MISTRAL_7B):
        assert 0.9 < arithmetic_intensity(config, "decode", 1024) < 1.2 < edge
        assert arithmetic_intensity(config, "prefill", 1024) > 5 * edge
        batched = arithmetic_intensity(config, "decode", 1024, batch=32)
        assert 10 < batched < 33
        assert arithmetic_intensity(config, "decode", 1024, bytes_per_value=0.5) > 3.6
    # A batch shares the weights but not the cache: at long context more sequences help less.
    short = arithmetic_intensity(LLAMA2_7B, "decode", 128, batch=64)
    assert arithmetic_intensity(LLAMA2_7B, "decode", 32_768, batch=64) < short / 10


def test_intensity_is_flops_over_bytes():
    expected = flops(SMALL, "decode", 7, batch=3) / bytes_moved(SMALL, 7, batch=3, bytes_per_value=4)
    assert arithmetic_intensity(SMALL, "decode", 7, batch=3, bytes_per_value=4) == expected
    expected = flops(SMALL, "prefill", 7) / bytes_moved(SMALL, 7)
    assert arithmetic_intensity(SMALL, "prefill", 7) == expected


def test_roofline_by_hand():
    assert roofline(0.5, peak_flops=100.0, bandwidth=10.0) == 5
    assert roofline(50, peak_flops=100.0, bandwidth=10.0) == 100
    assert roofline(0, peak_flops=100.0, bandwidth=10.0) == 0
    np.testing.assert_array_equal(roofline([[1, 10, 100]], peak_flops=100, bandwidth=10), [[10, 100, 100]])
    assert ridge(100.0, 10.0) == 10
    assert roofline(ridge(H100.peak_flops, H100.bandwidth), H100.peak_flops, H100.bandwidth) == H100.peak_flops


@given(intensity=st.floats(0, 1e6), peak=st.floats(1, 1e15), bandwidth=st.floats(1, 1e13))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_roofline_is_the_lower_of_two_lines(intensity, peak, bandwidth):
    rate = roofline(intensity, peak, bandwidth)
    assert rate <= peak
    assert rate <= intensity * bandwidth
    assert rate in (peak, intensity * bandwidth)


def test_least_seconds():
    slow = Accelerator("slow memory", peak_flops=1e30, bandwidth=1e9)
    busy = Accelerator("slow arithmetic", peak_flops=1e9, bandwidth=1e30)
    for phase in ("prefill", "decode"):
        moved, done = bytes_moved(LLAMA3_8B, 300, batch=2), flops(LLAMA3_8B, phase, 300, batch=2)
        assert math.isclose(least_seconds(LLAMA3_8B, phase, 300, slow, batch=2), moved / 1e9)
        assert math.isclose(least_seconds(LLAMA3_8B, phase, 300, busy, batch=2), done / 1e9)
    # One sequence reads all weights for each token, so quantising them to a quarter makes decode four times faster.
    fast = least_seconds(LLAMA2_7B, "decode", 1, A100, bytes_per_value=0.5)
    assert math.isclose(least_seconds(LLAMA2_7B, "decode", 1, A100) / fast, 4)


BAD_CALLS = [
    (lambda: flops_per_token(SMALL, 0), "context must be an integer of at least 1, got 0"),
    (lambda: flops_per_token(SMALL, 2.0), "context must be an integer"),
    (lambda: flops(SMALL, "training", 4), "phase must be one of 'prefill', 'decode', got 'training'"),
    (lambda: flops(SMALL, "decode", -1), "context must be an integer of at least 1, got -1"),
    (lambda: flops(SMALL, "prefill", 4, batch=0), "batch must be an integer of at least 1, got 0"),
    (lambda: weight_bytes(SMALL, 0), "bytes_per_value must be a finite number above 0, got 0"),
    (lambda: weight_bytes(SMALL, float("nan")), "bytes_per_value must be a finite number"),
    (lambda: kv_bytes(SMALL, 0), "context must be an integer of at least 1, got 0"),
    (lambda: kv_bytes(SMALL, 4, batch=1.5), "batch must be an integer"),
    (lambda: kv_bytes(SMALL, 4, bytes_per_value=-2), "bytes_per_value must be a finite number above 0"),
    (lambda: bytes_moved(SMALL, 4, bytes_per_value=0), "bytes_per_value must be a finite number above 0"),
    (lambda: arithmetic_intensity(SMALL, "Decode", 4), "phase must be one of"),
    (lambda: arithmetic_intensity(SMALL, "decode", 0), "context must be an integer of at least 1"),
    (lambda: ridge(0, 1), "peak_flops must be a finite number above 0, got 0"),
    (lambda: ridge(1, float("inf")), "bandwidth must be a finite number above 0, got inf"),
    (lambda: roofline(-1, 1, 1), "intensity must be finite and at least 0"),
    (lambda: roofline(float("nan"), 1, 1), "intensity must be finite and at least 0"),
    (lambda: roofline(1, -1, 1), "peak_flops must be a finite number above 0"),
    (lambda: roofline(1, 1, 0), "bandwidth must be a finite number above 0"),
    (
        lambda: least_seconds(SMALL, "decode", 4, Accelerator("x", 1.0, 0.0)),
        "bandwidth must be a finite number above 0",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD_CALLS)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()
