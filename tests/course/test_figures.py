"""The shared figures' words, on readings written here."""

import pytest

from lab_utils import i18n
from lab_utils.course.figures import memory_figure
from lab_utils.measure.curve import Reading

STEP = [
    Reading("forward", "embed", 10, 0),
    Reading("forward", "blocks.0", 20, 10),
    Reading("backward", "head_loss", 50, 30),
    Reading("backward", "blocks.0", 40, 20),
    Reading("update", "", 30, 0),
]


@pytest.mark.parametrize(
    ("lang", "words", "peak"),
    [
        (
            "en",
            [
                "forward, embedding",
                "forward, block 0",
                "backward, head and loss",
                "backward, block 0",
                "update",
            ],
            "peak: backward, head and loss",
        ),
        (
            "zh",
            ["前向，嵌入层", "前向，第 0 层", "反向，输出层与损失", "反向，第 0 层", "更新"],
            "峰值：反向，输出层与损失",
        ),
    ],
)
def test_a_moment_is_named_in_words(monkeypatch, lang, words, peak):
    monkeypatch.setattr(i18n, "_chosen", lang)
    alive, saved, highest = memory_figure({"a step": STEP}).data
    assert list(alive.text) == list(saved.text) == words
    assert list(highest.text) == [peak]
