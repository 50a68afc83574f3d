"""For each chapter, wrong versions of the labkit functions that it teaches; its own assertions must notice each."""

# module, function, what to replace, what to put there
MUTANTS = {
    "03_softmax": [
        ("softmax", "softmax", "x - top", "x - 0 * top"),
        ("softmax", "softmax", "e / np.where(total == 0, 1, total)", "e / np.where(total == 0, 1, total + 1e-6)"),
        ("softmax", "log_softmax", "x - top - np.log", "x - np.log"),
        ("softmax", "entropy", "np.log(", "np.log2("),
        ("softmax", "softmax_jacobian", "np.eye(", "0.9 * np.eye("),
        ("softmax", "cross_entropy", "0.0 - log_p", "log_p"),
        (
            "softmax",
            "random_scores",
            "rng.normal(mean, std, size=(n, d_k))\n    k",
            "rng.normal(0, 1, size=(n, d_k))\n    k",
        ),
        ("softmax", "scores_of_width", "/ np.sqrt(d_k)", "/ d_k"),
        ("softmax", "saturation", "np.abs(softmax_jacobian(p)).max", "np.abs(softmax_jacobian(p)).min"),
        ("attention", "scaled_dot_product_attention", "1 / math.sqrt(", "1 / ("),
        ("attention", "masked", "np.where(mask, scores, -np.inf)", "np.where(mask, scores, -10)"),
        ("mask", "causal_mask", "np.arange(S) <= ", "np.arange(S) < "),
    ],
}
