"""How a training framework goes about the same layout: what travels under compute, and in which
format."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Framework:
    """Habits that a step's time depends on beside the layout.

    `overlap_gradients`: they leave during the last backward pass. `overlap_parameters`: ZeRO-1 and
    -2 gather updated weights under the next forward pass. `overlap_tensor`: a region's collective
    goes in as many pieces as there are tp ranks, each under the product of the piece before, so 1/t
    of it shows. `blocking_messages`: a pipeline rank stands still while it sends and receives.
    `split_messages`: tp ranks, who hold the same boundary tensor, send a share each and gather it
    inside their node (SC21, section 4.1). `score_passes`: how often fused kernels read or write the
    matrix of attention scores, forward and backward; None: as the ledger's unfused ones do.
    `gradient_bytes`: of one gradient on the wire; None: as it is held. `overlap_products`:
    backward, where a region was entered, messages travel under the products that do not wait for
    them. `keeps`: whose rules say what is in memory (program/conventions.py); None: those of the
    cluster's kernels, which price the time of every framework.
    """

    name: str
    overlap_gradients: bool = True
    overlap_parameters: bool = False
    overlap_tensor: bool = False
    blocking_messages: bool = False
    split_messages: bool = False
    score_passes: tuple[float, float] | None = None
    gradient_bytes: int | None = None
    overlap_products: bool = False
    keeps: str | None = None


OURS = Framework("ours")
# Narayanan et al. 2021 (SC21): synchronous point-to-point, gradients in fp16 after the last
# backward pass, scatter/gather. Scores in fp16 pass through memory: product 1, fused
# scale-mask-softmax 2, dropout 2 and a byte of mask, product 1 forward; backward the products 4,
# dropout 2 and the mask, softmax 3 (section 4.2 names the fused kernels)
MEGATRON_SC21 = Framework(
    "Megatron-LM, SC21",
    overlap_gradients=False,
    blocking_messages=True,
    split_messages=True,
    score_passes=(6.5, 9.5),
    gradient_bytes=2,
)
# Korthikanti et al. 2022, section 4.2.2: the gather of the saved input under the product for the
# input's gradient; Megatron-LM of that year, LinearWithGradAccumulationAndAsyncCommunication: the
# sum of the input's gradient under the weight's product too
MEGATRON_2022 = replace(MEGATRON_SC21, name="Megatron-LM, 2022", overlap_products=True)
# Megatron-Core's README, beside the H100 figure: --overlap-grad-reduce, --overlap-param-gather,
# --tp-comm-overlap; fp32 gradients
MEGATRON_CORE = Framework(
    "Megatron-Core", overlap_parameters=True, overlap_tensor=True, gradient_bytes=4, keeps="fused"
)
# Rajbhandari et al. 2020 as measured in SC21, section 5.2: fp16 gradients, everything under compute
DEEPSPEED_ZERO3 = Framework(
    "DeepSpeed ZeRO-3, SC21", overlap_parameters=True, score_passes=(6.5, 9.5), gradient_bytes=2
)
