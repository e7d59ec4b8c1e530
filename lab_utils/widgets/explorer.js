// Draws an Explorer. The same file runs in a notebook (anywidget hands over the kernel's model) and in a page without
// kernel (the page hands over a model that only keeps values). All numbers and words come from Python.

const SVG = "http://www.w3.org/2000/svg";
const STEP_MS = 900;        // between two steps of a playing slider
const QUIET_MS = 600;       // a screen reader hears the result once the sliders have been still for so long

function make(tag, attributes, parent, namespace) {
  const node = namespace ? document.createElementNS(namespace, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name === "text" ? (node.textContent = value) : node.setAttribute(name, value);
  parent?.append(node);
  return node;
}

async function decompress(words) {
  const bytes = Uint8Array.from(atob(words), c => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
}

/** Puts one item on its SVG element. `before` is the item that the element shows now. */
function dress(node, item, before) {
  for (const name in before) if (!(name in item)) name === "fill" || name === "stroke" ? (node.style[name] = "") : node.removeAttribute(name);
  for (const [name, value] of Object.entries(item)) {
    if (before?.[name] === value || name === "tag" || name === "key" || name === "text" || name === "title") continue;
    if (name === "fill" || name === "stroke") node.style[name] = value === "none" ? value : `var(--${value})`;
    else node.setAttribute(name, value);
  }
  if (item.text !== before?.text || item.title !== before?.title) {
    node.textContent = item.text ?? "";
    if (item.title) make("title", { text: item.title }, node, SVG);
  }
}

/** One panel: an SVG whose elements are kept by key from scene to scene, and a caption that says the result. */
function makePicture({ width, height }, figure) {
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" }, figure, SVG);
  const caption = make("figcaption", { "aria-hidden": "true" }, figure);
  const shown = new Map();          // key → { node, item }
  return scene => {
    const keys = new Set(scene.items.map(item => item.key));
    for (const [key, { node }] of shown) if (!keys.has(key)) { node.remove(); shown.delete(key); }
    let next = svg.firstChild;
    for (const item of scene.items) {
      let kept = shown.get(item.key);
      if (kept && kept.item.tag !== item.tag) { if (next === kept.node) next = next.nextSibling; kept.node.remove(); kept = undefined; }
      if (!kept) shown.set(item.key, kept = { node: make(item.tag, {}, null, SVG), item: undefined });
      if (kept.item !== item) dress(kept.node, item, kept.item);
      kept.item = item;
      // later items are painted over earlier ones; an element that is already in place must not be touched: it may be moving
      if (kept.node === next) next = next.nextSibling; else svg.insertBefore(kept.node, next);
    }
    svg.setAttribute("aria-label", scene.alt);
    caption.textContent = scene.alt;
  };
}

/** One control: native input, label, the chosen option in words. Returns what brings it up to date. */
function makeControl(control, words, parent, choose, togglePlay) {
  // random, because each widget of a notebook runs this file anew and could not count the others
  const id = `explorer-${Math.random().toString(36).slice(2)}`, box = make("div", { class: control.play ? "control play" : "control" }, parent);
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
  const button = control.play && make("button", { type: "button", text: words.play }, box);
  button && button.addEventListener("click", () => togglePlay(control));
  const value = make("span", { class: "value", "aria-hidden": "true" }, box);
  return (index, options, playing) => {
    input.max = options.length - 1;
    input.value = index;
    input.setAttribute("aria-valuetext", options[index]);
    value.textContent = options[index];
    const label = playing ? words.pause : words.play;
    if (button && button.textContent !== label) button.textContent = label;
  };
}

export async function render({ model, el }) {
  const spec = model.get("spec"), table = await decompress(model.get("table"));
  const controls = new Map(spec.controls.map(control => [control.name, control]));
  const root = make("section", { class: "explorer", lang: spec.lang, "aria-label": spec.title }, el);
  root.addEventListener("keydown", event => event.stopPropagation());      // or the notebook takes the arrow keys
  make(spec.heading ?? "h3", { class: "title", text: spec.title }, root);
  const timers = {};

  const state = () => model.get("state");
  const options = name => { const { words, by } = controls.get(name); return words[by ? state()[by] : 0]; };
  const position = names => names.reduce((at, name) => at * controls.get(name).size + state()[name], 0);

  const put = next => {
    model.set("state", next);       // which draws, here and in every other view of the same tool
    model.save_changes();
  };
  const choose = (name, index) => {
    const next = { ...state(), [name]: index };
    for (const { name: other, by, words } of spec.controls) if (by === name) next[other] = Math.min(next[other], words[index].length - 1);
    put(next);
  };

  const stop = () => { clearInterval(timers.play); timers.playing = undefined; };
  const togglePlay = control => {
    const was = timers.playing;
    stop();
    if (was !== control.name) {
      const isLast = () => state()[control.name] >= options(control.name).length - 1;
      timers.playing = control.name;
      timers.play = setInterval(() => { choose(control.name, state()[control.name] + 1); if (isLast()) { stop(); draw(); } }, STEP_MS);
      if (isLast()) choose(control.name, 0);
    }
    draw();
  };

  // each control stands above the first panel that it changes
  const inputs = [], placed = new Set(), adders = {};
  const pictures = spec.panels.map(panel => {
    const figure = make("figure", {}, root), presets = spec.presets.filter(preset => preset.panel === panel.name);
    if (presets.length) {
      const buttons = make("div", { class: "presets", role: "group", "aria-label": spec.words.presets }, figure);
      make("span", { text: spec.words.presets, "aria-hidden": "true" }, buttons);
      for (const { label, state: chosen } of presets)
        make("button", { type: "button", text: label }, buttons).addEventListener("click", () => { stop(); put({ ...state(), ...chosen }); });
    }
    const bar = make("div", { class: "controls" }, figure);
    if (panel.sums) adders[panel.name] = makeSums(panel, table[panel.name], position);
    for (const control of spec.controls) {
      if (placed.has(control.name) || !panel.controls.includes(control.name)) continue;
      placed.add(control.name);
      inputs.push([control, makeControl(control, spec.words, bar, (name, index) => { stop(); choose(name, index); }, togglePlay)]);
    }
    return [panel, makePicture(panel, figure)];
  });
  const challenge = spec.challenge && make("p", { class: "challenge" }, root);
  if (challenge) make("strong", { text: spec.words.challenge }, challenge), challenge.append(`${spec.challenge.task} `), make("b", {}, challenge);
  const said = make("p", { class: "said", role: "status" }, root);

  // the scene that the state asks for; undefined while the kernel still draws it
  const asked = new Set();
  const sceneOf = panel => {
    const { items, scenes } = table[panel.name] ??= { items: [], scenes: [] }, at = position(panel.controls);
    if (Array.isArray(scenes[at])) scenes[at] = { alt: scenes[at][0], items: scenes[at][1].map(i => items[i]) };
    if (!scenes[at] && !asked.has(`${panel.name} ${at}`)) {
      asked.add(`${panel.name} ${at}`);
      model.send({ panel: panel.name, at, state: state() });
    }
    return scenes[at];
  };

  // the same of a panel of sums. What a learner compares with is how it was before he took hold of the control that he moves
  const shown = {};
  const sceneOfSums = panel => {
    const now = JSON.stringify(panel.controls.map(name => state()[name])), last = shown[panel.name];
    if (last?.now === now) return last.scene;
    const named = Object.fromEntries(panel.sums.named.map(name => [name, options(name)[state()[name]]]));
    const reading = adders[panel.name].read(named), moved = last && panel.controls.filter(name => last.state[name] !== state()[name]).join();
    const before = moved === last?.moved ? last?.before : last?.reading;
    shown[panel.name] = { now, state: state(), reading, moved, before, scene: adders[panel.name].draw(reading, before) };
    return shown[panel.name].scene;
  };
  const isSolved = panel => panel.sums ? adders[panel.name].met(shown[panel.name].reading) : table[panel.name].solved[position(panel.controls)];

  let drawn = [];
  function draw() {
    for (const [control, update] of inputs) update(state()[control.name], options(control.name), timers.playing === control.name);
    const scenes = pictures.map(([panel, picture], i) => {
      const scene = (panel.sums ? sceneOfSums(panel) : sceneOf(panel)) ?? drawn[i] ?? { items: [], alt: spec.words.waiting };
      if (scene !== drawn[i]) picture(scene);
      return scene;
    });
    const changed = scenes.filter((scene, i) => scene !== drawn[i]).map(scene => scene.alt);
    if (challenge) {
      const panel = spec.panels.find(({ name }) => name === spec.challenge.panel), solved = isSolved(panel);
      challenge.lastChild.textContent = solved ? spec.words.solved : spec.words.open;
      if (solved && !challenge.classList.contains("solved")) changed.push(`${spec.words.challenge} ${spec.words.solved}`);
      challenge.classList.toggle("solved", solved);
    }
    if (drawn.length && changed.length) {
      clearTimeout(timers.say);
      timers.say = setTimeout(() => { said.textContent = changed.join(" "); }, timers.playing ? 3 * STEP_MS : QUIET_MS);
    }
    drawn = scenes;
  }

  const receive = answer => { if (answer.scene) { table[answer.panel].scenes[answer.at] = answer.scene; draw(); } };
  model.on("change:state", draw);
  model.on("msg:custom", receive);
  draw();
  return () => { stop(); clearTimeout(timers.say); model.off("change:state", draw); model.off("msg:custom", receive); };
}

export default { render };
