// Draws an Explorer in place of whatever stands in `host`: in a page of its own, or in the saved
// output of a notebook. All numbers and words come from Python; no kernel is asked for anything.
// The file stands inside a function, so several tools on one page do not meet.

const SVG = "http://www.w3.org/2000/svg";
const STEP_MS = 1000;       // between two steps of a playing slider
const QUIET_MS = 600;       // a screen reader hears the result once all has been still for so long
const ICONS = { play: "M3 1.5v11l9 -5.5z", pause: "M3 2h3v10h-3zM8 2h3v10h-3z" };

function make(tag, attributes, parent, namespace) {
  const node = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else node.setAttribute(name, value);
  }
  parent?.append(node);
  return node;
}

async function decompress(words) {
  const bytes = Uint8Array.from(atob(words), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

/** Puts one item on its SVG element. `before` is the item that the element shows now. */
function dress(node, item, before) {
  for (const name in before) {
    if (name in item) continue;
    if (name === "fill" || name === "stroke") node.style[name] = "";
    else node.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(item)) {
    if (before?.[name] === value || ["tag", "key", "text", "title"].includes(name)) continue;
    if (name !== "fill" && name !== "stroke") node.setAttribute(name, value);
    else node.style[name] = value === "none" ? value : `var(--${value})`;
  }
  if (item.text !== before?.text || item.title !== before?.title) {
    node.textContent = item.text ?? "";
    if (item.title) make("title", { text: item.title }, node, SVG);
  }
}

/** One panel: an SVG whose elements are kept by key from scene to scene, and a caption that says
    the result. */
function makePicture({ width, height }, figure, moved) {
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" }, figure, SVG);
  makeDraggable(svg, moved);
  const caption = make("figcaption", { "aria-hidden": "true" }, figure);
  const shown = new Map();          // key → { node, item }
  const drop = key => { shown.get(key).node.remove(); shown.delete(key); };
  return scene => {
    const tags = new Map(scene.items.map(item => [item.key, item.tag]));
    for (const [key, { item }] of [...shown]) if (tags.get(key) !== item.tag) drop(key);
    let next = svg.firstChild;
    for (const item of scene.items) {
      let kept = shown.get(item.key);
      if (!kept) {
        kept = { node: make(item.tag, {}, null, SVG), item: undefined };
        shown.set(item.key, kept);
      }
      if (kept.item !== item) dress(kept.node, item, kept.item);
      kept.item = item;
      // later items are painted over earlier ones; an element that is already in place must not be
      // touched: it may be moving
      if (kept.node === next) next = next.nextSibling;
      else svg.insertBefore(kept.node, next);
    }
    svg.setAttribute("aria-label", scene.alt);
    caption.textContent = scene.alt;
  };
}

/** A button that plays a slider to its end; its shape is drawn, because glyphs differ by font. */
function makePlay(words, parent, toggle) {
  const button = make("button", { type: "button" }, parent);
  const icon = make("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, button, SVG);
  const shape = make("path", {}, icon, SVG), label = make("span", {}, button);
  button.addEventListener("click", toggle);
  return playing => {
    const kind = playing ? "pause" : "play";
    shape.setAttribute("d", ICONS[kind]);
    if (label.textContent !== words[kind]) label.textContent = words[kind];
  };
}

/** One control: native input, label, the chosen option in words. Returns what brings it up to
    date. */
function makeControl(control, words, parent, choose, togglePlay) {
  // random, because every view of every tool on a page runs this file anew
  const id = `explorer-${Math.random().toString(36).slice(2)}`;
  const box = make("div", { class: control.play ? "control play" : "control", "data-control": control.name }, parent);
  make("label", { for: id, text: control.label }, box);
  if (control.kind === "select") {
    const select = make("select", { id }, box);
    control.words[0].forEach((text, i) => make("option", { value: i, text }, select));
    select.addEventListener("change", () => choose(control.name, select.selectedIndex));
    return index => { select.selectedIndex = index; };
  }
  if (control.kind === "checkbox") {
    const input = make("input", { id, type: "checkbox" }, box);
    input.addEventListener("change", () => choose(control.name, +input.checked));
    return index => { input.checked = !!index; };
  }
  const input = make("input", { id, type: "range", min: 0, step: 1 }, box);
  input.addEventListener("input", () => choose(control.name, +input.value));
  const play = control.play && makePlay(words, box, () => togglePlay(control));
  const value = make("span", { class: "value", "aria-hidden": "true" }, box);
  return (index, options, playing) => {
    input.max = options.length - 1;
    input.value = index;
    input.setAttribute("aria-valuetext", options[index]);
    value.textContent = options[index];
    if (play) play(playing);
  };
}

/** Which steps of a tool are solved, kept by the browser where it keeps anything. */
function makeMemory(name, count) {
  const key = `lab_utils/${name}`;
  const read = () => { try { return JSON.parse(localStorage[key]); } catch { return null; } };
  const solved = read() ?? [];
  const write = () => { try { localStorage[key] = JSON.stringify(solved); } catch { /* none */ } };
  return {
    solved: () => Array.from({ length: count }, (_, i) => !!solved[i]),
    add: i => { solved[i] = true; write(); },
    clear: () => { solved.length = 0; write(); },
  };
}

/** The ladder: its steps as buttons, the task of the one that is shown, the verdict. `far(i)` says
    how far off step i is, null where it is met. Returns what brings it up to date; that returns
    what a screen reader shall hear. */
function makeLadder({ name, words, steps }, parent, far) {
  const memory = makeMemory(name, steps.length);
  const box = make("div", { class: "ladder", role: "group", "aria-label": words.challenge }, parent);
  const bar = make("div", { class: "steps" }, box);
  make("strong", { text: words.challenge }, bar);
  const firstOpen = () => {
    const open = memory.solved().indexOf(false);
    return open < 0 ? steps.length - 1 : open;
  };
  let at = firstOpen(), before = at;
  const show = i => { at = i; update(); };
  const name_ = i => fill(words.step, { number: i + 1, all: steps.length });
  const buttons = steps.map((_, i) => {
    const button = make("button", { type: "button" }, bar);
    button.addEventListener("click", () => show(i));
    return button;
  });
  const again = make("button", { type: "button", class: "again", text: words.again }, bar);
  again.addEventListener("click", () => { memory.clear(); show(0); });
  const task = make("p", { class: "task" }, box), verdict = make("p", { class: "verdict" }, box);
  const answer = make("b", {}, verdict), detail = make("span", {}, verdict);
  const next = make("button", { type: "button", text: words.next }, verdict);
  next.addEventListener("click", () => { show(at + 1); buttons[at].focus(); });

  function update() {
    const words_ = far(at), was = memory.solved()[at];
    if (words_ === null && !was) memory.add(at);
    const solved = memory.solved(), isSolved = solved[at];
    buttons.forEach((button, i) => {
      button.textContent = `${i + 1}${solved[i] ? " ✓" : ""}`;
      button.disabled = i > firstOpen();
      button.setAttribute("aria-label", name_(i) + (solved[i] ? `, ${words.done}` : ""));
      if (i === at) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    });
    again.hidden = !solved.includes(true);
    next.hidden = !isSolved || at === steps.length - 1;
    task.textContent = steps[at].task;
    answer.textContent = isSolved ? words.solved : words.open;
    detail.textContent = isSolved ? steps[at].why : words_;
    box.classList.toggle("solved", isSolved);
    const news = isSolved && !was && at === before ? `${words.solved} ${steps[at].why}` : "";
    before = at;
    return news;
  }
  return update;
}

async function render(host, heading, payload) {
  const { spec, table, needs, state: start, address } = await decompress(payload);
  const controls = new Map(spec.controls.map(control => [control.name, control]));
  // the attribute keeps JupyterLab from taking the arrow keys
  const root = make("section", { class: "explorer", lang: spec.lang, "aria-label": spec.title,
                                 "data-lm-suppress-shortcuts": "true" });
  root.addEventListener("keydown", event => event.stopPropagation());
  make(heading, { class: "title", text: spec.title }, root);
  const timers = {};
  const link = address && makeAddress(spec.controls, address, start, root, next => { stop(); put(next); });
  let state = link ? link.read() : start;

  const options = name => {
    const { words, by } = controls.get(name);
    return words[by ? state[by] : 0];
  };
  const position = names =>
    names.reduce((at, name) => at * controls.get(name).size + state[name], 0);

  const put = next => { state = next; draw(); };
  const choose = (name, index) => {
    const next = { ...state, [name]: index };
    for (const { name: other, by, words } of spec.controls) {
      if (by === name) next[other] = Math.min(next[other], words[index].length - 1);
    }
    put(next);
  };

  const stop = () => { clearInterval(timers.play); timers.playing = undefined; };
  const togglePlay = control => {
    const was = timers.playing;
    stop();
    if (was !== control.name) {
      const isLast = () => state[control.name] >= options(control.name).length - 1;
      timers.playing = control.name;
      timers.play = setInterval(() => {
        if (!root.isConnected) return stop();     // the output was cleared
        choose(control.name, state[control.name] + 1);
        if (isLast()) { stop(); draw(); }
      }, STEP_MS);
      choose(control.name, isLast() ? 0 : state[control.name] + 1);
      if (isLast()) stop();
    }
    draw();
  };

  // how far a step of the challenge is from being met: the first of its needs that is not speaks
  const far = i => {
    for (const { controls: names, at, values } of needs[i]) {
      const words = values[at[position(names)]];
      if (words) return words;
    }
    const panel = spec.steps[i].fits;
    return panel ? adders[panel].shortfall(shown[panel].reading) : null;
  };
  const ladder = spec.steps.length && makeLadder(spec, root, far);

  // each control stands above the first panel that it changes
  const inputs = [], placed = new Set(), adders = {};
  const pictures = spec.panels.map(panel => {
    const figure = make("figure", {}, root);
    if (panel.presets.length) {
      const label = { class: "presets", role: "group", "aria-label": spec.words.presets };
      const bar = make("div", label, figure);
      make("span", { text: spec.words.presets, "aria-hidden": "true" }, bar);
      for (const preset of panel.presets) {
        const button = make("button", { type: "button", text: preset.label }, bar);
        button.addEventListener("click", () => { stop(); put({ ...state, ...preset.state }); });
      }
    }
    const bar = make("div", { class: "controls" }, figure);
    if (panel.sums) adders[panel.name] = makeSums(panel, table[panel.name], position);
    const moved = (name, index) => { stop(); choose(name, index); };
    for (const control of spec.controls) {
      if (placed.has(control.name) || !panel.controls.includes(control.name)) continue;
      placed.add(control.name);
      inputs.push([control, makeControl(control, spec.words, bar, moved, togglePlay)]);
    }
    return [panel, makePicture(panel, figure, moved)];
  });
  const said = make("p", { class: "said", role: "status" }, root);
  link?.place();

  const sceneOf = panel => {
    const { items, scenes } = table[panel.name], at = position(panel.controls);
    if (Array.isArray(scenes[at])) {
      scenes[at] = { alt: scenes[at][0], items: scenes[at][1].map(i => items[i]) };
    }
    return scenes[at];
  };

  // the same of a panel of sums. What a learner compares with is how it was before he took hold of
  // the control that he moves
  const shown = {};
  const sceneOfSums = panel => {
    const now = JSON.stringify(panel.controls.map(name => state[name])), last = shown[panel.name];
    if (last?.now === now) return last.scene;
    const named = panel.sums.named.map(name => [name, options(name)[state[name]]]);
    const reading = adders[panel.name].read(Object.fromEntries(named));
    const differs = name => last.state[name] !== state[name];
    const moved = last && panel.controls.filter(differs).join();
    const before = moved === last?.moved ? last?.before : last?.reading;
    const scene = adders[panel.name].draw(reading, before);
    shown[panel.name] = { now, state, reading, moved, before, scene };
    return scene;
  };

  let drawn = [];
  function draw() {
    for (const [control, update] of inputs) {
      update(state[control.name], options(control.name), timers.playing === control.name);
      if (control.only) {
        const input = root.querySelector(`[data-control="${control.name}"] input`), [other, index] = control.only;
        input.disabled = state[other] !== index;
      }
    }
    const scenes = pictures.map(([panel, picture], i) => {
      const scene = panel.sums ? sceneOfSums(panel) : sceneOf(panel);
      if (scene !== drawn[i]) picture(scene);
      return scene;
    });
    const news = scenes.filter((scene, i) => scene !== drawn[i]).map(scene => scene.alt);
    const verdict = ladder ? ladder() : "";
    if (verdict) news.push(verdict);
    if (drawn.length && news.length) {
      clearTimeout(timers.say);
      const wait = timers.playing ? 3 * STEP_MS : QUIET_MS;
      timers.say = setTimeout(() => { said.textContent = news.join(" "); }, wait);
    }
    drawn = scenes;
    link?.write(state);
  }

  draw();
  host.replaceChildren(...host.querySelectorAll(":scope > style"), root);
}
