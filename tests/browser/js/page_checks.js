// What is wrong with a notebook's page as it stands: lines that are cut, words of the other language.
// Runs in JupyterLab's page; returns sentences.
({ lang, tolerance }) => {
  const wrong = [], panel = document.querySelector(".jp-NotebookPanel:not(.lm-mod-hidden)");
  const seen = node => node.checkVisibility() && node.getBoundingClientRect().height > 0;
  const where = node => {
    const cell = node.closest(".jp-Cell");
    return `cell ${[...panel.querySelectorAll(".jp-Cell")].indexOf(cell)}`;
  };
  const short = text => JSON.stringify(text.trim().slice(0, 70));

  // ---- nothing cut -------------------------------------------------------------------------------------------------
  for (const editor of panel.querySelectorAll(".cm-scroller")) {
    if (seen(editor) && editor.scrollWidth > editor.clientWidth + tolerance) {
      const longest = [...editor.querySelectorAll(".cm-line")].map(line => line.textContent).sort((a, b) => b.length - a.length)[0];
      wrong.push(`${where(editor)}: code is cut, ${editor.scrollWidth} px in ${editor.clientWidth}: ${short(longest ?? "")}`);
    }
  }
  const boxes = ".jp-OutputArea-output, .jp-OutputArea-output pre, .jp-RenderedMarkdown, .jp-RenderedMarkdown pre, .lab-card, .explorer";
  for (const box of panel.querySelectorAll(boxes)) {
    if (seen(box) && box.scrollWidth > box.clientWidth + tolerance && box.clientWidth > 0)
      wrong.push(`${where(box)}: ${box.className || box.tagName} is cut, ${box.scrollWidth} px in ${box.clientWidth}: ${short(box.innerText ?? "")}`);
  }
  for (const picture of panel.querySelectorAll(".jp-OutputArea-output img, .jp-OutputArea-output svg, .jp-OutputArea-output table")) {
    const area = picture.closest(".jp-OutputArea-output"), right = picture.getBoundingClientRect().right;
    if (seen(picture) && right > area.getBoundingClientRect().right + tolerance) wrong.push(`${where(picture)}: a ${picture.tagName} sticks out of its cell`);
  }

  // ---- a table's cell is not broken into a column of letters ------------------------------------------------------------
  for (const cell of panel.querySelectorAll(".jp-OutputArea-output td, .jp-OutputArea-output th")) {
    const line = parseFloat(getComputedStyle(cell).lineHeight) || 20, lines = cell.getBoundingClientRect().height / line;
    if (seen(cell) && lines > 4.5 && cell.innerText.length < 12 * lines) wrong.push(`${where(cell)}: a table breaks ${short(cell.innerText)} into ${Math.round(lines)} lines`);
  }

  // ---- one language ----------------------------------------------------------------------------------------------------
  const han = /[\u4e00-\u9fff]/, sentence = /\b[A-Za-z]+(?: [a-z]+){5,}\b/;
  // what `show` prints is the package's own source, and the title of a work is in its own language
  const words = node => {
    const copy = node.cloneNode(true);
    if (copy.querySelector(":scope > div > b + pre, :scope div:has(> b) + pre")) return "";
    copy.querySelectorAll("script, style, code, pre, mjx-container, .katex, a, em, [lang]:not(.explorer)").forEach(part => part.remove());
    return copy.textContent;
  };
  const texts = [...panel.querySelectorAll(".jp-RenderedMarkdown, .jp-OutputArea-output")].map(node => [node, words(node)]);
  if (lang === "en") {
    for (const pre of panel.querySelectorAll(".jp-OutputArea-output:not(:has(div > b)) pre, .jp-CodeCell .cm-line")) texts.push([pre, pre.textContent]);
    for (const [node, text] of texts) {
      const plain = text.replace(/“[^”]*”/g, ""), hit = plain.match(/.{0,20}[\u4e00-\u9fff].{0,20}/);
      if (hit) wrong.push(`${where(node)}: Chinese in an English page: ${short(hit[0])}`);
    }
  } else {
    for (const line of panel.querySelectorAll(".jp-CodeCell .cm-line")) {
      const comment = line.textContent.match(/#.*/);
      if (comment) texts.push([line, comment[0]]);
    }
    for (const [node, text] of texts) {
      const hit = text.replace(/“[^”]*”|《[^》]*》|"[^"]*"/g, "").match(sentence);
      if (hit) wrong.push(`${where(node)}: English in a Chinese page: ${short(hit[0])}`);
    }
  }
  return wrong;
}
