"""The two limits of the machine that NumPy can reach: how fast it multiplies, and how fast it reads."""

from benchmarks.measure import floats


class Gemm:
    """A large float32 product: calling it does `flops` floating-point operations."""

    def __init__(self, n=2048):
        self.a, self.b, self.flops = floats(n, n), floats(n, n, seed=1), 2 * n**3

    def __call__(self):
        self.a @ self.b


class Stream:
    """One row times a matrix that no cache holds, GPT-2's output head: calling it reads `nbytes` bytes."""

    def __init__(self, d_model=768, vocab_size=50257):
        self.row, self.matrix = floats(1, d_model), floats(d_model, vocab_size)
        self.nbytes = self.matrix.nbytes

    def __call__(self):
        self.row @ self.matrix


def limits(smoke):
    return (Gemm(64), Stream(16, 64)) if smoke else (Gemm(), Stream())
