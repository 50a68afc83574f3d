"""A small Llama in torch, for training only. Its tensors carry the names that transformers gives them."""

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        """Scale every position to a root mean square of 1, then by the weights."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Attention(nn.Module):
    """Grouped-query attention with RoPE."""

    def __init__(self, config):
        super().__init__()
        d_model, self.d_head = config["hidden_size"], config["head_dim"]
        self.n_heads, self.n_kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.q_proj = nn.Linear(d_model, self.n_heads * self.d_head, bias=False)
        self.k_proj = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=False)
        self.v_proj = nn.Linear(d_model, self.n_kv_heads * self.d_head, bias=False)
        self.o_proj = nn.Linear(self.n_heads * self.d_head, d_model, bias=False)

    def forward(self, x, angles, mask, keep):
        """Mix across positions; put the weights into the list `keep`, if there is one."""
        q, k, v = (
            project(x).unflatten(-1, (-1, self.d_head)).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = turn(q, angles), turn(k, angles)
        k, v = (a.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for a in (k, v))
        if keep is not None:
            scores = (q @ k.mT / self.d_head**0.5).masked_fill(~mask, -torch.inf)
            keep.append(scores.softmax(-1))
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(out.transpose(1, 2).flatten(-2))


class SwiGLU(nn.Module):
    """The gated FFN."""

    def __init__(self, config):
        super().__init__()
        d_model, d_ff = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(d_model, d_ff, bias=False)
        self.up_proj = nn.Linear(d_model, d_ff, bias=False)
        self.down_proj = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        """Transform every position on its own."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    """One pre-norm block."""

    def __init__(self, config, attention_only):
        super().__init__()
        self.input_layernorm = Norm(config["hidden_size"], config["rms_norm_eps"])
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config["hidden_size"], config["rms_norm_eps"])
        self.mlp = SwiGLU(config)
        self.attention_only = attention_only
        if attention_only:  # an FFN that writes nothing but zeros keeps the file a Llama's
            for weight in [*self.mlp.parameters(), self.post_attention_layernorm.weight]:
                weight.requires_grad_(False)
            self.mlp.down_proj.weight.zero_()

    def forward(self, x, angles, mask, keep):
        """Add attention's correction to the stream, then the FFN's."""
        x = x + self.self_attn(self.input_layernorm(x), angles, mask, keep)
        return x if self.attention_only else x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    """All but the head."""

    def __init__(self, config, attention_only):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Block(config, attention_only) for _ in range(config["num_hidden_layers"]))
        self.norm = Norm(config["hidden_size"], config["rms_norm_eps"])


class Llama(nn.Module):
    """Token ids [B, T] in, logits [B, T, vocab_size] out; the mask lets `ahead` future positions through."""

    def __init__(self, config, attention_only=False, ahead=0):
        super().__init__()
        self.config, self.ahead = config, ahead
        self.model = Body(config, attention_only)
        self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)
        deep = (2 * config["num_hidden_layers"]) ** 0.5
        for name, weight in self.named_parameters():
            if weight.ndim == 2 and weight.requires_grad:
                writes = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 / deep if writes else 0.02)
        if config["tie_word_embeddings"]:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, token_ids, keep=None):
        """Score every possible next token."""
        T, half = token_ids.shape[1], self.config["head_dim"] // 2
        base = self.config["rope_parameters"]["rope_theta"]
        freqs = base ** -(torch.arange(half) / half)
        angles = torch.arange(T)[:, None] * freqs
        mask = torch.ones(T, T, dtype=torch.bool).tril(self.ahead)
        x = self.model.embed_tokens(token_ids)
        for block in self.model.layers:
            x = block(x, angles, mask, keep)
        return self.lm_head(self.model.norm(x))


def turn(x, angles):
    """Rotate each head's queries or keys by their positions, first half of a head paired with the second."""
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
