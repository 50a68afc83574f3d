import json

import freeze_rope
import numpy as np
import pytest

from labkit.rope import attention_factor, frequencies, rotate

pytestmark = pytest.mark.oracle

LIVE = [(name, length) for name, case in freeze_rope.CASES.items() for length in case[-1]]


@pytest.mark.parametrize(("name", "length"), LIVE)
def test_frequencies_equal_those_of_transformers(agree, name, length):
    d_head, base, scaling, ours, _ = freeze_rope.CASES[name]
    freqs, factor = freeze_rope.theirs(d_head, base, scaling, ours, length)
    kind = (ours or {"kind": "no scaling"})["kind"]
    agree(f"RoPE frequencies, {kind}, each", frequencies(d_head, base, ours, length), freqs, 1e-6, each=True)
    agree(f"RoPE attention factor, {kind}", attention_factor(ours), factor, 1e-12)


def test_the_frozen_arrays_are_what_transformers_computes_now():
    with np.load(freeze_rope.GOLDEN) as file:
        frozen = {name: file[name] for name in file.files}
    cases = json.loads(str(frozen.pop("cases")))
    live = {f"rotate/{name}": array for name, array in freeze_rope.rotations().items()}
    for case in cases:
        name = case["key"].split("/")[1]
        d_head, base, scaling, ours, _ = freeze_rope.CASES[name]
        live[case["key"]], factor = freeze_rope.theirs(d_head, base, scaling, ours, case["length"])
        assert (case["d_head"], case["base"], case["scaling"]) == (d_head, base, ours)
        assert case["attention_factor"] == pytest.approx(factor, rel=1e-12)
    assert len(cases) == len(LIVE)
    assert frozen.keys() == live.keys()
    for name, array in live.items():
        np.testing.assert_allclose(frozen[name], array, rtol=1e-6, err_msg=name)


def random_case(kind, rng):
    """Draw a scaling in transformers' names and in labkit's, over and beyond what is in use."""
    d_head, base = 2 * int(rng.integers(2, 80)), float(np.exp(rng.uniform(1, 15)))
    factor, trained = float(rng.uniform(1, 50)), int(np.exp(rng.uniform(1.5, 12)))
    theirs, ours = {"rope_type": kind, "factor": factor}, {"kind": kind, "factor": factor}
    if kind != "linear":
        ours["original_max_len"] = trained
    if kind in ("yarn", "llama3"):
        theirs["original_max_position_embeddings"] = trained
    extra = {}
    if kind == "llama3":
        low = float(rng.uniform(0.2, 4))
        extra = {"low_freq_factor": low, "high_freq_factor": low + float(rng.uniform(0.1, 20))}
    if kind == "yarn":
        slow = float(rng.uniform(0.2, 4))
        extra = {"beta_slow": slow, "beta_fast": slow + float(rng.uniform(0.1, 60)), "truncate": bool(rng.integers(2))}
        if rng.integers(2):
            extra |= {"mscale": float(rng.uniform(0.1, 2)), "mscale_all_dim": float(rng.uniform(0.1, 2))}
        if rng.integers(3) == 0:
            extra["attention_factor"] = float(rng.uniform(0.5, 3))
    length = int(trained * rng.uniform(0.2, 5)) + 1 if kind == "dynamic" else None
    return d_head, base, theirs | extra, ours | extra, length


@pytest.mark.parametrize("kind", ["linear", "dynamic", "yarn", "llama3"])
def test_the_formulas_agree_far_beyond_float32(agree, monkeypatch, kind):
    import torch

    # transformers builds its frequencies in float32; the same code in float64 shows whether the formulas are the same
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(torch, "float32", torch.float64)
    rng = np.random.default_rng(11)
    for _ in range(100):
        d_head, base, theirs, ours, length = random_case(kind, rng)
        freqs, factor = freeze_rope.theirs(d_head, base, theirs, ours, length)
        assert freqs.dtype == np.float64
        mine = frequencies(d_head, base, ours, length)
        agree(f"RoPE frequencies, {kind}, formulas in float64, each", mine, freqs, 1e-10, each=True)
        agree(f"RoPE attention factor, {kind}, random", attention_factor(ours), factor, 1e-12)


def test_rotations_in_both_pairings(agree):
    arrays = freeze_rope.rotations()
    x, positions, freqs = arrays["x"], arrays["positions"][:, None], arrays["freqs"]
    agree("rotate, half-split (Llama's apply_rotary_pos_emb)", rotate(x, positions, freqs), arrays["half"], 1e-12)
    mine = rotate(x, positions, freqs, "interleaved")
    agree("rotate, interleaved (Cohere's apply_rotary_pos_emb)", mine, arrays["interleaved"], 1e-6)


@pytest.mark.parametrize("name", ["plain", "linear", "dynamic", "llama-3.1", "yarn-qwen2.5", "yarn-deepseek"])
def test_scores_of_turned_queries_and_keys(agree, name):
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

    d_head, base, scaling, ours, _ = freeze_rope.CASES[name]
    config = LlamaConfig(
        hidden_size=4 * d_head,
        num_attention_heads=4,
        head_dim=d_head,
        max_position_embeddings=(ours or {}).get("original_max_len", 4096),
        rope_parameters={"rope_theta": base} | (scaling or {"rope_type": "default"}),
    )
    rng = np.random.default_rng(5)
    q, k = rng.normal(size=(2, 3, 9, d_head)), rng.normal(size=(2, 3, 9, d_head))
    positions = 5000 + np.arange(9)  # past the trained length of the dynamic case
    with torch.no_grad():
        tensors = torch.from_numpy(q), torch.from_numpy(k)
        cos, sin = LlamaRotaryEmbedding(config)(tensors[0], torch.from_numpy(positions[None]))
        turned_q, turned_k = (each.numpy() for each in apply_rotary_pos_emb(*tensors, cos, sin))
    freqs, factor = frequencies(d_head, base, ours, length=5009), attention_factor(ours)
    mine_q, mine_k = (rotate(each, positions, freqs) * factor for each in (q, k))
    scores, mine = turned_q @ turned_k.swapaxes(-1, -2), mine_q @ mine_k.swapaxes(-1, -2)
    # their angles are float32: at position 5000 off by up to 5000 · 2⁻²⁴ radian and more
    agree("scores of turned q and k at positions 5000 …", mine, scores, 5e-4)
