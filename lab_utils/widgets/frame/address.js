// The setting of a tool in the address of its page: #stage=2&ranks=64. Whoever opens that address
// sees that setting, in either language. Only where the page is the tool's own; a notebook keeps
// its address.

const WAIT_MS = 250;        // a slider on its way is written down once

/** `ids`: of every control the names of its options in an address, a list for each value of the
    control that decides them. `show(state)` is called for an address that changed while the page
    stood open. */
function makeAddress(controls, { ids, words }, start, root, show) {
  const listed = ({ name, by }, state) => ids[name][by ? state[by] : 0];
  const line = make("p", { class: "address" });
  const button = make("button", { type: "button", text: words.copy }, line);
  const said = make("span", { "aria-live": "polite" }, line);
  let now = start, timer;

  /** The state that the address asks for; where it names nothing that can be set, the start. */
  const read = () => {
    const hash = location.hash.slice(1), asked = new Map(new URLSearchParams(hash));
    const state = { ...start }, unknown = [];
    now = state;
    said.textContent = "";
    if (!hash.includes("=")) return state;        // a place in the page
    for (const control of controls) {
      const names = listed(control, state), value = asked.get(control.name);
      const at = names.indexOf(value);
      state[control.name] = at < 0 ? Math.min(state[control.name], names.length - 1) : at;
      if (at >= 0) asked.delete(control.name);
    }
    for (const [name, value] of asked) unknown.push(`${name}=${value}`);
    const list = unknown.join(" · ");
    const short = list.length > 60 ? `${list.slice(0, 60)}…` : list;
    if (list) said.textContent = fill(words.unknown, { list: short });
    return state;
  };

  const written = state => {
    const differs = controls.filter(({ name }) => state[name] !== start[name]);
    const pairs = differs.map(control => [control.name, listed(control, state)[state[control.name]]]);
    const hash = new URLSearchParams(pairs).toString();
    return location.href.split("#")[0] + (hash && `#${hash}`);
  };
  const put = state => { try { history.replaceState(null, "", written(state)); } catch { /* a frame without an address */ } };

  button.addEventListener("click", async () => {
    clearTimeout(timer);                          // else it wipes what is said here
    put(now);
    try {
      await navigator.clipboard.writeText(written(now));
      said.textContent = words.copied;
    } catch {
      said.textContent = written(now);            // to be copied by hand
    }
  });
  window.addEventListener("hashchange", () => { if (root.isConnected && location.hash.includes("=")) show(read()); });

  return {
    read,
    place: () => root.append(line),               // below all that the tool shows
    write: state => {
      if (state === now) return;
      now = state;
      clearTimeout(timer);
      timer = setTimeout(() => { put(now); said.textContent = ""; }, WAIT_MS);
    },
  };
}
