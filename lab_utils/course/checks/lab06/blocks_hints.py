"""The hints of exercise 3 that are its own."""

from __future__ import annotations

from ...hints import Ladder
from .shared_hints import SHARED

HINTS: dict[str, Ladder] = SHARED | {
    "shard.view": (
        ("The shards are small, yet the whole weights are still alive behind them.",
         "分片很小，可背后完整的权重仍然存活。"),
        ("A chunk is a view: it shares the storage of the whole buffer, and keeps all of it.",
         "chunk 得到的是视图：它与整个缓冲区共享存储，会让整个缓冲区一直存活。"),
        ("Let the shard be a copy: flat.chunk(n)[rank].clone(). Only then can the buffer be emptied.",
         "分片要是一份拷贝：flat.chunk(n)[rank].clone()。这样缓冲区才能清空。"),
    ),
    "made.whole": (
        ("After __init__ each rank still holds whole weights.",
         "__init__ 之后，每个 rank 仍持有完整的权重。"),
        ("Between steps nobody computes, so nobody needs more than the shard that it updates.",
         "两步之间没有计算，谁都只需要自己更新的那个分片。"),
        ("Empty the flat buffer at the end of __init__ already: flat.untyped_storage().resize_(0).",
         "在 __init__ 末尾就清空一维缓冲区：flat.untyped_storage().resize_(0)。"),
    ),
    "forward.not-gathered": (
        ("A block computes although its weights are not there.",
         "块的权重还不在，它就开始计算了。"),
        ("What was freed has to be gathered before each use, also in the second step.",
         "释放过的权重，每次使用之前都要收集回来，第二步也一样。"),
        ("block.register_forward_pre_hook(…) runs just before forward: give the storage its size back, copy your shard into your "
         "place, all_gather, wait.",
         "block.register_forward_pre_hook(…) 恰好在前向之前运行：恢复存储的大小，把自己的分片拷进自己的位置，all_gather，等待。"),
    ),
    "forward.value": (
        ("Weights come back, but not the ones that were cut.",
         "权重收集回来了，但与切分之前不一样。"),
        ("All-gather puts part r of rank r at place r: cut, fill and read in the same order, with the padding at the very end.",
         "all-gather 把 rank r 的部分放到第 r 个位置：切分、填充、读取的次序要一致，补齐的零在最末尾。"),
        ("flat.chunk(axis.size)[axis.rank] is your place in the buffer: copy the shard there before axis.all_gather(flat, …).",
         "flat.chunk(axis.size)[axis.rank] 是你在缓冲区里的位置：在 axis.all_gather(flat, …) 之前，把分片拷到那里。"),
    ),
    "forward.kept": (
        ("After the forward pass the weights are all there.",
         "前向传播之后，权重全都还在。"),
        ("By then each block has been used; the next time that anybody needs it is in the backward pass.",
         "这时每个块都用过了，下一次用到要等反向传播。"),
        ("block.register_forward_hook(…) runs just after forward: empty the buffer there.",
         "block.register_forward_hook(…) 恰好在前向之后运行：在那里清空缓冲区。"),
    ),
    "forward.peak": (
        ("For a moment all weights were there at once.",
         "曾有一刻，全部权重同时存在。"),
        ("Then the whole model has to fit on each rank after all. One block computes at a time; only its weights are needed.",
         "那样的话，每个 rank 终究还是要装得下整个模型。每次只有一个块在计算，只需要它的权重。"),
        ("Gather in each block's own hook, and free it before the next but one is gathered.",
         "在每个块自己的钩子里收集，并在收集再下一个块之前释放它。"),
    ),
    "autograd.keeps": (
        ("You let go of the weights, and somebody else holds on to them.",
         "你放手了，可还有别人抓着权重不放。"),
        ("Autograd saved views of them for the backward pass. A new parameter.data does not reach those: they keep the old storage.",
         "autograd 为反向传播保存了权重的视图。换掉 parameter.data 影响不到它们，旧的存储仍被持有。"),
        ("Keep one buffer per block for good and empty its storage in place, flat.untyped_storage().resize_(0): every view is then "
         "empty, and full again after the next gather.",
         "每个块始终使用同一个缓冲区，原地清空它的存储：flat.untyped_storage().resize_(0)。这样所有视图都空了，下次收集后又都满了。"),
    ),
    "backward.not-gathered": (
        ("The backward pass needs weights that are gone.",
         "反向传播要用的权重已经不在了。"),
        ("The gradient of a layer's input is the gradient of its output times its weights: they are needed a second time.",
         "一层输入的梯度等于输出的梯度乘以权重：权重要用第二次。"),
        ("In the forward hook, output.register_hook(…): it runs when the gradient of the output exists, before the block's backward pass. "
         "Gather there. Free only when the last gradient of the block has come.",
         "在前向钩子里写 output.register_hook(…)：输出的梯度一出现它就运行，早于块的反向传播。在那里收集。等块的最后一个梯度出现后再释放。"),
    ),
    "backward.kept": (
        ("After the backward pass the weights are all there.",
         "反向传播之后，权重全都还在。"),
        ("They were gathered a second time, so they have to be freed a second time.",
         "收集了第二次，就要释放第二次。"),
        ("Count the block's gradients in register_post_accumulate_grad_hook; free when the last one is there. A "
         "full_backward_hook comes too early for a block whose input needs no gradient.",
         "用 register_post_accumulate_grad_hook 数块里的梯度，最后一个出现时释放。如果块的输入不需要梯度，full_backward_hook 会来得太早。"),
    ),
    "backward.peak": (
        ("During the backward pass too much is there at once.",
         "反向传播中，同时存在的东西太多。"),
        ("A block's weights and whole gradients are needed only while that block is being worked on.",
         "一个块的权重和完整梯度，只在处理这个块时才需要。"),
        ("When the last gradient of a block has come: reduce, keep the shard, drop .grad, empty the weights. All of it there, for each "
         "block.",
         "一个块的最后一个梯度出现时：归约、留下分片、丢掉 .grad、清空权重。每个块都在那一刻做完。"),
    ),
    "gradients.kept": (
        ("The backward pass is over and whole gradients are left.",
         "反向传播结束了，还留着完整的梯度。"),
        ("The optimizer updates shards: it needs 1/N of the sum, and nothing else.",
         "优化器更新的是分片：它只需要总和的 1/N。"),
        ("After reduce_scatter set parameter.grad = None for the block's parameters, and keep no list of buffers.",
         "reduce_scatter 之后，把块内各参数的 grad 设为 None，也不要把缓冲区留在列表里。"),
    ),
    "gradients.view": (
        ("The shards' gradients look small, yet as much memory is taken as by all gradients.",
         "分片的梯度看起来很小，占用的内存却等于全部梯度。"),
        ("What reduce_scatter returns is a view of the whole buffer that it was given.",
         "reduce_scatter 返回的是传入缓冲区的视图。"),
        ("Keep mine / axis.size or mine.clone(), which have storages of their own.",
         "保留 mine / axis.size 或 mine.clone()，它们有自己的存储。"),
    ),
    "weights.old": (
        ("Some weights never moved.",
         "有些权重一直没有动。"),
        ("The optimizer updates the tensors in `shards` and nothing else: what is gathered next must come from them, and they need a "
         ".grad.",
         "优化器只更新 shards 里的张量：下一次收集必须来自它们，而且它们要有 .grad。"),
        ("In each gather, copy the shard anew into your place in the buffer. Check that shard.grad is set for every block.",
         "每次收集时，都把分片重新拷进缓冲区里自己的位置。检查每个块的 shard.grad 是否都设置了。"),
    ),
    "traffic": (
        ("The numbers are right, but more was sent than ZeRO-3 needs.",
         "数值正确，但发送的数据比 ZeRO-3 需要的多。"),
        ("A block is gathered twice in a step, before forward and before backward, and its gradient is reduce-scattered once.",
         "每一步里，一个块收集两次（前向之前、反向之前），它的梯度做一次 reduce-scatter。"),
        ("Do not gather what is there already, and sum with reduce_scatter, not with all_reduce.",
         "已经在的权重不要再收集；求和用 reduce_scatter，不要用 all_reduce。"),
    ),
    "killed": (
        ("A process was ended by the system: it read or wrote memory that was gone.",
         "有一个进程被系统终止了：它读写了已经不存在的内存。"),
        ("An emptied storage must not be touched, and a buffer that is still being sent or filled must not be emptied.",
         "清空了的存储不能再碰；还在发送或填充的缓冲区也不能清空。"),
        ("Wait for a block's all_gather before you free it, and give the storage its size back before you copy into it.",
         "释放一个块之前，先等待它的 all_gather；往里拷贝之前，先恢复存储的大小。"),
    ),
}
