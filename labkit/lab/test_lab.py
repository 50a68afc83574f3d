"""The lab's tests: one for each case of each check.

    pytest test_lab.py -v                            tests lab.py
    LAB_MODULE=solution pytest test_lab.py -v        tests solution.py

A test that fails says which mistake is likely, and shows what went in, what was expected and what came. Among them:

    test_softmax_numerically_stable_large_logits     subtract the maximum before exp
    test_sqrt_dk_scaling_is_present                  the scores are divided by √d_k, neither by d_k nor by nothing
    test_causal_attention_zero_in_upper_triangle     query 0 sees v[0] only
    test_mha_rejects_indivisible_heads               d_model must be a multiple of n_heads
    test_layer_norm_zero_mean_unit_var               what LayerNorm is for
    test_rms_norm_scales_to_unit_rms                 what RMSNorm is for
    test_rope_preserves_norm                         a rotation keeps the length
    test_rope_position_dependent                     position 0 is the identity, the others are not
    test_gelu_shape_of_curve                         the tanh form, from −10 to 10
    test_gpt_forward_deterministic                   the same weights give the same logits
    test_kv_cache_equals_full_recompute              the cache gives what full causal attention gives, at every step
"""

import os
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from checker import LAB, course  # noqa: E402


@cache
def _lab():
    return (*course.load(HERE / f"{os.environ.get('LAB_MODULE', 'lab')}.py"), {})


def _test(exercise, case):
    def test():
        module, fault, known = _lab()
        fault = fault or course.verdict(module, exercise, known).about(case.name)
        if fault:
            pytest.fail(fault, pytrace=False)

    test.__doc__ = case.says
    return test


for _exercise in LAB:
    for _case in _exercise.cases:
        globals()[f"test_{_case.name}"] = _test(_exercise, _case)
