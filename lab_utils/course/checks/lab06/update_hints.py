"""The hints of exercise 1 that are its own."""

from __future__ import annotations

from ...hints import Ladder
from .shared_hints import SHARED

HINTS: dict[str, Ladder] = SHARED | {
    "weights.old": (
        ("Some weights never moved.",
         "有些权重一直没有动。"),
        ("Each rank has updated 1/N of the weights. The other N−1 parts were updated too, by somebody else.",
         "每个 rank 更新了 1/N 的权重。其余 N−1 份也更新了，不过是在别的 rank 上。"),
        ("After optimizer.step(), axis.all_gather(self.flat, …): each rank's own part of the buffer goes to all the others.",
         "在 optimizer.step() 之后调用 axis.all_gather(self.flat, …)：每个 rank 把缓冲区里自己的那一份发给其他所有 rank。"),
    ),
    "traffic": (
        ("The numbers are right, but more was sent than ZeRO-1 needs.",
         "数值正确，但发送的数据比 ZeRO-1 需要的多。"),
        ("An all-reduce is a reduce-scatter and an all-gather. Here the second half comes after the optimizer step, and gathers weights.",
         "一次 all-reduce 等于 reduce-scatter 加 all-gather。这里的后一半放在优化器更新之后，收集的是权重。"),
        ("Put axis.reduce_scatter where you call axis.all_reduce and cut.",
         "把“axis.all_reduce 再切片”换成 axis.reduce_scatter。"),
    ),
}
