// What the pages of the site do beside their theme.

// The other language opens with the same setting of a tool.
for (const link of document.querySelectorAll(".other-language a")) {
  link.addEventListener("click", () => { link.hash = location.hash; });
}

// What is wider than the page can be reached and moved by the keyboard.
const reachable = () => {
  for (const box of document.querySelectorAll("pre, .cell_output, .formula, .lab-map, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
};
addEventListener("load", reachable);
addEventListener("resize", reachable);
