// A handle in a picture: pulled along a line of spots, it chooses the option of its control that
// stands nearest. The control itself stays for keyboards.

/** `data-drag`: the control; `data-spots`: where its options stand, in the picture's own units. */
function makeDraggable(svg, choose) {
  let held;
  const at = event =>
    new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse()).x;
  const letGo = () => { held = undefined; };
  svg.addEventListener("pointerdown", event => {
    held = event.target.closest("[data-drag]");
    if (!held) return;
    event.preventDefault();       // no text is selected on the way
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", event => {
    if (!held) return;
    const spots = held.getAttribute("data-spots").split(" ").map(spot => Math.abs(spot - at(event)));
    choose(held.getAttribute("data-drag"), spots.indexOf(Math.min(...spots)));
  });
  svg.addEventListener("pointerup", letGo);
  svg.addEventListener("pointercancel", letGo);
}
