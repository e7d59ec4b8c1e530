// Every element of the tools' pictures with its attributes and colours.
() => [...document.querySelectorAll("figure > svg > *")].map(node => {
  const item = { tag: node.tagName, words: node.textContent };
  for (const { name, value } of node.attributes) if (name !== "style") item[name] = value;
  for (const name of ["fill", "stroke"]) if (node.style[name]) item[name] = node.style[name];
  return item;
})
