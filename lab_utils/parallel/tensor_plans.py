"""Plans for `tensor_parallel` that are ready to use: GPT-2 and Llama of the `transformers` package,
torch's own transformer layers.

`config` is the model's; nothing of `transformers` is imported here. The vocabulary is cut at both
ends, so a tied embedding stays tied.
"""

from __future__ import annotations

from typing import Any

from .tensor_plan import Attributes, Cut, TensorPlan


def gpt2(config: Any) -> TensorPlan:
    """Of a transformers.GPT2LMHeadModel: its query, key and value lie in one weight."""
    head_dim = config.hidden_size // config.num_attention_heads
    return {
        "*.attn": Attributes("num_heads", "split_size"),
        "*.attn.c_attn": Cut("column", groups=3, unit=head_dim),
        "*.attn.c_proj": "row",
        "*.mlp.c_fc": "column",
        "*.mlp.c_proj": "row",
        "*wte": "vocabulary",
        "*lm_head": "head",
    }


def llama(config: Any) -> TensorPlan:
    """Of a transformers.LlamaForCausalLM, and of models built like it: heads stay whole, so the
    key/value heads bound the degree."""
    head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads
    )
    return {
        "*.self_attn": "enter",
        "*.self_attn.[qkv]_proj": Cut("column", unit=head_dim),
        "*.self_attn.o_proj": "row",
        "*.mlp": "enter",
        "*.mlp.gate_proj": "column",
        "*.mlp.up_proj": "column",
        "*.mlp.down_proj": "row",
        "*embed_tokens": "vocabulary",
        "*lm_head": "head",
    }


# torch.nn.TransformerEncoder and TransformerEncoderLayer
ENCODER: TensorPlan = {"*self_attn": "heads", "*linear1": "column", "*linear2": "row"}
