"""Public checkpoints: safetensors directories of GPT-2 and of the Llama family, read into labkit's parameters.

A checkpoint is a directory. `config.json` says what the model is, `model.safetensors` (or several files and an index)
holds its weights under the names of the code that wrote them, `tokenizer.json` its vocabulary. Nothing here runs code
from a checkpoint, and no weight is ever made up: what is missing, extra or mis-shaped is an error.
"""

import json
import math
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labkit import _check
from labkit.model import ModelConfig, assemble, parameter_shapes
from labkit.tokenizer import ForeignTokenizer, is_ours, read_tokenizer

# labkit's name of a weight: the stored name. Three weights under one stored name lie side by side in it.
_GPT2_NAMES = {
    "embedding": "wte.weight",
    "positions": "wpe.weight",
    "final_norm.weight": "ln_f.weight",
    "final_norm.bias": "ln_f.bias",
    "attention_norm.weight": "ln_1.weight",
    "attention_norm.bias": "ln_1.bias",
    "attention.w_q": "attn.c_attn.weight",
    "attention.w_k": "attn.c_attn.weight",
    "attention.w_v": "attn.c_attn.weight",
    "attention.b_q": "attn.c_attn.bias",
    "attention.b_k": "attn.c_attn.bias",
    "attention.b_v": "attn.c_attn.bias",
    "attention.w_o": "attn.c_proj.weight",
    "attention.b_o": "attn.c_proj.bias",
    "ffn_norm.weight": "ln_2.weight",
    "ffn_norm.bias": "ln_2.bias",
    "ffn.w_up": "mlp.c_fc.weight",
    "ffn.b_up": "mlp.c_fc.bias",
    "ffn.w_down": "mlp.c_proj.weight",
    "ffn.b_down": "mlp.c_proj.bias",
}
_LLAMA_NAMES = {
    "embedding": "embed_tokens.weight",
    "final_norm.weight": "norm.weight",
    "attention_norm.weight": "input_layernorm.weight",
    "attention.w_q": "self_attn.q_proj.weight",
    "attention.w_k": "self_attn.k_proj.weight",
    "attention.w_v": "self_attn.v_proj.weight",
    "attention.w_o": "self_attn.o_proj.weight",
    "attention.b_q": "self_attn.q_proj.bias",
    "attention.b_k": "self_attn.k_proj.bias",
    "attention.b_v": "self_attn.v_proj.bias",
    "attention.b_o": "self_attn.o_proj.bias",
    "attention.q_norm": "self_attn.q_norm.weight",
    "attention.k_norm": "self_attn.k_norm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn.w_gate": "mlp.gate_proj.weight",
    "ffn.w_up": "mlp.up_proj.weight",
    "ffn.w_down": "mlp.down_proj.weight",
}
# GPT-2 stores [d_in, d_out] as labkit does, the others [d_out, d_in]. Buffers hold no weights: masks and frequencies.
_GPT2 = {"prefix": "transformer.", "layer": "h", "names": _GPT2_NAMES, "transposed": False}
_GPT2["buffers"] = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")
_LLAMA = {"prefix": "model.", "layer": "layers", "names": _LLAMA_NAMES, "transposed": True}
_LLAMA["buffers"] = re.compile(r"(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq")

_DTYPES = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
_SIZES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2}
_SIZES |= {"F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1}
_LONGEST_HEADER = 100_000_000  # bytes; what the format allows
_CHUNK = 2**18  # values widened at a time, so that no second copy of a tensor is ever held

_GELUS = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu_fast": "tanh", "gelu": "none"}
_ROPE_KEYS = {"rope_type", "type", "rope_theta", "factor", "original_max_position_embeddings", "partial_rotary_factor"}
_ROPE_KEYS |= {"finetuned"}  # a note in older files, without effect
_KIND_KEYS = {
    "default": (),
    "linear": (),
    "dynamic": (),
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "llama3": ("low_freq_factor", "high_freq_factor"),
}


@dataclass(frozen=True)
class StoredTensor:
    """Where one tensor lies: its file, its dtype in the format's words, its shape, and its first byte.

    Examples
    --------
    >>> StoredTensor(Path("model.safetensors"), "F16", (50, 12), 800).size
    600
    """

    file: Path
    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def size(self):
        """How many values the tensor has."""
        return math.prod(self.shape)


def load(path, progress=None):
    """Read a checkpoint: its weights, in float32, and its config.

    Parameters
    ----------
    path : str or Path
        A directory with `config.json` and `model.safetensors`, or `model.safetensors.index.json` and the files that it
        names.
    progress : callable, optional
        Called with the number of values read and the number in all, after every tensor. Default: a bar on the standard
        error stream, if the load takes more than a second.

    Returns
    -------
    Params
    ModelConfig

    Raises
    ------
    ValueError
        If a file is missing, truncated or not what its name says; if the architecture, activation or scaling is none
        that labkit computes; if a tensor is missing, unexpected, of another shape or dtype than the config asks for,
        or not finite.

    Notes
    -----
    Weights stored in float16 and bfloat16 are widened to float32, exactly. Files are mapped into memory piece by piece:
    at no time is there more than the float32 weights and a few megabytes. Stored [d_out, d_in], a matrix is turned by
    a view, which costs nothing.

    Examples
    --------
    >>> from labkit import trained
    >>> params, config = load(trained.path("novel"))
    >>> params.embedding.shape, config.n_layers
    ((512, 128), 4)
    """
    path = _directory(path)
    raw = _json(path / "config.json")
    config, family = _model_config(raw), _family(raw)
    stored = find_tensors(path)
    plan = _plan(config, family, stored)
    progress = _Bar() if progress is None else progress
    total, done, tensors = sum(stored[name].size for name in plan), 0, {}
    for name, parts in plan.items():
        array = read_tensor(stored[name], name)
        ends = np.cumsum([width for _, width in parts])[:-1]
        for (ours, _), piece in zip(parts, np.split(array, ends, axis=-1), strict=True):
            tensors[ours] = piece.T if _is_turned(family, ours) else piece
        done += array.size
        progress(done, total)
    _check_tie(config, tensors)
    return assemble(config, tensors), config


def read_config(path):
    """Read what a checkpoint's `config.json` says, as labkit's config.

    Parameters
    ----------
    path : str or Path
        The checkpoint's directory.

    Returns
    -------
    ModelConfig

    Raises
    ------
    ValueError
        If there is no such file, it is not JSON, a size is missing, or the model is none that labkit computes.

    Examples
    --------
    >>> from labkit import trained
    >>> config = read_config(trained.path("novel"))
    >>> config.d_model, config.n_heads, config.n_kv_heads
    (128, 4, 2)
    """
    return _model_config(_json(_directory(path) / "config.json"))


def find_tensors(path):
    """List every tensor of a checkpoint and where it lies, without reading any.

    Parameters
    ----------
    path : str or Path
        The checkpoint's directory.

    Returns
    -------
    dict of str to StoredTensor

    Raises
    ------
    ValueError
        If there are no safetensors, or files and index disagree.

    Examples
    --------
    >>> from labkit import trained
    >>> tensors = find_tensors(trained.path("novel"))
    >>> tensors["model.embed_tokens.weight"].shape
    (512, 128)
    """
    path = _directory(path)
    if (path / "model.safetensors").exists():
        return read_header(path / "model.safetensors")
    index = path / "model.safetensors.index.json"
    if not index.exists():
        pickles = sorted(file.name for file in path.iterdir() if file.suffix in (".bin", ".pt", ".pth", ".ckpt"))
        never = f"; {pickles[0]} is pickled, and unpickling runs code, so it is not read" if pickles else ""
        raise ValueError(f"{path} has neither model.safetensors nor model.safetensors.index.json{never}")
    places, found = _weight_map(index), {}
    for file in sorted(set(places.values())):
        for name, tensor in read_header(path / file).items():
            if places.get(name) != file:
                said = f"places it in {places[name]}" if name in places else "does not list it"
                raise ValueError(f"{file} holds tensor {name!r}, but {index.name} {said}")
            found[name] = tensor
    for name, file in places.items():
        if name not in found:
            raise ValueError(f"{index.name} places tensor {name!r} in {file}, which does not hold it")
    return found


def read_header(file):
    """Read which tensors a safetensors file holds, and where.

    Parameters
    ----------
    file : str or Path

    Returns
    -------
    dict of str to StoredTensor

    Raises
    ------
    ValueError
        If the file is missing, truncated, padded, or not in the format.

    Notes
    -----
    The format: 8 bytes that say how long the header is (an unsigned integer, lowest byte first), the header in JSON,
    then the values of one tensor after the other. For each tensor the header says dtype, shape, and first and last
    byte. https://github.com/huggingface/safetensors

    Examples
    --------
    >>> from labkit import trained
    >>> read_header(trained.path("novel") / "model.safetensors")["model.norm.weight"].dtype
    'F16'
    """
    file = Path(file)
    if not file.is_file():
        raise ValueError(f"{file} is missing")
    size = file.stat().st_size
    with open(file, "rb") as opened:
        start = opened.read(8)
        length = int.from_bytes(start, "little")
        if length > min(size - 8, _LONGEST_HEADER):
            raise ValueError(f"{file.name} {_taken_for(start)}: its header claims {length} of {size} bytes")
        header = _parse(opened.read(length), f"the header of {file.name}")
    header.pop("__metadata__", None)
    tensors, expected = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: _offsets(file, *item)):
        first, last = _offsets(file, name, entry)
        tensor = _entry(file, name, entry, 8 + length + first)
        if first != expected or last - first != tensor.size * _SIZES[tensor.dtype]:
            needed = f"bytes {expected} to {expected + tensor.size * _SIZES[tensor.dtype]}"
            raise ValueError(f"{file.name}: tensor {name!r} should take {needed}, its offsets say {first} to {last}")
        tensors[name], expected = tensor, last
    if 8 + length + expected != size:
        raise ValueError(f"{file.name} should have {8 + length + expected} bytes by its header, it has {size}")
    return tensors


def read_tensor(tensor, name="tensor"):
    """Read one tensor's values and widen them to float32.

    Parameters
    ----------
    tensor : StoredTensor
    name : str
        What to call it in an error.

    Returns
    -------
    float32 array of the stored shape

    Raises
    ------
    ValueError
        If its dtype is not float32, float16 or bfloat16, or a value is NaN or infinite.

    Notes
    -----
    A bfloat16 is the upper half of a float32: its bits, moved up by 16, are that float32.

    Examples
    --------
    >>> from labkit import trained
    >>> tensors = find_tensors(trained.path("novel"))
    >>> read_tensor(tensors["model.norm.weight"]).shape
    (128,)
    """
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"{name} is stored as {tensor.dtype}, expected one of {', '.join(_DTYPES)}")
    stored, out = _DTYPES[tensor.dtype], np.empty(tensor.shape, np.float32)
    flat = out.reshape(-1)
    for first in range(0, tensor.size, _CHUNK):
        count = min(_CHUNK, tensor.size - first)
        piece = np.memmap(tensor.file, stored, "r", tensor.start + first * stored.itemsize, (count,))
        if tensor.dtype == "BF16":
            piece = (piece.astype(np.uint32) << 16).view(np.float32)
        flat[first : first + count] = piece
        if not np.isfinite(flat[first : first + count]).all():
            raise ValueError(f"{name} holds NaN or infinity: the checkpoint is damaged")
    return out


def load_tokenizer(path):
    """Read a checkpoint's tokenizer.

    Parameters
    ----------
    path : str or Path
        The checkpoint's directory.

    Returns
    -------
    Tokenizer or ForeignTokenizer
        labkit's own where `tokenizer.json` is one that it understands, otherwise one that the optional package
        `tokenizers` runs. Both encode, decode, and know their ids.

    Raises
    ------
    ValueError
        If there is no `tokenizer.json`, it is damaged, or it needs `tokenizers` and that is not installed.

    Examples
    --------
    >>> from labkit import trained
    >>> load_tokenizer(trained.path("novel")).encode(" the the").shape
    (2,)
    """
    file = _directory(path) / "tokenizer.json"
    described = _json(file)
    return read_tokenizer(file) if is_ours(described) else ForeignTokenizer(file)


def stop_tokens(path):
    """Return the token ids that end a text, as the checkpoint's files name them.

    Parameters
    ----------
    path : str or Path
        The checkpoint's directory. `generation_config.json` counts before `config.json`.

    Returns
    -------
    tuple of int
        Empty where no file names one.

    Raises
    ------
    ValueError
        If what is named is not token ids of the model.

    Examples
    --------
    >>> from labkit import trained
    >>> stop_tokens(trained.path("novel"))
    ()
    """
    path = _directory(path)
    config = read_config(path)
    named = _json(path / "config.json").get("eos_token_id")
    if (path / "generation_config.json").exists():
        named = _json(path / "generation_config.json").get("eos_token_id", named)
    named = [] if named is None else named if isinstance(named, list) else [named]
    for token in named:
        _check.integer(at_least=0, at_most=config.vocab_size - 1, eos_token_id=token)
    return tuple(named)


class _Bar:
    """A progress bar on the standard error stream, which shows itself only after a second."""

    def __init__(self):
        self.began, self.shown = time.monotonic(), False

    def __call__(self, done, total):
        if self.shown or time.monotonic() - self.began > 1:
            self.shown = True
            cells = 40 * done // total
            end = "\n" if done == total else ""
            print(
                f"\rreading weights |{'█' * cells:<40}| {100 * done // total:3} %", end=end, file=sys.stderr, flush=True
            )


def _model_config(raw):
    """Return labkit's config for a config.json."""
    family, kind = _family(raw), _kind(raw)
    if raw.get("quantization_config") is not None:
        raise ValueError("config.json: the weights are quantised, expected float32, float16 or bfloat16")
    try:
        return ModelConfig(**(_gpt2_settings(raw) if family is _GPT2 else _llama_settings(raw, kind)))
    except ValueError as error:
        raise ValueError(f"config.json: {error}") from None


def _gpt2_settings(raw):
    _only(raw, scale_attn_weights=True, scale_attn_by_inverse_layer_idx=False, add_cross_attention=False)
    activation = raw.get("activation_function", "gelu_new")
    _check.choice(tuple(_GELUS), activation_function=activation)
    width = _needed(raw, "n_embd")
    _check.integer(at_least=1, n_embd=width)
    return {
        "vocab_size": _needed(raw, "vocab_size"),
        "max_len": _needed(raw, "n_positions"),
        "d_model": width,
        "n_layers": _needed(raw, "n_layer"),
        "n_heads": _needed(raw, "n_head"),
        "d_ff": 4 * width if raw.get("n_inner") is None else raw["n_inner"],
        "eps": raw.get("layer_norm_epsilon", 1e-5),
        "tied": raw.get("tie_word_embeddings", True),
        "norm": "layer",
        "ffn": "gelu",
        "gelu": _GELUS[activation],
        "positions": "learned",
        "attention_bias": True,
        "output_bias": True,
        "ffn_bias": True,
    }


def _llama_settings(raw, kind):
    _only(raw, mlp_bias=False)
    _check.choice(("silu", "swish"), hidden_act=raw.get("hidden_act", "silu"))
    biased = raw.get("attention_bias", False)
    base, scaling = _rope(raw)
    return {
        "vocab_size": _needed(raw, "vocab_size"),
        "max_len": _needed(raw, "max_position_embeddings"),
        "d_model": _needed(raw, "hidden_size"),
        "n_layers": _needed(raw, "num_hidden_layers"),
        "n_heads": _needed(raw, "num_attention_heads"),
        "n_kv_heads": raw.get("num_key_value_heads") if kind == "llama" else _needed(raw, "num_key_value_heads"),
        "d_head": _needed(raw, "head_dim") if kind == "qwen3" else raw.get("head_dim"),
        "d_ff": _needed(raw, "intermediate_size"),
        "eps": raw.get("rms_norm_eps", 1e-6),
        "tied": raw.get("tie_word_embeddings", False),
        "base": base,
        "rope_scaling": scaling,
        "attention_bias": True if kind == "qwen2" else biased if kind != "mistral" else False,
        "output_bias": biased if kind in ("llama", "qwen3") else False,
        "qk_norm": kind == "qwen3",
        "window": _window(raw, kind),
    }


def _window(raw, kind):
    """Return the sliding window that every layer has, or None."""
    n_layers = _needed(raw, "num_hidden_layers")
    if kind == "llama":
        _only(raw, sliding_window=None)
        return None
    if kind == "mistral":
        return raw.get("sliding_window", 4096)
    if raw.get("use_sliding_window", False) is False or raw.get("sliding_window") is None:
        kinds = {"full_attention"}
    else:
        first = _needed(raw, "max_window_layers")
        _check.integer(at_least=0, max_window_layers=first, num_hidden_layers=n_layers)
        kinds = {"full_attention"} if first >= n_layers else {"sliding_attention"}
        kinds |= {"full_attention"} if first > 0 else set()
    if raw.get("layer_types") is not None:
        kinds = set(map(str, raw["layer_types"]))
    if len(kinds) > 1 or not kinds <= {"full_attention", "sliding_attention"}:
        raise ValueError(f"layer_types must be the same for all layers, got {', '.join(sorted(kinds))}")
    return raw.get("sliding_window") if kinds == {"sliding_attention"} else None


def _rope(raw):
    """Return RoPE's base and scaling, from the newer `rope_parameters` or the older `rope_scaling`."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    if not isinstance(rope, dict):
        raise ValueError(f"rope_parameters must be an object, got {rope!r}")
    kind = rope.get("rope_type", rope.get("type", "default"))
    _check.choice(tuple(_KIND_KEYS), rope_type=kind)
    extra = sorted(set(rope) - _ROPE_KEYS - {key for keys in _KIND_KEYS.values() for key in keys})
    if extra:
        raise ValueError(f"rope_parameters has {extra[0]!r}, which labkit does not compute")
    _only(rope | {"partial_rotary_factor": rope.get("partial_rotary_factor", 1)}, partial_rotary_factor=1)
    _only(raw, partial_rotary_factor=1)
    base = rope.get("rope_theta", raw.get("rope_theta", 10_000.0))
    if kind == "default":
        return base, None
    longest = _needed(raw, "max_position_embeddings")
    original = rope.get("original_max_position_embeddings", raw.get("original_max_position_embeddings", longest))
    factor = rope.get("factor")
    if kind == "yarn" and factor is None:
        _check.integer(at_least=1, max_position_embeddings=longest, original_max_position_embeddings=original)
        factor = longest / original
    scaling = {"kind": kind, "factor": factor}
    if kind != "linear":
        scaling["original_max_len"] = longest if kind == "dynamic" else original
    return base, scaling | {key: rope[key] for key in _KIND_KEYS[kind] if rope.get(key) is not None}


def _kind(raw):
    kind = raw.get("model_type")
    if kind is None and isinstance(raw.get("architectures"), list) and raw["architectures"]:
        kind = re.sub(r"(ForCausalLM|LMHeadModel|Model)$", "", str(raw["architectures"][0])).lower()
    _check.choice(("gpt2", "llama", "mistral", "qwen2", "qwen3"), model_type=kind)
    return kind


def _family(raw):
    return _GPT2 if _kind(raw) == "gpt2" else _LLAMA


def _needed(raw, key):
    if key not in raw:
        raise ValueError(f"{key} is missing")
    return raw[key]


def _only(raw, **settings):
    """Check that settings which labkit cannot follow have the value that changes nothing."""
    for key, value in settings.items():
        if raw.get(key, value) != value or isinstance(raw.get(key, value), bool) != isinstance(value, bool):
            raise ValueError(f"{key} must be {value!r}, got {raw[key]!r}: labkit does not compute it")


def _plan(config, family, stored):
    """Return, for each stored tensor to read, the weights it holds with their widths, once all shapes are right."""
    if config.n_layers > len(stored):  # before a list of a billion layers is made
        raise ValueError(f"config.json says n_layers = {config.n_layers}, but there are only {len(stored)} tensors")
    prefix = family["prefix"] if any(name.startswith(family["prefix"]) for name in stored) else ""
    shapes = parameter_shapes(config)
    if config.tied and "lm_head.weight" in stored:
        shapes["head"] = shapes["embedding"]  # a second copy, which must be equal
    plan, wanted = {}, {}
    for ours, shape in shapes.items():
        name = _stored_name(family, prefix, ours)
        shape = shape[::-1] if _is_turned(family, ours) else shape
        plan.setdefault(name, []).append((ours, shape[-1]))
        wanted[name] = (*shape[:-1], sum(width for _, width in plan[name]))
    for name, shape in wanted.items():
        if name not in stored:
            tie = ", and config.json does not tie the head to the embedding" if name == "lm_head.weight" else ""
            raise ValueError(f"tensor {name!r} is missing, expected in shape {shape}{tie}")
        if stored[name].shape != shape:
            raise ValueError(f"tensor {name!r} has shape {stored[name].shape}, expected {shape}")
    for name in stored:
        if name not in plan and not family["buffers"].fullmatch(name.removeprefix(prefix)):
            raise ValueError(f"tensor {name!r} is unexpected: a model of this config has no such weight")
    return plan


def _stored_name(family, prefix, ours):
    """Return under which name a weight of labkit's is stored."""
    if ours == "head":
        return "lm_head.weight"
    if not ours.startswith("blocks."):
        return prefix + family["names"][ours]
    _, layer, part = ours.split(".", 2)
    return f"{prefix}{family['layer']}.{layer}.{family['names'][part]}"


def _is_turned(family, ours):
    return family["transposed"] and ".w_" in ours


def _check_tie(config, tensors):
    """Check that a tied head stored a second time is the embedding, and drop it."""
    if config.tied and "head" in tensors and not np.array_equal(tensors.pop("head"), tensors["embedding"]):
        raise ValueError("'lm_head.weight' differs from the embedding, but config.json ties them")


def _directory(path):
    path = Path(path)
    if not path.is_dir():
        raise ValueError(f"{path} is not a directory: a checkpoint is one, with config.json and safetensors in it")
    return path


def _json(file):
    if not file.is_file():
        raise ValueError(f"{file.parent} has no {file.name}")
    return _parse(file.read_bytes(), file.name)


def _parse(data, what):
    """Return a JSON object, once it is sure to be one, without names given twice."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a JSON object, got {type(value).__name__}")
    return value


def _unique(pairs):
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return dict(pairs)


def _weight_map(index):
    """Return which file an index places each tensor in; none may lie outside the directory."""
    places = _json(index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise ValueError(f"{index.name} has no weight_map of tensors to files")
    for name, file in places.items():
        if not isinstance(file, str) or not re.fullmatch(r"[\w.-]+\.safetensors", file):
            raise ValueError(f"{index.name} places tensor {name!r} in {file!r}, expected a .safetensors file beside it")
    return places


def _taken_for(start):
    """Say what a file seems to be that begins like this and is no safetensors."""
    if start[:4] == b"PK\x03\x04" or (start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")):
        return "is pickled, not safetensors (unpickling runs code, so it is not read)"
    if start == b"version ":
        return "is a Git LFS pointer, not the weights themselves"
    return "is truncated or no safetensors"


def _offsets(file, name, entry):
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if not _are_sizes(offsets) or len(offsets) != 2:
        raise ValueError(f"{file.name}: tensor {name!r} needs data_offsets [first, last], got {offsets!r}")
    return tuple(offsets)


def _entry(file, name, entry, start):
    """Return one tensor of a header, once its dtype and shape are sure to be such."""
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if not isinstance(dtype, str) or dtype not in _SIZES:
        raise ValueError(f"{file.name}: tensor {name!r} has dtype {dtype!r}, expected one of {', '.join(_DTYPES)}")
    if not _are_sizes(shape):
        raise ValueError(f"{file.name}: tensor {name!r} needs a shape of whole numbers, got {shape!r}")
    return StoredTensor(file, dtype, tuple(shape), start)


def _are_sizes(values):
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
