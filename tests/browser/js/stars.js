// Texts with a star left over: emphasis that Markdown did not understand.
() =>
  [...document.querySelectorAll(".jp-RenderedMarkdown")]
    .map(prose => {
      const copy = prose.cloneNode(true);
      copy.querySelectorAll("code, pre, mjx-container").forEach(part => part.remove());
      return copy.textContent;
    })
    .filter(text => text.includes("*"))
