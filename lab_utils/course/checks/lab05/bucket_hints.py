"""The hints of exercise 3: symptom, principle, place."""

from __future__ import annotations

from ...hints import Ladder

HINTS: dict[str, Ladder] = {
    "buckets.none": (
        ("Not one all-reduce left this rank.",
         "没有发出任何一次 all-reduce。"),
        ("A hook runs by itself as soon as its parameter's gradient exists: that is the moment to fill a bucket.",
         "参数的梯度一出现，钩子就会自动运行：这正是往桶里装的时机。"),
        ("Register it in __init__ with parameter.register_post_accumulate_grad_hook(…), for every parameter.",
         "在 __init__ 里对每个参数调用 parameter.register_post_accumulate_grad_hook(…)。"),
    ),
    "buckets.only-axis": (
        ("Data moved that did not pass through axis.all_reduce.",
         "有数据没有经过 axis.all_reduce。"),
        ("Everything is counted on the axis: what goes around it cannot be seen in a trace.",
         "所有通信都在 axis 上计数，绕开它的通信在时间线里看不到。"),
        ('Use axis.all_reduce(buffer, purpose="gradient") and nothing of torch.distributed.',
         '只用 axis.all_reduce(buffer, purpose="gradient")，不要直接调用 torch.distributed。'),
    ),
    "buckets.unflushed": (
        ("Some gradients stayed at home.",
         "有些梯度没有发出去。"),
        ("The parameters rarely fill the last bucket; it has to leave all the same.",
         "参数总量很少恰好装满最后一个桶，但没满也得发。"),
        ("After the loop that makes buckets, keep the one that is not full; a bucket is ready when all its own gradients exist.",
         "划分桶的循环结束后，别丢掉没满的那一个；一个桶只要自己的梯度齐了就该发出。"),
    ),
    "buckets.not-returned": (
        ("Every gradient travelled, and yet the optimizer would see the old ones.",
         "梯度都传过了，优化器看到的却还是旧的。"),
        ("all_reduce changes the buffer that you gave it; parameter.grad changes only if it is a view of that buffer, or is written.",
         "all_reduce 改写的是你交给它的缓冲区；parameter.grad 只有是这个缓冲区的视图，或者被写入，才会改变。"),
        ("In finish(), after wait(): copy each part of the buffer into its parameter.grad, or let parameter.grad be that part.",
         "在 finish() 里、wait() 之后：把缓冲区的每一段拷进对应的 parameter.grad，或让 parameter.grad 就是那一段。"),
    ),
    "gradient.scale": (
        ("The direction is right, the length is not.",
         "方向正确，大小不对。"),
        ("axis.all_reduce sums. Each rank's loss is the mean over its own share, so the mean over ranks is the sum divided by N, once.",
         "axis.all_reduce 做的是求和。每个 rank 的损失是自己那份数据的平均，所以各 rank 的平均等于总和除以 N，只除一次。"),
        ("Divide by axis.size in exactly one place: each bucket before it leaves, or after it was waited for. AdamW would hide this "
         "error: it divides the scale out again.",
         "只在一个地方除以 axis.size：桶发出之前，或等待完成之后。AdamW 会掩盖这个错误，因为它会把尺度约掉。"),
    ),
    "gradient.value": (
        ("The gradients are neither the mean nor a multiple of it.",
         "梯度既不是平均值，也不是它的倍数。"),
        ("What comes back in a bucket's buffer has to find its way into each parameter.grad, at the place where it was packed.",
         "桶的缓冲区里的结果，要按装入时的位置回到各自的 parameter.grad。"),
        ("Compare the offsets of packing and unpacking; copy back only after wait(), and use the same order of parameters on every "
         "rank.",
         "对照装入与取出的偏移量；wait() 之后才能拷回，每个 rank 上的参数次序要一致。"),
    ),
    "buckets.bytes": (
        ("The values are right, but the bytes are not those of the gradients.",
         "数值正确，但字节数与梯度不符。"),
        ("Each gradient travels exactly once in a step, in its own precision.",
         "每一步里，每个梯度以原有精度恰好传一次。"),
        ("Look for a bucket that is sent twice, or a buffer longer than its gradients.",
         "找一找是否有桶发了两次，或缓冲区比梯度长。"),
    ),
    "buckets.count": (
        ("Far too many all-reduces for so few bytes.",
         "这么少的数据，all-reduce 的次数太多了。"),
        ("Every all-reduce pays 2(N−1) latencies: hundreds of small ones cost more than a few large ones. Gradients share a flat "
         "buffer.",
         "每次 all-reduce 都要付 2(N−1) 次延迟：几百次小的比几次大的更慢。多个梯度应共用一个一维缓冲区。"),
        ("In the hook, send only when the bucket has all its gradients (or bucket_bytes of them), not one gradient at a time.",
         "在钩子里，等桶内梯度到齐（或攒够 bucket_bytes）再发，而不是每个梯度发一次。"),
    ),
    "buckets.size": (
        ("A bucket is larger than was asked for; in the worst case one all-reduce carries everything.",
         "有的桶超过了规定的大小；最极端的情形是一次 all-reduce 发送全部梯度。"),
        ("A large bucket can leave only when its last gradient exists, and the later that is, the less is left to hide it under.",
         "桶越大，里面最后一个梯度出现得越晚，能用来掩盖通信的计算就越少。"),
        ("Before you put a gradient in, ask whether it still fits: element_size() × numel() is its size in bytes. If not, open a new bucket.",
         "放入一个梯度之前，先看还装不装得下：它的字节数是 element_size() × numel()。装不下就另开一个新桶。"),
    ),
    "buckets.order": (
        ("Bucket 0 cannot leave before the backward pass ends.",
         "反向传播结束之前，第 0 桶发不出去。"),
        ("The backward pass begins at the last layer: gradients appear in (nearly) the reverse of the order of model.parameters().",
         "反向传播从最后一层开始：梯度出现的次序大致与 model.parameters() 相反。"),
        ("Fill the buckets from reversed(list(model.parameters())).",
         "用 reversed(list(model.parameters())) 的次序装桶。"),
    ),
    "overlap.left-late": (
        ("The buckets leave when the backward pass is over.",
         "反向传播结束之后，桶才发出。"),
        ("While layer 3 computes its gradient, those of layers 4 and later could already be on the wire.",
         "第 3 层还在计算梯度时，第 4 层及之后的梯度本可以已经在传输了。"),
        ("Call axis.all_reduce in the hook, at the moment when the bucket is full, not in finish().",
         "在钩子里，桶一满就调用 axis.all_reduce，而不是放到 finish() 里。"),
    ),
    "overlap.waited-early": (
        ("A bucket leaves early, and then the backward pass stands still for it.",
         "桶是提早发出了，可反向传播随即停下来等它。"),
        ("An all-reduce that is waited for at once is a blocking one: what was meant to run side by side runs one after the other.",
         "刚发出就等待的 all-reduce 等于阻塞调用：本该并行的两件事变成了先后进行。"),
        ("Keep the Pending that axis.all_reduce returns in a list; call wait() in finish() only.",
         "把 axis.all_reduce 返回的 Pending 存进列表，只在 finish() 里调用 wait()。"),
    ),
    "overlap.never-waited": (
        ("A result is used that may not have arrived.",
         "用到了可能尚未到达的结果。"),
        ("all_reduce returns at once; only wait() promises that the sum is there. On two idle cores you may be lucky, on a busy "
         "network you are not.",
         "all_reduce 会立即返回，只有 wait() 才保证结果已经到了。空闲的机器上也许碰巧没事，繁忙的网络上就不会了。"),
        ("Put every Pending into the list that finish() goes through.",
         "把每个 Pending 都放进 finish() 要遍历的列表。"),
    ),
    "unused": (
        ("All is well until a parameter takes no part in a backward pass.",
         "只要有参数没有参与某次反向传播，就出问题。"),
        ("Its hook never runs, so its bucket waits for ever, and the other ranks with it. They must all send the same buckets in the "
         "same order; a missing gradient counts as zero.",
         "它的钩子不会运行，所在的桶就永远等不齐，别的 rank 也跟着等。所有 rank 必须按相同次序发送相同的桶，缺席的梯度按零计。"),
        ("Decide in __init__ who sits in which bucket, let buckets leave in order only, and in finish() put zeros where nothing came "
         "and send what has not left.",
         "在 __init__ 里就定好谁在哪个桶，桶只按次序发出；在 finish() 里，没等到的位置填零，把还没发的桶发出去。"),
    ),
    "second-step": (
        ("The first step is right, the second is not.",
         "第一步正确，第二步出错。"),
        ("What was counted in one step (gradients that came, buckets that left) must be forgotten before the next.",
         "一步之内的记录（到了哪些梯度、发了哪些桶），下一步之前都要清空。"),
        ("Reset counters and lists at the end of finish(). The hooks stay registered: do it once, in __init__.",
         "在 finish() 末尾重置计数和列表。钩子会一直有效，只需在 __init__ 里注册一次。"),
    ),
    "any-n": (
        ("With 3 ranks it works, with 4 and another model it does not.",
         "3 个 rank 时正确，换成 4 个 rank 和另一个模型就不对了。"),
        ("Nothing may depend on a particular N, model or bucket size.",
         "代码不能依赖特定的 N、模型或桶大小。"),
        ("Look for a number that should be axis.size, bucket_bytes or numel().",
         "找一找有没有写死的数字，它本应是 axis.size、bucket_bytes 或 numel()。"),
    ),
    "one-bucket": (
        ("It fails when one bucket is large enough for all.",
         "当一个桶就能装下全部梯度时出错。"),
        ("Then no bucket is ever full, and still everything has to be sent.",
         "这时没有一个桶会被装满，但所有梯度仍然必须发送。"),
        ("Close the last bucket when the parameters end, full or not.",
         "参数遍历完时，最后一个桶不管满没满都要封上。"),
    ),
    "raised": (
        ("A rank raised an exception; it is quoted above.",
         "有一个 rank 抛出了异常，见上面的引文。"),
        ("Your code runs in three places: __init__ once, a hook for every gradient, finish() once a step.",
         "你的代码在三处运行：__init__ 一次，每个梯度一次钩子，每步一次 finish()。"),
        ("A hook gets the parameter itself; its gradient is parameter.grad. For what differs between hooks use a default argument: "
         "lambda p, i=i: …",
         "钩子收到的是参数本身，梯度在 parameter.grad 里。各钩子不同的值要用默认参数绑定：lambda p, i=i: …"),
    ),
    "hung": (
        ("A rank never came back.",
         "有一个 rank 一直没有返回。"),
        ("Nothing that finish() waits for may depend on a gradient that will never come.",
         "finish() 等待的东西，不能依赖永远不会出现的梯度。"),
        ("Replace any `while` that waits for buckets by a loop over the buckets that sends what has not left.",
         "把等待桶的 while 换成遍历各桶的循环，把还没发的发出去。"),
    ),
    "left": (
        ("One rank was done while the others still waited in an all-reduce.",
         "有一个 rank 已经结束，其他 rank 还在某次 all-reduce 里等它。"),
        ("Each rank makes the same number of all-reduces, whatever its data.",
         "不管数据如何，每个 rank 的 all-reduce 次数都要相同。"),
        ("Let the number of buckets follow from the model alone, never from which gradients came.",
         "桶的数目只由模型决定，不能取决于来了哪些梯度。"),
    ),
    "mismatch": (
        ("The ranks called all-reduce with buffers of different sizes.",
         "各 rank 的 all-reduce 缓冲区大小不一致。"),
        ("Call number k of one rank is added to call number k of the others: same bucket, same order.",
         "一个 rank 的第 k 次调用会与其他 rank 的第 k 次相加：桶要相同，次序也要相同。"),
        ("Assign parameters to buckets in __init__, by the model's order, not in the order in which gradients arrive.",
         "在 __init__ 里按模型的次序分桶，而不是按梯度到达的次序。"),
    ),
}
