"""How weights are first drawn: how wide, alike in every layout, and what is refused."""

import math

import pytest
import torch

from lab_utils.config import ConfigError, ModelConfig, TrainConfig
from lab_utils.estimate import estimate
from lab_utils.first_values import first_std, first_values
from lab_utils.model import GPT
from lab_utils.train import train

SHAPE = ModelConfig(layers=8, hidden=256, heads=4)
# published rules, for fan_in 256: a square matrix, one into the stream from 1,024, the head
WIDTHS = {
    "gpt2": (0.02, 0.02 / 4, 0.02),
    "xavier": (1 / 16, math.sqrt(2 / 1280), 1 / 16),
    "he": (math.sqrt(2) / 16, math.sqrt(2) / 32, math.sqrt(2) / 16),
    "mup": (1 / 16, 1 / 32, 1 / 256),
}


@pytest.mark.parametrize("init", WIDTHS)
def test_each_rule_draws_as_wide_as_it_was_published(init):
    values = dict(GPT(SHAPE, init=init).named_parameters())
    names = ("blocks.3.attention.query.weight", "blocks.3.mlp.down.weight", "head.weight")
    for name, std in zip(names, WIDTHS[init], strict=True):
        assert values[name].std().item() == pytest.approx(std, rel=0.02), name
        assert abs(values[name].mean().item()) < std / 50
    assert values["token_embedding.weight"].std().item() == pytest.approx(0.02, rel=0.02)
    assert values["blocks.3.mlp.up.bias"].abs().max() == 0
    assert values["final_norm.weight"].eq(1).all()


def test_the_default_is_gpt2_to_the_bit():
    name, shape = "blocks.0.mlp.up.weight", (1024, 256)
    assert torch.equal(GPT(SHAPE).get_parameter(name), first_values(name, shape, SHAPE, 0, "gpt2"))
    assert TrainConfig.of("tiny").init == "gpt2"


def test_mup_follows_the_width():
    for name, power in (("head.weight", -1), ("blocks.0.mlp.up.weight", -0.5)):
        narrow, wide = (first_std(name, (256, h), SHAPE, "mup") for h in (32, 256))
        assert math.log(wide / narrow, 8) == pytest.approx(power)


@pytest.mark.parametrize(
    "layout",
    [
        dict(dp=2, zero=3),
        dict(tp=2),
        dict(pp=2),
        dict(pp=2, micro_batch=2, engine="torch"),
        dict(tp=2, engine="torch"),
    ],
    ids=str,
)
def test_every_layout_starts_alike(layout):
    layout = dict(layout)
    one = TrainConfig.of("tiny", layers=2, global_batch=4, steps=2, init="xavier")
    engine = dict(engine=layout.pop("engine")) if "engine" in layout else {}
    alone, cut = train(one), train(one.replace(**layout), **engine)
    assert cut.loss == pytest.approx(alone.loss, rel=1e-6)
    assert alone.loss != pytest.approx(train(one.replace(init="gpt2")).loss, rel=1e-6)


def test_no_byte_depends_on_it():
    one = TrainConfig.of("tiny")
    assert estimate(one).ranks == estimate(one.replace(init="he")).ranks


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="choose gpt2, xavier, he, mup"):
        TrainConfig.of("tiny", init="kaiming")
    with pytest.raises(ConfigError, match="use --no-tied"):
        TrainConfig.of("tiny", init="mup", tied=True)
