"""The hints of exercise 3: symptom, principle, place."""

from __future__ import annotations

from ...hints import Ladder
from .alone import SHARED

HINTS: dict[str, Ladder] = SHARED | {
    "plan.form": (
        ("What was returned is no plan that could be carried out.",
         "返回的内容不是能够执行的方案。"),
        ("A plan lists only the segments that are computed twice; layers in no segment keep what they save.",
         "方案只列出要算两遍的段；不在任何段里的层照常保存。"),
        ("(1, 3) means layers 1 and 2. The next segment begins at 3 or later, and the last one ends at len(layers) at the most.",
         "(1, 3) 表示第 1、2 层。下一段从 3 或更后面开始，最后一段至多到 len(layers)。"),
    ),
    "peak.backward": (
        ("When forward is over there is room to spare; then, in backward, it is gone.",
         "前向结束时还有富余，到了反向却超了。"),
        ("The second run of a segment brings back everything that its layers save, all of it at once. One segment for the whole model is the "
         "whole model again.",
         "一段的第二次运行，会把段内各层保存的东西一次全部找回来。把整个模型当作一段，那一刻就又是整个模型。"),
        ("The peak is a maximum over moments: when segment (b, e) runs again, all that is kept before layer b, plus saved_bytes of layers b to e − 1.",
         "峰值是对各时刻取最大：段 (b, e) 再次运行时，占用是第 b 层之前保存的一切，加上第 b 到 e − 1 层的 saved_bytes。"),
    ),
    "peak.forward": (
        ("Already when forward is over, more is kept than the budget allows.",
         "前向刚结束，保存的就已经超出预算。"),
        ("At that moment every kept layer holds its saved_bytes, and every segment the input of its first layer.",
         "这一刻，每个保留的层占着 saved_bytes，每一段占着第一层的 input_bytes。"),
        ("Add up in order: saved_bytes for a layer in no segment, layers[begin].input_bytes for a segment; compare the largest sum with the budget.",
         "按次序累加：不在段里的层加 saved_bytes，一段加 layers[begin].input_bytes；用最大的和与预算比较。"),
    ),
    "flops": (
        ("It fits, but more is computed twice than has to be.",
         "放得下，但重计算的比必要的多。"),
        ("A segment for each layer, or √L equal ones, is a rule of thumb for equal layers. Layers that are cheap to compute and large to keep "
         "go first, and the last ones often need no recomputation at all.",
         "每层一段，或者等分成 √L 段，只是各层相同时的经验法则。应当优先重算那些计算便宜、占用又大的层；最后几层往往根本不用重算。"),
        ("Go through every plan: a layer is kept, or begins a segment that ends at any later layer. Of those that fit, take the one with the "
         "smallest sum of flops (8 layers have 1,597 plans). Count each input once: saved_bytes has it already.",
         "逐个枚举所有方案：一层要么保留，要么开始一段，这一段可以在后面任何一层结束。在放得下的方案里，取 flops 之和最小的"
         "（8 层共有 1597 个方案）。每个输入只算一次：saved_bytes 里已经包括它了。"),
    ),
    "gave-up": (
        ("There is a plan that fits; yours was not found.",
         "有方案放得下，你的代码没有找到。"),
        ("Kept layers, short segments and long ones can be mixed. Long segments hold fewer inputs, short ones bring back less at once.",
         "保留的层、短的段、长的段可以混用。段长，保存的输入就少；段短，一次找回来的就少。"),
        ("Try all combinations, and compare with <= budget: exactly the budget still fits. Count each input once: saved_bytes has it already.",
         "尝试所有组合，比较时用 <= budget：恰好等于预算也算放得下。每个输入只算一次：saved_bytes 里已经包括它了。"),
    ),
    "no-need": (
        ("Everything fits as it is, and still something is computed twice.",
         "什么都不做就放得下，却还是做了重计算。"),
        ("Recomputation is paid for in time. With enough memory the best plan is none.",
         "重计算要用时间来换。内存够用时，最好的方案就是不做。"),
        ("The plan [] recomputes nothing: let it take part in the comparison, and return it if its peak is at most the budget.",
         "[] 表示不做重计算：让它也参加比较，峰值不超过预算就返回它。"),
    ),
    "nothing-fits": (
        ("No plan fits this budget, and that must be said.",
         "没有任何方案能放进这个预算，这一点必须说出来。"),
        ("Even if every layer is computed twice, one layer's own activations and the inputs before it have to be there at once.",
         "即使每一层都算两遍，某一层自己的激活值和它前面保存的那些输入，总要同时存在。"),
        ("Return None when no plan's peak is at most the budget, not the smallest that there is.",
         "没有任何方案的峰值不超过预算时，返回 None，不要返回其中最小的。"),
    ),
}
