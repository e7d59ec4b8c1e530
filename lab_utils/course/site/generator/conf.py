"""Sphinx's settings for one language of the site, which LAB_LANG names."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from sphinx.application import Sphinx

lang = os.environ["LAB_LANG"]
chinese = lang == "zh"
project = "大模型训练实验室" if chinese else "LLM Training Lab"
html_title = project
language = "zh_CN" if chinese else "en"

extensions = ["myst_nb", "formulas"]
root_doc = "lessons/00_start"
exclude_patterns = ["**/*.part"]
nb_execution_mode = "off"
nb_code_prompt_show = "显示代码" if chinese else "Show the code"
nb_code_prompt_hide = "收起代码" if chinese else "Hide the code"
myst_enable_extensions = ["dollarmath"]
html_math_renderer = "mathml"
smartquotes = False

html_theme = "furo"
html_show_copyright = False
html_copy_source = False
html_use_index = False
html_static_path = ["static"]
templates_path = ["templates"]
html_extra_path = [str(Path(os.environ["LAB_SITE_EXTRA"]))]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_additional_pages = {"search": "search.html"}
html_permalinks_icon = "#"
html_favicon = "static/icon.svg"
html_context = {
    "lang": lang,
    "other": "en" if chinese else "zh",
    "other_name": "English" if chinese else "中文",
    "other_lang": "en" if chinese else "zh-CN",
    "search_words": "搜索全部课程、实验和工具" if chinese else "Search all lessons, labs and tools",
}
html_theme_options = {"top_of_page_buttons": []}


def setup(app: Sphinx) -> None:
    """Search is Pagefind's: Sphinx's own index would find no Chinese word inside a phrase."""
    app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
