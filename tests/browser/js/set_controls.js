// Sets controls by [label, index]. In one call: a control set through the driver takes ten times as
// long as the page takes to draw what comes of it.
moves => {
  for (const [label, index] of moves) {
    const boxes = document.querySelectorAll(".control input, .control select");
    const box = [...boxes].find(box => box.labels[0].textContent === label);
    if (box.type === "checkbox") {
      if (box.checked !== Boolean(index)) box.click();
      continue;
    }
    if (box.tagName === "SELECT") box.selectedIndex = index;
    else box.value = index;
    for (const kind of ["input", "change"]) box.dispatchEvent(new Event(kind, { bubbles: true }));
  }
}
