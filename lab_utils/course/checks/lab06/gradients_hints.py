"""The hints of exercise 2 that are its own."""

from __future__ import annotations

from ...hints import Ladder
from .shared_hints import SHARED

HINTS: dict[str, Ladder] = SHARED | {
    "weights.old": (
        ("Some weights never moved.",
         "有些权重一直没有动。"),
        ("The optimizer skips a tensor whose .grad is None, without a word.",
         "张量的 .grad 为 None 时，优化器会跳过它，而且不作声。"),
        ("In gradient_exists, set self.shards[parameter].grad: that of the shard, not of the parameter.",
         "在 gradient_exists 里设置 self.shards[parameter].grad：是分片的，而不是参数的。"),
    ),
    "gradients.kept": (
        ("When the backward pass is over, the gradients are all still there: that is ZeRO-1.",
         "反向传播结束时，梯度全都还在：这还是 ZeRO-1。"),
        ("A tensor lives as long as anything refers to it: parameter.grad, an entry in a list, a name in self.",
         "只要还有引用，张量就一直存活：parameter.grad、列表里的一项、self 上的一个名字，都算。"),
        ("Reduce in gradient_exists, not in step, and end it with parameter.grad = None.",
         "在 gradient_exists 里就归约，不要等到 step；最后写上 parameter.grad = None。"),
    ),
    "gradients.view": (
        ("The gradients' shards look small, yet as much memory is taken as by all gradients.",
         "梯度分片看起来变小了，占用的内存却等于全部梯度。"),
        ("What reduce_scatter returns is a view of the whole buffer that it was given: as long as the view lives, so does the buffer.",
         "reduce_scatter 返回的是传入缓冲区的视图：视图还在，整个缓冲区就还在。"),
        ("Keep mine / axis.size or mine.clone(), which have storages of their own, not mine itself nor mine.div_(…).",
         "保留 mine / axis.size 或 mine.clone()，它们有自己的存储；不要保留 mine 本身或 mine.div_(…)。"),
    ),
    "gradients.peak": (
        ("In the end only shards are left, but for a moment all gradients were there at once.",
         "最后只剩分片，但中途曾有全部梯度同时存在。"),
        ("Memory runs out at the peak: a gradient has to go before the next ones come.",
         "内存是在峰值处耗尽的：前一批梯度走了，后一批才能来。"),
        ("Reduce and free in the hook of each parameter; do not collect them for the last one.",
         "在每个参数的钩子里归约并释放，不要攒到最后一个参数。"),
    ),
    "norm": (
        ("The norm, or what clipping by it leaves, is not the whole model's.",
         "范数（或按它裁剪的结果）不是整个模型的。"),
        ("Each rank sees 1/N of the gradient. Squares add up over ranks, roots do not.",
         "每个 rank 只看到 1/N 的梯度。各 rank 的平方和可以相加，平方根不能。"),
        ("Add the squares of all of this rank's shard gradients to one number, axis.all_reduce it (a tensor), wait, then take the root. "
         "Use the mean gradients, after division by N.",
         "把本 rank 所有分片梯度的平方加成一个数（张量），用 axis.all_reduce 求和并等待，最后开方。用的是除以 N 之后的平均梯度。"),
    ),
    "overflow": (
        ("One gradient is infinite, and the ranks no longer agree.",
         "有一个梯度是无穷大，各 rank 的做法就不一致了。"),
        ("Only the rank that owns that element sees it. If it alone skips the step, the others update, or wait for it for ever.",
         "只有负责那个元素的 rank 看得到它。如果只有它跳过这一步，其他 rank 就会照常更新，或者一直等它。"),
        ("Decide by a number that is the same on all ranks: inf and nan survive the sum of squares, so the reduced norm tells everyone.",
         "要用每个 rank 上都相同的数来判断：inf 和 nan 在平方和里不会消失，归约后的范数会告诉所有 rank。"),
    ),
}
