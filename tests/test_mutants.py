"""Do the tests test? Break labkit in one place at a time: the module's own tests must fail each time."""

import functools
import inspect

import mutation
import numpy as np
import pytest

from labkit import attention, mask, softmax
from labkit.source import Source

# module: the mutants of its functions, each (function, a fragment of its source, what stands there instead)
MUTANTS = {
    "softmax": [
        ("softmax", "np.exp(x - top)", "np.exp(x)"),
        ("softmax", "np.exp(x - top)", "np.exp2(x - top)"),
        ("softmax", "np.where(total == 0, 1, total)", "total"),
        ("softmax", "axis=axis", "axis=-1"),
        ("softmax", ".astype(dtype, copy=False)", ""),
        ("softmax", 'np.errstate(over="ignore")', "np.errstate()"),
        ("log_softmax", "x - top - np.log(np.where(total == 0, 1, total))", "np.log(np.exp(x - top) / total)"),
        ("log_softmax", "x - top - np.log(", "x - np.log("),
        ("entropy", "np.log(", "np.log2("),
        ("entropy", "np.where(p > 0, p, 1)", "np.where(p > 0, p, 1) + 1e-9"),
        ("entropy", "0.0 - np.sum", "-np.sum"),
        ("softmax_jacobian", "- p[..., None, :]", "- p[..., :, None]"),
        ("softmax_jacobian", "np.eye(sizes[\"n\"], dtype=p.dtype) - p[..., None, :]", "1 - p[..., None, :]"),
        ("cross_entropy", "0.0 - log_p", "-log_p"),
        ("cross_entropy", "0.0 - log_p", "0.0 + log_p"),
        ("cross_entropy", "log_softmax(logits)", "np.log(softmax(logits))"),
        ("cross_entropy", "_check.ids", "()  # "),
        ("random_scores", "q = rng.normal(mean, std", "q = rng.normal(mean, 1"),
        ("scores_of_width", "/ np.sqrt(d_k)", "/ d_k"),
        ("scores_of_width", "if scaled", "if not scaled"),
        ("scores_of_width", "k[..., :d_k]", "k[..., -d_k:]"),
        ("saturation", ".max(axis=(-2, -1))", ".mean(axis=(-2, -1))"),
        ("saturation", "np.var(scores)", "np.var(p)"),
        ("_prepare", "np.any(top == np.inf)", "False"),
        ("_prepare", "np.where(top == -np.inf, 0, top)", "top"),
    ],
    "attention": [
        ("linear", "y += b", "y -= b"),
        ("linear", "_check.working(x, w, b)", "(*map(np.asarray, (x, w)), b, np.result_type(x, w))"),
        ("project_qkv", "linear(source, w_v, b_v)", "linear(source, w_k, b_v)"),
        ("project_qkv", "linear(x, w_q, b_q)", "linear(source, w_q, b_q)"),
        ("project_qkv", "linear(source, w_k, b_k)", "linear(source, w_k, b_q)"),
        ("scaled_dot_product_attention", "1 / math.sqrt(sizes[\"d_k\"])", "1"),
        ("scaled_dot_product_attention", "1 / math.sqrt(sizes[\"d_k\"])", "1 / sizes[\"d_k\"]"),
        ("scaled_dot_product_attention", "(q * scale) @", "q @"),
        ("scaled_dot_product_attention", "masked(scores, mask)", "masked(scores, None)"),
        ("scaled_dot_product_attention", "_weighted_sum(weights, v)", "(weights @ v)"),
        ("scaled_dot_product_attention", "softmax(masked(", "softmax(axis=-2, x=masked("),
        ("masked", "np.where(mask, scores, -np.inf)", "np.where(mask, -np.inf, scores)"),
        ("masked", "np.where(mask, scores, -np.inf)", "np.where(mask, scores, -1e9)"),
        ("masked", "np.where(mask == -np.inf, -np.inf, scores + mask)", "scores + mask"),
        ("masked", "[-2:] == scores.shape[-2:]", "[-1:] == scores.shape[-1:]"),
        ("_weighted_sum", "np.where(touched, np.nan,", "np.where(False, np.nan,"),
    ],
    "mask": [
        ("causal_mask", "<=", "<"),
        ("causal_mask", "<=", ">="),
        ("causal_mask", " + (S - T)", ""),
        ("causal_mask", "<= np.arange(T)[:, None] + (S - T)", "<= np.arange(T)[:, None] + (S - T) + 1"),
        ("sliding_window_mask", "age < window", "age <= window"),
        ("sliding_window_mask", "(age >= 0) & ", ""),
        ("sliding_window_mask", " + (S - T)", ""),
        ("padding_mask", 'side == "right"', 'side == "left"'),
        ("padding_mask", ">= T - lengths", "> T - lengths"),
        ("padding_positions", "np.cumsum(real, axis=-1) - 1", "np.arange(T)"),
        ("padding_positions", "np.where(real, np.cumsum(real, axis=-1) - 1, 0)", "np.cumsum(real, axis=-1) - 1"),
        ("to_additive", "np.where(mask, 0, -np.inf)", "np.where(mask, -np.inf, 0)"),
        ("to_additive", "-np.inf", "-1e9"),
        ("combine", "logical_and", "logical_or"),
        ("combine", "if mask is not None", ""),
        ("leaks", "found[:j, j] = ~same[:j]", "found[:j, j] = ~same[-1:].repeat(j, 0)"),
        ("leaks", "found[:j, j]", "found[j, :j]"),
        ("leaks", "(1 + np.abs(here)) * rng.normal(size=here.shape)", "rng.normal()"),
        ("leaks", "equal_nan=True", "equal_nan=False"),
        ("leaks", "fn(changed)", "fn(x.copy())"),
    ],
    "heads": [
        ("split_heads", "n_heads, d_head).swapaxes(-2, -3)", "d_head, n_heads).swapaxes(-2, -3).swapaxes(-1, -3)"),
        ("split_heads", ".swapaxes(-2, -3)", ""),
        ("split_heads", "if rest:", "if False:"),
        ("concat_heads", ".swapaxes(-2, -3)", ".swapaxes(-1, -3)"),
        ("multi_head_attention", "split_heads(each, n_heads)", "split_heads(each, 1)"),
        ("multi_head_attention", "linear(concat_heads(heads), w_o)", "concat_heads(heads)"),
        ("multi_head_attention", "q, k, v, mask,", "q, k, v, None,"),
        ("multi_head_attention", "w_q, w_k, w_v, context)", "w_q, w_k, w_v)"),
        ("multi_head_attention", "[:, None, None], heads, 0)", "[:, None, None], heads, heads.mean())"),
        ("multi_head_attention", "_one_for_each_head(keep_heads, n_heads)", "~_one_for_each_head(keep_heads, n_heads)"),
        ("multi_head_attention", "weights.astype(dtype, copy=False)", "weights"),
        ("_one_for_each_head", "keep_heads.dtype != bool or", ""),
    ],
    "norm": [
        ("layer_norm", "- x.mean(axis=-1, keepdims=True, dtype=np.float64)", ""),
        ("layer_norm", "+ eps)", ") + eps"),
        ("layer_norm", "np.mean(centred**2, axis=-1, keepdims=True)", "np.var(x, axis=-1, ddof=1, keepdims=True)"),
        (
            "layer_norm",
            "np.mean(centred**2, axis=-1, keepdims=True)",
            "np.mean(x**2, axis=-1, keepdims=True) - np.mean(x, axis=-1, keepdims=True) ** 2",
        ),
        ("layer_norm", "eps=1e-5", "eps=1e-6"),
        ("layer_norm", "y + bias", "y - bias"),
        ("layer_norm", "np.where(root == 0, 1, root)", "root"),
        ("layer_norm", ", dtype=np.float64", ""),
        ("rms_norm", "mean_square + eps", "mean_square"),
        ("rms_norm", "np.sqrt(mean_square + eps)", "np.sqrt(mean_square) + eps"),
        ("rms_norm", "np.mean(np.square", "np.sum(np.square"),
        ("rms_norm", "np.square(x, dtype=np.float64)", "np.square(x)"),
        ("rms_norm", " * weight)", ")"),
        ("rms_norm", "np.mean(np.square(x,", "np.mean(np.square(x - x.mean(axis=-1, keepdims=True),"),
        ("rms_norm", "axis=-1", "axis=None"),
    ],
    "kv_cache": [
        (
            "repeat_kv",
            'np.repeat(x, _group_size(n_heads, sizes["G"]), axis=-3)',
            'np.concatenate([x] * _group_size(n_heads, sizes["G"]), axis=-3)',
        ),
        ("grouped_query_attention", "_grouped_mask(mask, groups), scale", "None, scale"),
        ("grouped_query_attention", "*groups, *q.shape[-2:])", "*groups[::-1], *q.shape[-2:]).swapaxes(-3, -4)"),
        ("cached_attention", "k_all, v_all, mask, scale)", "k_all, v_all, None, scale)"),
        ("cached_attention", "_check.number(scale=scale)", "pass"),
        ("KVCache.append", "+= (new >= 0).sum(axis=1)", "+= T"),
        ("KVCache.append", "len(self._appended) == self.n_layers", "True"),
        ("KVCache.append", "self._step, self._appended = T, ", "self._appended = "),
        (
            "KVCache._next_step",
            "self._expected, self._planned = None, None",
            "self._expected, self._planned = getattr(self, '_expected', None), None",
        ),
        (
            "KVCache._next_step",
            "self._expected, self._planned = None, None",
            "self._expected, self._planned = None, getattr(self, '_planned', None)",
        ),
        ("KVCache.append", "self._lock(True)", "pass"),
        ("KVCache.positions", "np.maximum(self._new(T)[0], 0)", "self._new(T)[0]"),
        ("KVCache.mask", "(keys >= 0) & ", ""),
        ("KVCache.mask", "keys <= queries)", "keys <= queries + 1)"),
        ("KVCache.mask", "keys > queries - self._span", "keys >= queries - self._span"),
        ("KVCache._put", " and self.window is None", ""),
        ("KVCache._put", "out.flags.writeable = False", "pass"),
        ("KVCache._put", "new[row, column] % capacity", "column"),
        ("KVCache._put", "[old, x]", "[x, old]"),
        ("KVCache._kept", "self._span - 1", "self._span"),
        ("KVCache._kept", "self._span - 1", "self._span - 2"),
        ("KVCache._plan", "self._lengths[:, None] + index", "index"),
        ("KVCache._plan", 'side == "left"', 'side == "right"'),
        ("KVCache._plan", "> self.max_len", "> self.max_len + 1"),
        ("KVCache._plan", "self._step not in (None, T)", "False"),
        ("KVCache._check_append", "layer in self._appended", "False"),
        ("KVCache.fork", "self._k.copy(), self._v.copy()", "self._k, self._v"),
        ("KVCache.fork", "self._lengths.copy()", "self._lengths"),
        ("KVCache.reset", "self._lengths = ", "self._lengths = self._lengths if hasattr(self, '_lengths') else "),
        ("KVCache.reset", "self._k, self._v = ", "self._k, self._v = (self._k, self._v) if hasattr(self, '_k') else "),
        ("KVCache.reset", "self._next_step()", "hasattr(self, '_step') or self._next_step()"),
        ("KVCache.expect", "side), None", "side), self._planned"),
        ("KVCache._new", "self._planned is None or self._planned[0] != T", "self._planned is None"),
        ("KVCache.lengths", ".copy()", ""),
        ("cache_bytes", "2 * n_layers", "n_layers"),
        ("cache_bytes", "min(context, window)", "context"),
        ("decode_operations", "(T, once) if cached", "(T, T) if cached"),
        ("decode_operations", "d_head * (n_heads + n_kv_heads)", "d_head * 2 * n_heads"),
        ("_grouped_mask", "heads not in", "False and heads not in"),
    ],
    "rope": [
        ("frequencies", "-np.arange(0, d_head, 2) / d_head", "-np.arange(0, d_head, 2) / (d_head + 2)"),
        ("frequencies", "plain / scaling.factor", "plain"),
        ("frequencies", "(length or 1)", "2 * (length or 1)"),
        ("frequencies", "max(1.0, ", "(lambda _, stretch: stretch if length else 1)(1.0, "),
        ("frequencies", "kept + (1 - kept) / scaling.factor", "kept / scaling.factor + (1 - kept)"),
        ("ntk_base", "factor ** (d_head / (d_head - 2))", "factor"),
        ("attention_factor", "growth + 1", "1.0"),
        ("attention_factor", "math.log(", "math.log2("),
        ("rotate", "a * cos - b * sin", "a * cos + b * sin"),
        ("rotate", "a * sin + b * cos", "b * cos"),
        ("rotate", "np.cos(angles).astype(x.dtype)", "np.cos(angles.astype(x.dtype))"),
        ("rotate", "np.asarray(freqs, dtype=np.float64)", "np.asarray(freqs, dtype=np.float32)"),
        ("rotate", 'pairing="half"', 'pairing="interleaved"'),
        ("rotate", "_check.working(x)", "(x, x.dtype)"),
        ("_pairs", 'pairing == "half"', 'pairing != "half"'),
        ("_positions", "positions + np.arange(T)", "np.arange(T)"),
        ("_positions", "positions.min(initial=0) < 0", "False"),
        ("_positions", "own = positions.ndim == len(leading) and", "own = positions.ndim < 3 or"),
        ("interleaved_to_half", ".transpose(0, 2, 1)", ""),
        ("interleaved_to_half", "reshape(n_heads, -1, 2)", "reshape(1, -1, 2)"),
        ("half_to_interleaved", "reshape(n_heads, 2, -1)", "reshape(n_heads, -1, 2)"),
        ("_kept_by_llama3", "(turns - low) / (high - low)", "(1 / low - 1 / turns) / (1 / low - 1 / high)"),
        ("_kept_by_yarn", "(math.floor(ends[0]), math.ceil(ends[1]))", "ends"),
        ("_kept_by_yarn", "0.001 *", "0 *"),
        ("_kept_by_yarn", "return 1 - np", "return np"),
        ("rotate_stream_once", "rotate(x, start,", "rotate(x, 0,"),
    ],
    "flash": [
        ("online_softmax", "total * np.exp(old - _finite(top))", "total"),
        ("online_softmax", "np.maximum(top, _top(x[..., columns]))", "_top(x[..., columns])"),
        ("flash_attention", "copy=False) * scale", "copy=False)"),
        ("flash_attention", "masked(scores, visible(rows, columns, T, S, causal, window))", "scores"),
        ("flash_attention", "None if mask is None else mask[head][rows, columns]", "None"),
        ("flash_attention", "*reach(rows, T, S, block_k, causal, window)", "0, S"),
        (
            "flash_attention",
            "merge(part, partial_attention(scores, v[head][columns]))",
            "partial_attention(scores, v[head][columns])",
        ),
        ("flash_attention", 'np.errstate(invalid="ignore", over="ignore")', "np.errstate()"),
        ("partial_attention", "weights /= _positive(total)[..., None]", "pass"),
        ("partial_attention", "_weighted_sum(weights, ", "np.matmul(weights, "),
        ("merge", "a.total * np.exp(a.top - _finite(top))", "a.total"),
        ("merge", "b.total * np.exp(b.top - _finite(top))", "b.total"),
        ("merge", "np.maximum(a.top, b.top)", "b.top"),
        ("merge", "np.where(share_a == 0, 0, share_a * a.out)", "share_a * a.out"),
        ("merge", "np.where(share_b == 0, 0, share_b * b.out)", "share_b * b.out"),
        ("log_sum_exp", "part.top + ", ""),
        ("blocks", "min(first + size, stop)", "first + size"),
        ("reach", "rows.start + S - T", "rows.start"),
        ("reach", "oldest - window + 1", "oldest - window"),
        ("reach", "newest + 1", "newest"),
        ("reach", "first // block_k * block_k", "first"),
        ("visible", " + S - T", ""),
        ("visible", "key <= query if", "key < query if"),
        ("visible", "key > query - window", "key >= query - window"),
        ("_finite", "np.where(top == -np.inf, 0, top)", "top"),
        ("_positive", "np.where(total == 0, 1, total)", "total"),
        ("_top", "np.any(top == np.inf)", "False"),
        ("count_tiles", "math.ceil(", "math.floor("),
        ("naive_traffic", "4 * T * S", "3 * T * S"),
        ("tiled_traffic", "stop - first", "2 * (stop - first)"),
        ("blocks_that_fit", "2 * width", "3 * width"),
        ("floats_on_chip", " + block_q * block_k", ""),
    ],
}  # fmt: skip
CASES = [(module, i) for module, mutants in MUTANTS.items() for i in range(len(mutants))]


@functools.cache
def outcomes(module):
    mutants = [(module, *mutant) for mutant in MUTANTS[module]]
    return mutation.outcomes(mutation.ROOT / "tests" / f"test_{module}.py", mutants)


@pytest.mark.parametrize("module", MUTANTS)
def test_the_unbroken_module_passes(module):
    assert outcomes(module)[0] == [0, ""]


@pytest.mark.parametrize(("module", "i"), CASES)
def test_the_mutant_is_caught(module, i):
    code, why = outcomes(module)[i + 1]
    assert code == 1, why or f"survived: {MUTANTS[module][i]}"


# --- the mechanism ------------------------------------------------------------------------------------------------


def test_what_is_not_broken_is_not_reported(tmp_path):
    file = tmp_path / "test_small.py"
    file.write_text(
        "from labkit.mask import causal_mask\n\n"
        "def test_first_row():\n    assert causal_mask(3)[0].tolist() == [True, False, False]\n\n"
        "def test_last_row():\n    assert causal_mask(3)[2].all()\n"
    )
    mutants = [
        ("mask", "causal_mask", "<=", "<="),  # the same
        ("mask", "causal_mask", "(S - T)", "(S - T) + 0 * T"),  # means the same
        ("softmax", "softmax", "x - top", "x"),  # broken, but not tested here
        ("mask", "causal_mask", "<=", "<"),
        ("mask", "causal_mask", "<=", ">="),
        ("mask", "causal_mask", "np.arange(T)[:, None]", "0 * np.arange(T)[:, None]"),
        ("mask", "causal_mask", "no such text", ""),
        ("mask", "no_such_function", "<=", "<"),
        ("mask", "causal_mask", "<=", "<= <="),
    ]
    codes, failed = zip(*mutation.outcomes(file, mutants), strict=True)
    assert codes == (0, 0, 0, 0, 1, 1, 1, -1, -1, -1)
    assert [name.rpartition("::")[2] for name in failed[4:7]] == ["test_first_row", "test_first_row", "test_last_row"]


def test_a_test_file_that_cannot_run_is_no_catch(tmp_path):
    (tmp_path / "test_broken.py").write_text("import no_such_module\n")
    (tmp_path / "test_empty.py").write_text("")
    assert mutation.outcomes(tmp_path / "test_broken.py", [])[0][0] not in (0, 1)
    assert mutation.outcomes(tmp_path / "test_empty.py", [])[0][0] not in (0, 1)


def test_every_alias_sees_the_mutant_and_afterwards_none():
    x = np.array([1.0, 3.0])
    right = softmax.softmax(x).tolist()
    assert attention.softmax is softmax.softmax
    source = inspect.getsource(softmax.softmax)
    with mutation.apply("softmax", "softmax", "x - top", "-(x - top)"):
        assert attention.softmax(x) == pytest.approx(right[::-1], rel=1e-12)
        assert inspect.getsource(softmax.softmax) == source
    assert attention.softmax(x).tolist() == right
    with pytest.raises(KeyError), mutation.apply("softmax", "softmax", "x - top", "-(x - top)"):
        raise KeyError
    assert softmax.softmax(x).tolist() == right


def test_defaults_methods_and_properties_are_swapped_too():
    with mutation.apply("mask", "causal_mask", "S=None", "S=4"):
        assert mask.causal_mask(2).shape == (2, 4)
    assert mask.causal_mask(2).shape == (2, 2)
    shown = Source(mask.causal_mask)
    with mutation.apply("source", "Source.__repr__", "self.text", "'broken'"):
        assert repr(shown) == "broken"
    assert repr(shown) == shown.text


@pytest.mark.parametrize(("fragment", "times"), [("x + top", 0), ("total", 3), ("Parameters", 0)])
def test_the_fragment_must_occur_exactly_once_outside_the_docstring(fragment, times):
    with pytest.raises(ValueError, match=rf"occurs {times} times in the source of labkit\.softmax\.softmax"):
        mutation.swap("softmax", "softmax", fragment, "")
