"""What is said of a plan of tensor parallelism that does not fit its model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lab_utils import ParallelConfig, launch
from lab_utils.i18n import set_language
from lab_utils.parallel.mesh import Mesh
from lab_utils.parallel.tensor_parallel import tensor_parallel
from lab_utils.parallel.tensor_plan import Attributes, Cut, TensorPlan


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(12, 12), nn.Linear(12, 12), nn.LayerNorm(12)
        self.again, self.heads = nn.Linear(12, 12), 6
        self.again.weight = self.down.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.down(self.up(x)))


HALVES = (
    "after what is cut by column the plan needs what is cut by row, and before it the other way"
    " round."
)
WRONG: list[tuple[TensorPlan, str]] = [
    ({"upp": "column"}, "the plan's 'upp' is the name of no module; the nearest is 'up'."),
    (
        {"up": "columns"},
        "up: there is no style 'columns'; choose column, row, head, vocabulary, heads, channels,"
        " summed, enter.",
    ),
    (
        {"norm": "row"},
        "norm: LayerNorm cannot be cut by 'row', which is for Linear, Conv1D, Conv1d, Conv2d,"
        " Conv3d (convolutions in one group, attention with one fused projection).",
    ),
    ({"up": ["column", "row"]}, "up: the plan gives it two styles, 'column' and 'row'."),
    (
        {"up": Cut("column", unit=2)},
        "up.out_features = 12 in units of 2 cannot be shared out equally to 4 ranks; degrees that"
        " work: 3 or 6.",
    ),
    ({"up": Cut("column", groups=5)}, "up.out_features = 12 is not 5 groups in units of 1."),
    (
        {"": Attributes("heads")},
        "heads = 6 cannot be shared out equally to 4 ranks; degrees that work: 3 or 6.",
    ),
    (
        {"down": "row"},
        "down.weight and again.weight are one weight, which the plan cuts in two ways: name both"
        ' ("vocabulary" and "head" agree), or neither.',
    ),
    (
        {"": "enter", "up": "column", "down": "row", "again": "row"},
        "norm stays whole inside Gated, where a rank sees a part of the work: name it too (as"
        ' "summed" its gradients are added up).',
    ),
    ({"up": "column"}, f"down reads 12 features, and 3 came: {HALVES}"),
    ({"again": "row", "down": "row"}, f"down reads 3 features, and 12 came: {HALVES}"),
]


def said(lang: str) -> list[str]:
    """On a rank: what is said of each wrong plan, at the latest when the model runs."""
    set_language(lang)
    axis, found = Mesh(ParallelConfig(tp=4))["tp"], []
    for plan, _ in WRONG:
        model = Gated()
        try:
            tensor_parallel(model, axis, plan)
            model(torch.zeros(2, 12))
            found.append("")
        except ValueError as error:
            found.append(str(error))
    return found


def test_a_wrong_plan_is_answered_with_a_sentence():
    assert launch(said, 4, "en", threads=1)[0] == [sentence for _, sentence in WRONG]


def test_the_sentences_are_there_in_chinese():
    for sentence in launch(said, 4, "zh", threads=1)[0]:
        assert any("\u4e00" <= letter <= "\u9fff" for letter in sentence), sentence
