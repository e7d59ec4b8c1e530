"""The hints of exercise 2: symptom, principle, place."""

from __future__ import annotations

from ...hints import Ladder

HINTS: dict[str, Ladder] = {
    "value": (
        ("Some element is not the result of all ranks: a contribution is missing, counted twice, or in the wrong place.",
         "有元素不是所有 rank 的归约结果：少算、重复计算，或放错了位置。"),
        ("In each step, the chunk that you send is the one that you completed in the step before; your neighbour combines it with its "
         "own chunk of the same number.",
         "每一步发出的，正是你上一步刚合并好的那一块；邻居把它与自己同编号的块合并。"),
        ("Check the chunk numbers: going right, in step s rank r sends chunk (r − s) mod N and receives chunk (r − s − 1) mod N. The "
         "second half begins with the chunk that was completed last.",
         "检查块编号：向右传时，第 s 步 rank r 发送第 (r − s) mod N 块，收到第 (r − s − 1) mod N 块。后半程从最后完成的那一块开始。"),
    ),
    "ring.half": (
        ("Each rank has one finished chunk, and nobody else has it.",
         "每个 rank 都有一块已完成，但别人还没有拿到。"),
        ("Half of the way is done: this is a reduce-scatter. The finished chunks still have to go around.",
         "路才走了一半：这只是 reduce-scatter，完成的块还要再传一圈。"),
        ("Add N−1 more steps after the first loop; in them the received chunk overwrites yours, nothing is combined.",
         "在第一个循环之后再走 N−1 步；这些步里收到的块直接覆盖自己的块，不再合并。"),
    ),
    "ring.neighbours": (
        ("A message goes to a rank that is not next in the circle, or comes from the side that you send to.",
         "有消息发给了环上不相邻的 rank，或者收发用的是同一侧。"),
        ("In a ring every rank has one link out and one link in: no rank is the centre, and nobody talks across.",
         "环上每个 rank 只有一条出边、一条入边：没有中心，也没有人隔着别人通信。"),
        ("In every exchange let to = (axis.rank + 1) % axis.size and source = (axis.rank − 1) % axis.size, or both the other way "
         "round.",
         "每次 exchange 都取 to = (axis.rank + 1) % axis.size、source = (axis.rank − 1) % axis.size，或者两者对调。"),
    ),
    "ring.only-exchange": (
        ("Data moved that did not pass through axis.exchange.",
         "有数据没有经过 axis.exchange。"),
        ("The exercise is to build the collective out of messages between two ranks.",
         "本练习要用两两之间的消息搭出集合通信。"),
        ("Call nothing of torch.distributed and no all_reduce in your function, only axis.exchange.",
         "函数里不要调用 torch.distributed，也不要调用 all_reduce，只用 axis.exchange。"),
    ),
    "ring.bytes": (
        ("The numbers are right, but too much (or too little) was sent for it.",
         "数值正确，但发送的数据量太多（或太少）。"),
        ("Only one chunk, 1/N of the tensor, travels in a step. At N = 2 sending everything costs the same; at N = 4 it costs twice "
         "as much.",
         "每一步只传一块，也就是张量的 1/N。N = 2 时全量发送看不出差别，N = 4 时就多出一倍。"),
        ("Slice with the pairs of chunk_bounds before you exchange: outgoing = flat[begin:end], without padding.",
         "在 exchange 之前用 chunk_bounds 的结果切片：outgoing = flat[begin:end]，不要填充。"),
    ),
    "ring.messages": (
        ("The bytes are right, but not the number of messages.",
         "字节数正确，消息数不对。"),
        ("Each message costs its latency: a chunk travels in one piece, one per step.",
         "每条消息都要付一次延迟：一块一次发完，每步一条。"),
        ("One exchange in each of the 2(N−1) steps is all that is needed.",
         "总共 2(N−1) 步，每步一次 exchange 就够了。"),
    ),
    "ring.in-place": (
        ("Whatever you computed is not in the tensor that was passed in.",
         "你算出的结果不在传入的那个张量里。"),
        ("All-reduce changes the caller's tensor: a slice of tensor.view(-1) shares its memory, a clone does not.",
         "all-reduce 要改写调用者的张量：tensor.view(-1) 的切片共享内存，clone 则不共享。"),
        ("Write with chunk.copy_(…), not with chunk = …, which only gives a new tensor a name.",
         "请用 chunk.copy_(…) 写入；chunk = … 只是给新张量起了个名字。"),
    ),
    "uneven": (
        ("It works as long as N divides the number of elements, and not otherwise.",
         "元素数能被 N 整除时正确，否则出错。"),
        ("There are N chunks for any number of elements, and they may differ by one element. The buffer that receives must be as long "
         "as the chunk that arrives, not the one that leaves.",
         "无论有多少元素，都要切成 N 块，而各块大小可能相差 1。接收缓冲区要与收到的块等长，而不是与发出的块等长。"),
        ("Take both slices from chunk_bounds, which always gives N (torch.chunk may give fewer), and make incoming with "
         "torch.empty_like(the chunk that arrives).",
         "两个切片都取自 chunk_bounds，它总是给出 N 块（torch.chunk 可能更少）；用 torch.empty_like（要收到的那一块）创建 incoming。"),
    ),
    "few": (
        ("With fewer elements than ranks it fails.",
         "元素数少于 rank 数时出错。"),
        ("Some chunks are empty then, yet every rank must still make the same steps: a neighbour waits for the message.",
         "这时有些块是空的，但每个 rank 仍要走完同样的步数，因为邻居在等消息。"),
        ("Do not special-case it: an empty slice can be exchanged and combined like any other.",
         "不需要特殊处理：空切片同样可以交换和合并。"),
    ),
    "combine": (
        ("With torch.add the result is right, with another operation it is not.",
         "用 torch.add 时结果正确，换一种运算就错了。"),
        ("A ring works for any operation whose order does not matter; the sum is only one of them.",
         "只要运算与次序无关，环就能用；求和只是其中一种。"),
        ("Look for += or add_ where combine(mine, incoming) should stand.",
         "找一找是否有 += 或 add_，那里应当是 combine(mine, incoming)。"),
    ),
    "shape": (
        ("With a tensor of one dim it works, with more dims it does not.",
         "一维张量正确，多维就错了。"),
        ("The ring cuts elements, whatever the shape.",
         "环按元素切块，与形状无关。"),
        ("Work on flat = tensor.view(-1) throughout: it shares the tensor's memory.",
         "全程使用 flat = tensor.view(-1)，它与原张量共享内存。"),
    ),
    "any-n": (
        ("With 4 ranks it works, with 3 it does not.",
         "4 个 rank 时正确，3 个 rank 时出错。"),
        ("A ring needs no power of two: N−1 steps, then N−1 steps, for any N.",
         "环不要求 2 的幂：任何 N 都是 N−1 步，再 N−1 步。"),
        ("Look for a fixed number of steps, for bit operations (^, &), and for an index that is not taken % axis.size.",
         "找一找写死的步数、位运算（^、&），以及没有对 axis.size 取模的下标。"),
    ),
    "raised": (
        ("A rank raised an exception; it is quoted above.",
         "有一个 rank 抛出了异常，见上面的引文。"),
        ("The code runs on every rank, with another axis.rank on each.",
         "这段代码在每个 rank 上都会运行，每次的 axis.rank 不同。"),
        ("Print axis.rank and the chunk numbers at the start of each step: indices go through % axis.size.",
         "在每一步开头打印 axis.rank 和块编号：下标都要对 axis.size 取模。"),
    ),
    "hung": (
        ("The ranks wait for each other, or one of them never comes back.",
         "各 rank 在互相等待，或者有一个一直没有返回。"),
        ("Each message needs both ends: when I send to you, you receive from me, in the same step.",
         "每条消息都要两端配合：我发给你的同一步，你要从我这里接收。"),
        ("to and source must be opposite neighbours on every rank, and the number of steps the same.",
         "每个 rank 上的 to 和 source 必须是相反的两个邻居，步数也要相同。"),
    ),
    "left": (
        ("One rank was done while its neighbour still waited for a message.",
         "有一个 rank 已经结束，它的邻居还在等消息。"),
        ("All ranks make the same number of steps, whatever their number.",
         "不管编号是多少，每个 rank 的步数都一样。"),
        ("Look for an exchange inside an if, or a loop whose length depends on axis.rank.",
         "找一找写在 if 里的 exchange，或者长度取决于 axis.rank 的循环。"),
    ),
    "mismatch": (
        ("A message was not as long as its receiver expected.",
         "消息的长度与接收方预期的不一致。"),
        ("What you receive is your neighbour's outgoing chunk: its number is not the one that you send.",
         "你收到的是邻居发出的那一块，编号与你自己发出的不同。"),
        ("Sender and receiver must agree on the chunk: if rank r sends chunk k in this step, rank r+1 receives chunk k in it.",
         "收发双方要对上同一块：这一步 rank r 发第 k 块，rank r+1 就收第 k 块。"),
    ),
}
