"""Every exercise, in the order in which the lab takes them. Each module holds those of one chapter."""

from .attention import ATTENTION, CAUSAL_MASK, CAUSAL_MASK_RECTANGULAR
from .embedding import ADD_POSITIONS, EMBED, TIED_LOGITS
from .ffn import GELU, SILU, SWIGLU
from .flash import ONLINE_SOFTMAX, TILED_ATTENTION
from .heads import CONCAT_HEADS, GROUPED_QUERY_ATTENTION, MULTI_HEAD_ATTENTION, SPLIT_HEADS
from .kv_cache import KV_CACHE
from .linear_algebra import ADD_MATRICES, ADD_VECTORS, LINEAR, MATMUL, TRANSPOSE
from .model import BUILD_PARAMS, GPT_FORWARD, TRANSFORMER_BLOCK
from .norm import LAYER_NORM, RMS_NORM
from .quantities import QUANTITIES
from .rope import ROPE, ROPE_ATTENTION, ROPE_VECTOR
from .sampling import GENERATE, NEXT_TOKEN
from .softmax import CROSS_ENTROPY, ENTROPY, LOG_SOFTMAX, SOFTMAX, SOFTMAX_JACOBIAN

# What lab.py holds, top to bottom: the main part, then the extensions.
LAB = (
    *(MATMUL, TRANSPOSE, ADD_VECTORS, ADD_MATRICES),
    SOFTMAX,
    *(LAYER_NORM, RMS_NORM),
    LINEAR,
    *(CAUSAL_MASK, ATTENTION),
    *(SPLIT_HEADS, CONCAT_HEADS, MULTI_HEAD_ATTENTION),
    *(ROPE_VECTOR, ROPE),
    *(GELU, SILU, SWIGLU),
    *(TRANSFORMER_BLOCK, BUILD_PARAMS, GPT_FORWARD),
    KV_CACHE,
    *(GROUPED_QUERY_ATTENTION, ROPE_ATTENTION, ONLINE_SOFTMAX, TILED_ATTENTION),
    *(NEXT_TOKEN, GENERATE, ADD_POSITIONS, TIED_LOGITS, CROSS_ENTROPY),
)

# What only the chapters ask for.
CHAPTERS = (EMBED, LOG_SOFTMAX, ENTROPY, SOFTMAX_JACOBIAN, CAUSAL_MASK_RECTANGULAR)

EVERYTHING = {item.name.lstrip("_"): item for item in (*LAB, *CHAPTERS, *QUANTITIES)}
