// Boxes of all texts of the tools' pictures in their own units; wrong are those that leave the
// picture, overlap, or stick out of the rectangle they stand in.
() => [...document.querySelectorAll("figure > svg")].flatMap(svg => {
  const { width, height } = svg.viewBox.baseVal, wrong = [];
  const texts = [...svg.querySelectorAll("text")].map(n => [n, n.getBBox()]);
  const rects = [...svg.querySelectorAll("rect")].map(n => n.getBBox());
  const apart = (b, c, slack) =>
    b.x >= c.x + c.width || c.x >= b.x + b.width ||
    b.y + slack >= c.y + c.height || c.y + slack >= b.y + b.height;
  texts.forEach(([n, b], i) => {
    const right = b.x + b.width, bottom = b.y + b.height;
    if (b.x < -0.5 || b.y < -0.5 || right > width + 0.5 || bottom > height + 0.5) {
      wrong.push(`cut: ${n.textContent}`);
    }
    for (const [m, c] of texts.slice(i + 1)) {
      if (!apart(b, c, 3)) wrong.push(`overlap: ${n.textContent} / ${m.textContent}`);
    }
    if (n.getAttribute("text-anchor") !== "middle") return;
    const middle = { x: b.x + b.width / 2, y: b.y + b.height / 2, width: 0.1, height: 0.1 };
    for (const r of rects) {
      if (!apart(middle, r, 0) && b.width > r.width) wrong.push(`too wide: ${n.textContent}`);
    }
  });
  return wrong;
})
