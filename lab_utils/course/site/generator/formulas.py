"""Formulas as MathML, which browsers draw themselves: no script, no font, no third party. The
conversion is docutils' own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

if TYPE_CHECKING:
    from docutils.nodes import Element
    from sphinx.application import Sphinx

# the size of a bracket, which MathML finds by itself
_BIG = re.compile(r"\\[bB]igg?[lr]?(?![a-zA-Z])")


def mathml(tex: str, block: bool) -> str:
    """TeX as a <math> element. Raises docutils' MathError for a command that it does not know."""
    return tex2mathml(_BIG.sub("", tex), as_block=block)


def _inline(self: Any, node: Element) -> None:
    self.body.append(mathml(node.astext(), block=False))
    raise SkipNode


def _block(self: Any, node: Element) -> None:
    self.body.append(f'<div class="formula">{mathml(node.astext(), block=True)}</div>')
    raise SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer "mathml"."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
