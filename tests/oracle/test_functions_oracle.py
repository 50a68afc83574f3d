"""Norms, activations and softmax against PyTorch's own functions."""

import importlib

import numpy as np
import pytest

from labkit.ffn import gelu, silu
from labkit.norm import layer_norm, rms_norm
from labkit.softmax import cross_entropy, log_softmax, softmax

pytestmark = pytest.mark.oracle

DTYPES = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3}


@pytest.fixture(scope="module")
def torch():
    return importlib.import_module("torch")


def draw(*shape, seed=0, mean=0.0, std=1.0):
    return np.random.default_rng(seed).normal(mean, std, shape)


# Inputs far smaller than √eps, where an epsilon outside the root shows, about 1, and large with a large mean.
INPUTS = {
    "numbers of 1e-4": draw(3, 5, 7, std=1e-4),
    "numbers of 1": draw(3, 5, 7),
    "mean 30, std 4": draw(3, 5, 7, mean=30, std=4),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", INPUTS)
@pytest.mark.parametrize("eps", [1e-5, 1e-3])
def test_norms(torch, agree, dtype, size, eps):
    x = INPUTS[size].astype(dtype)
    weight, bias = draw(7, seed=1, mean=1, std=0.3).astype(dtype), draw(7, seed=2, std=0.3).astype(dtype)
    exact = [torch.from_numpy(a.astype(np.float64)) for a in (x, weight, bias)]
    tolerance = DTYPES[dtype] * (10 if size.startswith("mean") else 1)  # the mean takes some digits with it
    theirs = torch.nn.functional.layer_norm(exact[0], (7,), exact[1], exact[2], eps).numpy()
    agree(f"LayerNorm, {size}", layer_norm(x, weight, bias, eps), theirs, tolerance)
    theirs = torch.nn.functional.layer_norm(exact[0], (7,), exact[1], None, eps).numpy()
    agree(f"LayerNorm without bias, {size}", layer_norm(x, weight, None, eps), theirs, tolerance)
    theirs = torch.nn.functional.rms_norm(exact[0], (7,), exact[1], eps).numpy()
    agree(f"RMSNorm, {size}", rms_norm(x, weight, eps), theirs, tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_activations(torch, agree, dtype):
    x = np.linspace(-9, 9, 1201).astype(dtype)
    exact = torch.from_numpy(x.astype(np.float64))
    for kind in ("tanh", "none"):
        theirs = torch.nn.functional.gelu(exact, approximate=kind).numpy()
        agree(f"GELU, {kind}", gelu(x, kind), theirs, DTYPES[dtype])
    agree("SiLU", silu(x), torch.nn.functional.silu(exact).numpy(), DTYPES[dtype])


def test_the_tails_of_the_activations(torch, agree):
    """A difference relative to the largest entry sees nothing of the tails, so they are compared entry by entry."""
    x = np.linspace(-6, -1, 401)
    exact = torch.from_numpy(x)
    theirs = exact * torch.special.erfc(-exact / 2**0.5) / 2  # PyTorch's own GELU takes 1 + erf, which loses the tail
    agree("GELU, none, each entry of its tail", gelu(x, "none"), theirs.numpy(), 1e-13, each=True)
    agree("SiLU, each entry of its tail", silu(x), torch.nn.functional.silu(exact).numpy(), 1e-13, each=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax(torch, agree, dtype):
    x = draw(3, 5, 7, std=6).astype(dtype)
    exact = torch.from_numpy(x.astype(np.float64))
    for axis in (-1, 0, 1):
        agree(f"softmax, axis {axis}", softmax(x, axis), torch.softmax(exact, axis).numpy(), DTYPES[dtype])
        agree(f"log-softmax, axis {axis}", log_softmax(x, axis), torch.log_softmax(exact, axis).numpy(), DTYPES[dtype])
    targets = np.random.default_rng(3).integers(0, 7, (3, 5))
    theirs = torch.nn.functional.cross_entropy(
        exact.reshape(15, 7), torch.from_numpy(targets.reshape(15)), reduction="none"
    )
    agree("cross-entropy", cross_entropy(x, targets), theirs.numpy().reshape(3, 5), DTYPES[dtype])
