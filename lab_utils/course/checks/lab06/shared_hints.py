"""Hints that fit all three exercises: symptom, principle, place."""

from __future__ import annotations

from ...hints import Ladder

SHARED: dict[str, Ladder] = {
    "only-axis": (
        ("Data moved that did not pass through the axis.",
         "有数据没有经过 axis。"),
        ("Everything is counted on the axis: what goes around it cannot be seen, and could be anything.",
         "所有通信都在 axis 上计数；绕开它的通信看不到，也无从核对。"),
        ("Use axis.reduce_scatter, axis.all_gather and axis.all_reduce, and nothing of torch.distributed.",
         "只用 axis.reduce_scatter、axis.all_gather 和 axis.all_reduce，不要直接调用 torch.distributed。"),
    ),
    "never-waited": (
        ("A result is used that may not have arrived.",
         "用到了可能尚未到达的结果。"),
        ("A collective of the axis returns at once; only wait() promises that the numbers are there.",
         "axis 的集合通信会立即返回，只有 wait() 才保证结果已经到了。"),
        ("all_gather returns a Pending: all_gather(…).wait(). reduce_scatter returns a pair: mine, pending = …, then pending.wait().",
         "all_gather 返回 Pending：写成 all_gather(…).wait()。reduce_scatter 返回一对值：mine, pending = …，然后 pending.wait()。"),
    ),
    "value": (
        ("The weights are wrong, and not by a simple factor.",
         "权重不对，而且不是差一个简单的倍数。"),
        ("Rank r updates part r with the sum of part r of all ranks' gradients: gradient and weight must be cut in the same places.",
         "rank r 用所有 rank 第 r 份梯度之和，更新第 r 份权重：梯度和权重必须在同样的位置切开。"),
        ("Print, for one small parameter, what you hand to reduce_scatter and what comes back, and compare with the weights that you "
         "update with it.",
         "挑一个小参数，打印交给 reduce_scatter 的内容和返回的内容，再与你用它更新的那段权重对照。"),
    ),
    "gradient.scale": (
        ("The weights move in the right direction, but too far or not far enough.",
         "权重移动的方向正确，距离不对。"),
        ("reduce_scatter sums. Each rank's loss is the mean over its own share, so the mean over ranks is the sum divided by N, once.",
         "reduce_scatter 做的是求和。每个 rank 的损失是自己那份数据的平均，所以各 rank 的平均等于总和除以 N，只除一次。"),
        ("Divide by axis.size in exactly one place: the summed shard, before the optimizer sees it. AdamW would hide this error.",
         "只在一个地方除以 axis.size：求和之后的分片，交给优化器之前。AdamW 会掩盖这个错误。"),
    ),
    "gradient.not-summed": (
        ("Each rank learns from its own share of the batch alone.",
         "每个 rank 只从自己的那份数据里学习。"),
        ("A rank owns a part of the weights, but every rank's data has something to say about that part.",
         "一个 rank 只负责一部分权重，但每个 rank 的数据都会对这部分权重产生梯度。"),
        ("Give the optimizer what axis.reduce_scatter returned, not a slice of your own gradient.",
         "交给优化器的应当是 axis.reduce_scatter 返回的分片，而不是自己梯度的切片。"),
    ),
    "second-step": (
        ("The first step is right, a later one is not.",
         "第一步正确，后面的步出错。"),
        ("What belongs to one step must not leak into the next (gradients), and what belongs to the run must survive (momentum).",
         "属于一步的东西（梯度）不能带进下一步，属于整个训练的东西（动量）必须留下来。"),
        ("Make the optimizer once, in __init__. Look for a gradient that is added to the last step's, and for a shard that is cut anew "
         "in every step.",
         "优化器只在 __init__ 里创建一次。找一找有没有累加到上一步的梯度上，或者每一步都重新切分片。"),
    ),
    "padding": (
        ("It works as long as N divides the number of elements, and not otherwise.",
         "元素数能被 N 整除时正确，否则出错。"),
        ("All parts must be equally long, so zeros follow after the last element; the real elements all stay where they are, and each of "
         "them has exactly one owner.",
         "每一份必须一样长，所以在最后一个元素之后补零；真正的元素都留在原位，每个元素恰好有一个负责的 rank。"),
        ("-numel % n elements are missing to a multiple of n. Pad gradient and weights alike, at the end; a part may consist of zeros "
         "only.",
         "还差 -numel % n 个元素才是 n 的倍数。梯度和权重都在末尾以同样的方式补齐；有的份可能全是零。"),
    ),
    "any-n": (
        ("With another number of ranks, or another model, it fails.",
         "换一个 rank 数或换一个模型就出错。"),
        ("Nothing may depend on a particular N, model or optimizer.",
         "代码不能依赖特定的 N、模型或优化器。"),
        ("Look for a number that should be axis.size, axis.rank or numel().",
         "找一找有没有写死的数字，它本应是 axis.size、axis.rank 或 numel()。"),
    ),
    "states.whole": (
        ("Each rank holds optimizer states for more than its share: that is plain data parallelism.",
         "每个 rank 持有的优化器状态超过了自己那一份：这仍是普通的数据并行。"),
        ("An optimizer makes its states as large as the tensors that it is given.",
         "给优化器多大的张量，它就建多大的状态。"),
        ("Call make_optimizer once, with this rank's shard alone, not with model.parameters() or the whole buffer.",
         "只调用一次 make_optimizer，只传入本 rank 的分片，不要传 model.parameters() 或整个缓冲区。"),
    ),
    "states.view": (
        ("The state tensors look small, yet as much memory is taken as before.",
         "状态张量看起来变小了，占用的内存却和原来一样。"),
        ("A slice shares its storage with the whole, and keeps all of it alive.",
         "切片与整体共享存储，会让整个存储一直存活。"),
        ("Let the optimizer make small states from the start; where something large must be cut, .clone() the part that you keep.",
         "让优化器一开始就创建小的状态；如果必须从大张量里切，就对留下的部分调用 .clone()。"),
    ),
    "states.peak": (
        ("In the end each rank holds its share, but for a moment it held everything.",
         "最后每个 rank 只持有自己那份，但中途曾持有全部。"),
        ("Memory runs out at the peak. A model whose states do not fit would have died there.",
         "内存是在峰值处耗尽的。装不下全部状态的模型，早在那一刻就崩溃了。"),
        ("Never give an optimizer the whole, not even to cut its states afterwards.",
         "任何时候都不要把整个模型交给优化器，哪怕之后再切它的状态。"),
    ),
    "traffic": (
        ("The numbers are right, but more was sent than ZeRO needs.",
         "数值正确，但发送的数据比 ZeRO 需要的多。"),
        ("An all-reduce is a reduce-scatter and an all-gather. To use a 1/N part of its result is to pay for both halves and throw one "
         "away.",
         "一次 all-reduce 等于 reduce-scatter 加 all-gather。只用其结果的 1/N，等于付了两半的钱，扔掉其中一半。"),
        ("Sum gradients with axis.reduce_scatter alone, each once in a step, and gather no weights more often than needed.",
         "梯度只用 axis.reduce_scatter 求和，每步一次；权重也不要多 gather。"),
    ),
    "emptied": (
        ("An operation reads memory that was emptied.",
         "有运算读取了已经清空的内存。"),
        ("After resize_(0) every view of the storage is empty, whoever holds it.",
         "resize_(0) 之后，这个存储的所有视图都空了，不管在谁手里。"),
        ("In this exercise nothing has to be emptied: the weights stay whole on every rank.",
         "这个练习不需要清空任何东西：每个 rank 上的权重都保持完整。"),
    ),
    "raised": (
        ("A rank raised an exception; it is quoted above.",
         "有一个 rank 抛出了异常，见上面的引文。"),
        ("The same code runs on every rank, with another axis.rank on each and the same sizes on all.",
         "同一段代码在每个 rank 上运行：axis.rank 各不相同，各种大小必须相同。"),
        ("Print the shapes just before the quoted line: a shard has 1/N of the padded elements, a parameter has its own shape.",
         "在引文那一行之前打印形状：分片有补齐后元素数的 1/N，参数则是它自己的形状。"),
    ),
    "hung": (
        ("The ranks wait for each other, or one of them never comes back.",
         "各 rank 在互相等待，或者有一个一直没有返回。"),
        ("A collective ends when every rank of the axis has called it.",
         "axis 上的每个 rank 都调用了，一次集合通信才会结束。"),
        ("Look for a collective inside an if that is not true on every rank.",
         "找一找写在 if 里的集合通信：这个条件是不是在每个 rank 上都成立？"),
    ),
    "left": (
        ("One rank was done while the others still waited in a collective.",
         "有一个 rank 已经结束，其他 rank 还在某次集合通信里等它。"),
        ("Each rank makes the same collectives, whatever its data and its part of the model.",
         "不管数据和负责的部分如何，每个 rank 的集合通信都要相同。"),
        ("Look for a collective that only some ranks reach: one in an if, or one for parts that are not empty.",
         "找一找只有部分 rank 会执行到的集合通信：写在 if 里的，或者只对非空的部分才调用的。"),
    ),
    "mismatch": (
        ("The ranks called the same collective with different sizes, or different ones at the same time.",
         "各 rank 调用同一次集合通信时大小不一致，或者同一时刻调用了不同的集合通信。"),
        ("Call number k of one rank meets call number k of the others.",
         "一个 rank 的第 k 次调用，会与其他 rank 的第 k 次相遇。"),
        ("All parts are padded to the same length, and all ranks go through parameters in the same order.",
         "每一份都补齐到同样的长度，所有 rank 按同样的次序处理参数。"),
    ),
}
