"""Which language is spoken."""

from __future__ import annotations

import pytest

from lab_utils import i18n


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.setattr(i18n, "_chosen", None)
    monkeypatch.delenv("LAB_LANG", raising=False)


def test_the_choice_beats_the_environment_beats_english(monkeypatch):
    assert i18n.t("text", "文字") == "text"
    monkeypatch.setenv("LAB_LANG", "zh")
    assert i18n.t("text", "文字") == "文字"
    i18n.set_language("en")
    assert i18n.t("text", "文字") == "text"
    assert i18n.t("text", "文字", "zh") == "文字"


def test_an_unknown_language(monkeypatch):
    monkeypatch.setenv("LAB_LANG", "de")
    assert i18n.language() == "en"
    with pytest.raises(ValueError, match='"en" or "zh", not \'de\''):
        i18n.set_language("de")
    assert i18n.language() == "en"


@pytest.mark.parametrize(
    ("name", "found"),
    [("zh_CN.UTF-8", "zh"), ("zh-Hans", "zh"), ("ZH", "zh"), ("en_GB", "en"), ("fr_FR", "en")],
)
def test_a_locale_s_name_will_do(name, found, monkeypatch):
    monkeypatch.setattr(i18n, "_chosen", None)
    monkeypatch.setenv("LAB_LANG", name)
    assert i18n.language() == found
