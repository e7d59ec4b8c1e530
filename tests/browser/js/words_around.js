// Every word around the article of a page of the site, seen or only read out.
() => {
  const named = ["aria-label", "title", "placeholder"];
  const around = [...document.querySelectorAll("body *")].filter(node => !node.closest("article, script, style"));
  return around.flatMap(node => [
    ...[...node.childNodes].filter(child => child.nodeType === Node.TEXT_NODE).map(child => child.data.trim()),
    ...named.map(name => node.getAttribute(name) ?? ""),
  ]).filter(Boolean).join(" | ");
}
