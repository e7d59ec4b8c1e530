"""The names of a tool's settings in the address of its page."""

from __future__ import annotations

from importlib import import_module
from urllib.parse import quote_plus

import pytest

from lab_utils.widgets import rooms
from lab_utils.widgets.frame import Select
from lab_utils.widgets.frame.address import address, option_id


@pytest.mark.parametrize("name", rooms())
def test_every_setting_of_a_tool_has_a_name_and_it_is_the_same_in_both_languages(name):
    english, chinese = (
        import_module(f"lab_utils.widgets.{name}").explorer(lang) for lang in ("en", "zh")
    )
    ids = address(english._by_name, "en")["ids"]
    assert ids == address(chinese._by_name, "zh")["ids"]
    for control in english.spec["controls"]:
        listed = ids[control["name"]]
        assert [len(names) for names in listed] == [len(words) for words in control["words"]]
        # nothing that an address would have to write in another way, and nothing long
        every = [control["name"], *(one for names in listed for one in names)]
        assert [one for one in every if one != quote_plus(one) or len(one) > 24] == []


def test_an_option_is_named_by_its_value():
    values = [True, False, 64, 0.003, 65504.0, 3e-08, 1e6, "llama3.1-405b", ("dp", "tp"), ("f", 3)]
    names = ["on", "off", "64", "0.003", "65504", "3e-8", "1e6", "llama3.1-405b", "dp-tp", "f-3"]
    assert [*map(option_id, values)] == names


def test_two_options_of_one_name_are_refused():
    two = Select(name="rate", label="rate", options=[(1e-3, "a"), (0.001, "b")])
    with pytest.raises(ValueError, match="two options of 'rate' have one name: 0.001, 0.001"):
        address({"rate": two}, "en")
