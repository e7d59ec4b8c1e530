// From now on, window.heard gets all that a screen reader is told.
() => {
  window.heard = [];
  const said = document.querySelector("[role=status]");
  const listen = new MutationObserver(() => heard.push(said.textContent));
  listen.observe(said, { childList: true, characterData: true, subtree: true });
}
