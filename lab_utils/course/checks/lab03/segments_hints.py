"""The hints of exercise 2: symptom, principle, place."""

from __future__ import annotations

from ...hints import Ladder
from .alone import SHARED

HINTS: dict[str, Ladder] = SHARED | {
    "from-scratch": (
        ("The layers were run by a checkpoint that somebody else wrote.",
         "运行这些层的，是别人写好的 checkpoint。"),
        ("It would pass every other criterion, and you would have learned how to import it.",
         "用它其余各项都能通过，而你只学会了怎么导入它。"),
        ("Subclass torch.autograd.Function: forward(ctx, …) and backward(ctx, gradient), and call it with .apply(…).",
         "继承 torch.autograd.Function，写出 forward(ctx, …) 和 backward(ctx, gradient)，用 .apply(…) 调用。"),
    ),
    "output": (
        ("The segment does not compute what its layers compute.",
         "这一段算出的不是各层算出的结果。"),
        ("The first run is an ordinary run: each layer takes the output of the one before, and all further arguments.",
         "第一次运行就是普通的运行：每层接收上一层的输出，以及其他全部参数。"),
        ("forward returns the result of run(x, *others), and Segment.forward returns what .apply(…) gives.",
         "forward 返回 run(x, *others) 的结果，Segment.forward 返回 .apply(…) 的结果。"),
    ),
    "no-graph": (
        ("The output is cut off from the graph.",
         "输出与计算图断开了。"),
        ("What runs under no_grad has no graph; a Function's output gets a node of its own, if one of its inputs requires a gradient.",
         "在 no_grad 下运行不建图；而 Function 的某个输入需要梯度时，它的输出会得到一个自己的节点。"),
        ("Return the output of .apply(…), without .detach(), and hand x and others to .apply one by one, not inside a list.",
         "返回 .apply(…) 的输出，不要加 .detach()；把 x 和 others 逐个交给 .apply，不要装在列表里。"),
    ),
    "saved": (
        ("As much stays alive for the backward pass as if nothing were recomputed.",
         "为反向传播留下的和不做重计算时一样多，至少超过了输入。"),
        ("A tensor stays as long as a graph or a name refers to it. The first run must build no graph, and only the inputs may be kept.",
         "只要计算图或某个名字还引用着，张量就一直存活。第一次运行不能建图，留下的只能是输入。"),
        ("Run the layers inside Function.forward, where no graph is built (elsewhere under torch.no_grad()), save x and others in ctx, "
         "and nothing that a layer returned.",
         "在 Function.forward 里运行各层，那里不建图（在别处要用 torch.no_grad()）；在 ctx 里保存 x 和 others，不要保存任何一层的返回值。"),
    ),
    "runs": (
        ("A layer ran more often, or less often, than twice.",
         "有的层运行的次数不是两次。"),
        ("Recomputation costs one more forward pass, a third of a step's work in addition. More is waste; less means that activations were kept.",
         "重计算的代价是多做一次前向传播，约为一步工作量的三分之一。再多就是浪费，更少则说明激活值没有释放。"),
        ("In backward, call run once, for all layers together, and go back through its result.",
         "在 backward 里只调用一次 run，所有层一起运行，然后对它的结果反向传播。"),
    ),
    "gradient.parameters": (
        ("The input gets its gradient, but the layers learn nothing.",
         "输入得到了梯度，各层的参数却什么也没学到。"),
        ("torch.autograd.grad(y, x) returns the gradients that it is asked for and throws the others away. .backward() adds to every parameter's .grad.",
         "torch.autograd.grad(y, x) 只返回所问的梯度，其余的都扔掉；.backward() 还会累加到每个参数的 .grad 上。"),
        ("In backward: torch.autograd.backward(y, gradient), then return x.grad, where x is the detached input of the second run.",
         "在 backward 里用 torch.autograd.backward(y, gradient)，然后返回 x.grad，这里的 x 是第二次运行时已经 detach 的输入。"),
    ),
    "gradient.input": (
        ("Whatever comes before the segment gets no gradient.",
         "这一段之前的部分得不到梯度。"),
        ("backward returns a gradient for each argument of forward, in the same order, None where there is none.",
         "backward 要为 forward 的每个参数返回一个梯度，次序相同，没有的返回 None。"),
        ("Make the second run's input a new leaf, x.detach().requires_grad_(), and return its .grad in x's place.",
         "把第二次运行的输入做成新的叶子：x.detach().requires_grad_()，在 x 的位置返回它的 .grad。"),
    ),
    "gradient.value": (
        ("There are gradients, but other ones.",
         "梯度有了，但不对。"),
        ("The second run has the same inputs as the first, and goes back from the gradient of the output that backward was given.",
         "第二次运行的输入与第一次相同，并且从 backward 收到的输出梯度开始往回传。"),
        ("Hand `gradient` on: torch.autograd.backward(y, gradient). Look for a .sum() in its place, a parameter added twice, a changed input.",
         "把 gradient 传下去：torch.autograd.backward(y, gradient)。看看是否误用了 .sum()、有参数加了两次，或者输入被改动。"),
    ),
    "rng.first-run": (
        ("With dropout the first run gives something else than the plain layers.",
         "有 dropout 时，第一次运行的结果与直接运行不同。"),
        ("Reading the generator's state changes nothing; setting it does, for everybody who draws after you.",
         "读取生成器的状态不会改变任何东西；设置状态则会影响此后所有抽取随机数的人。"),
        ("In forward only torch.get_rng_state() is needed, before the run: no manual_seed, no set_rng_state.",
         "在 forward 里只需要在运行之前调用 torch.get_rng_state()，不要 manual_seed 或 set_rng_state。"),
    ),
    "rng.second-run": (
        ("Without dropout all is right; with dropout the gradients are wrong, and nothing says so.",
         "没有 dropout 时都对；有 dropout 时梯度就错了，而且不会报错。"),
        ("The second run drops other elements than the first did. Its gradient is that of a network that was never run forward.",
         "第二次运行丢弃的元素与第一次不同，得到的是一个从未做过前向的网络的梯度。"),
        ("Keep torch.get_rng_state() from before the first run in ctx, and set it just before the second.",
         "把第一次运行之前的 torch.get_rng_state() 存在 ctx 里，在第二次运行前设置回去。"),
    ),
    "rng.left": (
        ("The gradients are right, but afterwards the random numbers are not those that would have come.",
         "梯度正确，但之后的随机数与原本该出现的不同。"),
        ("Who rewinds the generator for the second run lets the rest of the program draw old numbers again: the same masks, step after step.",
         "为第二次运行把生成器倒回去，程序的其余部分就会重新抽到旧的数：一步又一步，都是同样的掩码。"),
        ("In backward, read the state first and set it again after the run. Not the state from the end of forward: others have drawn since. "
         "with torch.random.fork_rng(): does both.",
         "在 backward 里先读取当前状态，运行之后再设回去。不能用 forward 结束时的状态：之后别人已经抽过数了。with torch.random.fork_rng(): 能同时做到这两点。"),
    ),
    "again": (
        ("One backward pass is right, two in a row are not.",
         "一次反向传播正确，连续两次就不对了。"),
        ("Gradients add up: a parameter's .grad may already hold something, and the second step must not find anything of the first.",
         "梯度是累加的：参数的 .grad 里可能已经有内容；第二步也不能遇到第一步留下的东西。"),
        ("Do not assign to parameter.grad; let backward add. Begin each pass with a fresh input, detached from the last graph.",
         "不要给 parameter.grad 赋值，让反向传播去累加。每次都从新的、与上一张计算图断开的输入开始。"),
    ),
    "twice": (
        ("The segment works once; used twice before the backward pass, it is wrong.",
         "用一次是对的；在反向传播之前用两次就不对了。"),
        ("Pipelines and shared layers run the same module on several inputs before any gradient comes back.",
         "流水线和共享层会让同一个模块先处理好几个输入，之后梯度才传回来。"),
        ("Keep what belongs to one call in ctx, not in self or in a global: each call has its own ctx.",
         "属于某一次调用的东西要存在 ctx 里，不要存在 self 或全局变量里：每次调用都有自己的 ctx。"),
    ),
    "arguments": (
        ("With further arguments, tensors or not, it fails.",
         "多了其他输入（张量或非张量）就出错。"),
        ("backward returns one value for each argument of .apply: its gradient, or None. None and numbers are no tensors; a mask has no gradient.",
         ".apply 的每个参数，在 backward 的返回值里都要有一个位置：它的梯度或 None。None 和数字不是张量，掩码没有梯度。"),
        ("Detach only tensors, set requires_grad_ only on those that had it (ctx.needs_input_grad says which), and return as many values as "
         "forward has arguments.",
         "只对张量 detach，只给原来需要梯度的设置 requires_grad_（ctx.needs_input_grad 会说明是哪些），返回值的个数与 forward 的参数个数相同。"),
    ),
    "input-without-gradient": (
        ("If the input needs no gradient, the parameters get none either.",
         "输入不需要梯度时，参数也得不到梯度了。"),
        ("autograd calls a Function's backward only if one of the tensors given to .apply requires a gradient. The layers' parameters were not given.",
         "只有交给 .apply 的张量里有一个需要梯度，autograd 才会调用 backward。层里面的参数并没有交给它。"),
        ("In Segment.forward hand .apply one more tensor that requires a gradient, empty if you like, or x.detach().requires_grad_() if x has none.",
         "在 Segment.forward 里多交给 .apply 一个需要梯度的张量（空的也行）；或者 x 不需要梯度时，交给它 x.detach().requires_grad_()。"),
    ),
    "frozen": (
        ("With frozen layers it fails, or they get gradients.",
         "有冻结的层时出错，或者它们也得到了梯度。"),
        ("A parameter that requires no gradient is no part of the graph, and asking for its gradient raises.",
         "不需要梯度的参数不在计算图里，向它要梯度会抛出异常。"),
        ("torch.autograd.backward finds by itself who needs a gradient; do not list the parameters.",
         "torch.autograd.backward 自己会找到谁需要梯度，不用列出参数。"),
    ),
    "nested": (
        ("A segment inside a segment goes wrong.",
         "段里面再放一段就出错。"),
        ("The second run of the outer one is the first run of the inner one: it must see a graph being built and the outer one's random numbers.",
         "外层的第二次运行，就是内层的第一次运行：它要能建图，也要用外层恢复的随机数。"),
        ("Each call keeps its own state in ctx. Run again under torch.enable_grad(), go back with torch.autograd.backward, which reaches the inner "
         "one's parameters, and put the generator back to where this backward found it.",
         "每次调用都把自己的状态存在 ctx 里。在 torch.enable_grad() 下再次运行，用 torch.autograd.backward 往回传，这样才到得了内层的参数；"
         "之后把生成器放回这一次 backward 开始时的状态。"),
    ),
    "keep-as": (
        ("With keep_as, too much is kept, or the numbers are wrong.",
         "指定 keep_as 时，留下的太多，或者数值不对。"),
        ("Only what is kept is rounded. The first run reads x as it came; the second reads the kept copy, turned back into x's dtype.",
         "只有保存下来的那一份才舍入。第一次运行读原样的 x；第二次读保存的那一份，并转回 x 的 dtype。"),
        ("Save x.to(keep_as) rather than x, also not beside it; in backward: kept.to(the dtype that x had), detached, with requires_grad_.",
         "保存 x.to(keep_as)，不要再同时保存 x；在 backward 里：先 .to(x 原来的 dtype)，再 detach 并设置 requires_grad_。"),
    ),
    "leak": (
        ("All is right, but something stays alive after the backward pass.",
         "结果都对，但反向传播之后还有东西存活。"),
        ("What is saved with ctx.save_for_backward goes when the graph goes; what is kept elsewhere stays as long as the model.",
         "用 ctx.save_for_backward 保存的，会随计算图一起释放；存在别处的，会和模型一样长久。"),
        ("Look for self.something = …, a list that grows, or ctx.y = y of the very output, in what forward or backward do.",
         "看看 forward 或 backward 里有没有 self.… = …、越来越长的列表，或者把输出本身存进 ctx（ctx.y = y）。"),
    ),
    "graph.second-run": (
        ("The second run's output does not require a gradient, so there is nothing to go back through.",
         "第二次运行的输出不需要梯度，无从反向。"),
        ("No graph is built inside backward unless you ask for it.",
         "backward 里默认不建计算图。"),
        ("Run again under with torch.enable_grad():, from an input that requires a gradient.",
         "把第二次运行放在 with torch.enable_grad(): 之下，从一个需要梯度的输入开始。"),
    ),
}
