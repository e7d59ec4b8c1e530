"""The roof of this machine is above its kernels, and the kernels that it is measured with reach it;
margins are generous, since others use the machine, too."""

from __future__ import annotations

import pytest
import torch
from quiet import on_time

from lab_utils.course.roofline_figure import roofline_figure
from lab_utils.measure.roofline import Dot, Roof, fastest, layer_dot, measure_roof


def test_the_roof_is_the_lower_of_its_two_walls():
    roof = Roof(100e9, 25e9)
    assert roof.ridge == 4
    assert roof.at(1) == 25e9
    assert roof.at(4) == roof.at(400) == 100e9


def test_a_layers_intensity_is_half_its_batch_while_the_batch_is_small():
    for batch in (1, 4, 16):
        dot = layer_dot(batch, 1024, 1024, least=0.0)
        assert dot.flops == 2 * batch * 1024 * 1024
        assert dot.nbytes == 4 * (1024 * 1024 + 2 * batch * 1024)
        assert dot.intensity == pytest.approx(batch / 2, rel=0.04)


def test_the_number_of_threads_is_as_before_even_after_an_error():
    before = torch.get_num_threads()
    assert fastest(lambda: None, 0.001) < 0.01
    with pytest.raises(ZeroDivisionError):
        fastest(lambda: 1 / 0)
    assert torch.get_num_threads() == before


def test_a_small_batch_stands_on_the_slope_and_a_large_one_on_the_flat():
    roof = measure_roof()
    one, many = layer_dot(1), layer_dot(512)
    said = f"{roof}, {one.flops_per_second:.3g}, {many.flops_per_second:.3g} FLOP/s"
    on_time(one.flops_per_second < roof.flops_per_second / 3, said)
    on_time(many.flops_per_second > roof.flops_per_second / 3, said)
    on_time(0.5 < roof.ridge < 50, said)


def test_the_figure_holds_every_dot_and_its_name():
    dots = [Dot("a", 1e9, 1e9, 0.1), Dot("b", 1e11, 1e9, 2.0)]
    figure = roofline_figure(Roof(1e11, 2e10), {"kernels": dots})
    assert list(figure.data[1].text) == ["a", "b"]
    assert list(figure.data[1].y) == pytest.approx([10, 50])
    assert figure.data[0].y[1] == pytest.approx(100)
