"""Whose kernels a ledger describes: those of torch's CPU build, which real runs here are held
against, those of its CUDA build, held against that build on tensors without memory, or those of a
fused framework, read from its sources.

What "fused" keeps otherwise than eager torch on CUDA, each rule by its source (NVIDIA/Megatron-LM
and NVIDIA/TransformerEngine, read in November 2026; nothing was run):

- SwiGLU is one kernel, whose input alone is kept, no silu(gate) (megatron/core/fusions/
  fused_bias_swiglu.py, SwiGLUFunction.forward).
- Rotary positions are one kernel, whose result lies as its input, so attention's output is the next
  product's input as it is; one table of angles serves all layers
  (transformer_engine/pytorch/attention/rope.py, FusedRoPEFunc.forward).
- Attention is cuDNN's: q, k, v, output, one fp32 number a row, 16 bytes of random state
  (transformer_engine/pytorch/cpp_extensions/fused_attn.py, fused_attn_fwd).
- Norms keep their input and one or two fp32 numbers a row, and the product after them its own
  input, of this rank's tokens only (transformer_engine/pytorch/module/layernorm_linear.py,
  _LayerNormLinear.forward): the same bytes as eager torch's.
- Cross-entropy keeps the logits as they are and three fp32 numbers a row and rank, and the gradient
  is written over the logits (transformer_engine/pytorch/cross_entropy.py,
  CrossEntropyFunction). Megatron's own (megatron/core/tensor_parallel/cross_entropy.py,
  _VocabParallelCrossEntropy) is in place too, on an fp32 copy: twice as many bytes.
- Gradients are kept in fp32 from the first step on, and a weight's product is added to them at
  once, with no tensor of its own (megatron/core/distributed/param_and_grad_buffer.py,
  _ParamAndGradBuffer; megatron/core/tensor_parallel/layers.py,
  LinearWithGradAccumulationAndAsyncCommunication.backward). The optimizer reads them as they are.
- Gradients are summed and weights gathered in place, in those buffers (the same file,
  shard_buffer, start_grad_sync, start_param_sync); there is no copy of what is sent.
- bf16 weights are the parameters themselves, with fp32 masters in the optimizer's shard: as
  precision "bf16-pure" has it, so there are no casts.
- What a pipeline stage has sent on is dropped at once (megatron/core/pipeline_parallel/
  schedules.py, deallocate_output_tensor); our engine keeps it until it knows that it has arrived.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from ...i18n import t


class Attention(Enum):
    """What `F.scaled_dot_product_attention` runs. The value: bytes of the small states that it
    saves besides q, k, v, its output and one fp32 number a row."""

    CPU = ()
    FLASH = (16, 8)  # the random generator's state, two uint64, and one that is not used
    EFFICIENT = (8, 8)  # the generator's seed and its offset
    CUDNN = (16,)  # the generator's state
    WRITTEN_OUT = None  # no kernel of its own: scores and weights are tensors like any other


class Collectives(Enum):
    """What a collective takes for a moment besides what it is given (parallel/comm.py)."""

    RING = "gloo: room for the part that comes in; a gather's copy of its part, to the end"
    NCCL = "copies of what goes in, let go when the collective is waited for"
    IN_PLACE = "room for the part that comes in"


def _cuda_attention(width: int, grouped: bool) -> Attention:
    """As torch 2.13 chooses (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp): flash knows 16
    bits only, the memory-efficient kernel no query heads that share keys. cuDNN's, which is asked
    before flash on H100 and B200, saves 8 bytes less than flash."""
    if width == 2:
        return Attention.FLASH
    return Attention.WRITTEN_OUT if grouped else Attention.EFFICIENT


def _fused_attention(width: int, grouped: bool) -> Attention:
    """cuDNN's knows 16 bits only."""
    return Attention.CUDNN if width == 2 else _cuda_attention(width, grouped)


@dataclass(frozen=True)
class Convention:
    """`norm_statistics_width(width of the input)`, bytes; `fused_rms_norm`: one kernel that saves
    its input and one fp32 number a row; `softmax_in_fp32`: attention weights under autocast;
    `attention(width, whether query heads share keys)`: what a fused attention runs; `collectives`:
    of tp and of ZeRO; `fused_gate`, `fused_rotary`: one kernel each; `loss_in_place`: the
    gradient takes the logits' place; `main_gradients`: kept in fp32, products add to them, and they
    travel in place; `drops_sent`: a pipeline's messages go as soon as they are sent."""

    name: str
    norm_statistics_width: Callable[[int], int]
    fused_rms_norm: bool = False
    softmax_in_fp32: bool = False
    attention: Callable[[int, bool], Attention] = lambda width, grouped: Attention.CPU
    collectives: Collectives = Collectives.RING
    fused_gate: bool = False
    fused_rotary: bool = False
    loss_in_place: bool = False
    main_gradients: bool = False
    drops_sent: bool = False

    def gradient_width(self, width: int) -> int:
        """Bytes of a gradient that is kept, of a weight of `width` bytes."""
        return 4 if self.main_gradients else width

    @property
    def basis(self) -> str:
        """Where figures by this convention come from, in a reader's words."""
        return {
            "cpu": t(
                "estimated, CPU kernels of torch 2.13; equal to real runs to the byte",
                "估算，按 torch 2.13 的 CPU 算子内核；与真实运行逐字节一致",
            ),
            "cuda": t(
                "estimated, CUDA kernels by torch 2.13's derivative formulas; not measured on a"
                " GPU",
                "估算，CUDA 算子内核按 torch 2.13 的求导公式；未在 GPU 上实测",
            ),
            "fused": t(
                "estimated, the kernels of a fused framework (Megatron-LM with Transformer Engine)"
                " as its sources say; not measured",
                "估算，融合框架（Megatron-LM 配 Transformer Engine）的算子内核，按其源码；未经实测",
            ),
        }.get(self.name, self.name)


# torch 2.13, CPU: measured to the byte in tests/estimate
CPU = Convention("cpu", lambda width: width)
# torch 2.13, CUDA: what its kernels save, held against its CUDA build on tensors without memory
# (tests/measured/cuda_saved_bytes.json). Sequences are taken to be whole multiples of 32 (the
# memory-efficient kernel rounds its rows up to that) and heads of 8 (flash pads them)
CUDA = Convention("cuda", lambda width: 4, True, True, _cuda_attention, Collectives.NCCL)
# Megatron-LM with Transformer Engine: see above
FUSED = Convention(
    "fused",
    lambda width: 4,
    fused_rms_norm=True,
    softmax_in_fp32=True,
    attention=_fused_attention,
    collectives=Collectives.IN_PLACE,
    fused_gate=True,
    fused_rotary=True,
    loss_in_place=True,
    main_gradients=True,
    drops_sent=True,
)
# the papers' closed forms: a norm's statistics are small enough to leave out
MEGATRON = Convention("megatron", lambda width: 0)
CONVENTIONS = {"cpu": CPU, "cuda": CUDA, "fused": FUSED}
