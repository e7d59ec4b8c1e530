// What a question, a covered result or the course's map does in a page. Python writes the words and the data
// (base64, so that an answer is not read by accident); the learner's choices are kept here, by the question's id.
(script => {
  const root = script.parentNode;
  const fresh = node => node.matches?.(".lab-card:not([data-live])") && node;
  const card = fresh(root) || root.querySelector(".lab-card:not([data-live])");
  if (!card) return;
  card.dataset.live = "";
  const decode = text => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(text), c => c.charCodeAt(0))));
  const data = decode(card.dataset.lab), words = data.words;

  const make = (tag, attributes, parent) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "html") node.innerHTML = value;
      else if (name === "text") node.textContent = value;
      else node.setAttribute(name, value);
    }
    parent?.append(node);
    return node;
  };
  if (!document.getElementById("lab-card-style")) make("style", { id: "lab-card-style", text: data.style }, document.head);

  // ---- what was chosen: in the browser, and in the learner's folder where a Jupyter server serves the course ----
  const store = window.labProgress ??= (() => {
    const KEY = "lab-progress", page = document.getElementById("jupyter-config-data");
    const server = page && JSON.parse(page.textContent);
    let entries = {}, queue = Promise.resolve();
    try { entries = JSON.parse(localStorage.getItem(KEY)) ?? {}; } catch { /* no storage, or not ours */ }
    const keep = () => { try { localStorage.setItem(KEY, JSON.stringify(entries)); } catch { /* only for now, then */ } };
    const tell = id => window.dispatchEvent(new CustomEvent("lab-progress", { detail: id }));
    const ask = async (path, body) => {
      const headers = { "Content-Type": "application/json" };
      const cookie = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/);
      if (server.token) headers.Authorization = `token ${server.token}`;
      if (cookie) headers["X-XSRFToken"] = cookie[1];
      const url = `${server.baseUrl}api/contents/${path}`, method = body ? "PUT" : "GET";
      const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
      if (!answer.ok) throw new Error(answer.statusText);
      return answer.json();
    };
    const names = async path => (await ask(path)).content.map(({ name }) => name);
    const newer = (a, b) => (a?.at ?? 0) >= (b?.at ?? 0) ? a : b;
    // the folder's answers and ours, the newer of each; asked in an order in which nothing is missing, so no error is logged
    const merge = async write => {
      const top = await names("");
      if (!top.includes("lessons")) return;
      const there = top.includes("progress") ? await names("progress") : [];
      let kept = {};
      if (there.includes("answers.json")) {
        try { kept = JSON.parse((await ask("progress/answers.json?type=file&format=text")).content); } catch { /* damaged: written anew */ }
      }
      store.files = there;
      const before = JSON.stringify(entries), onDisk = JSON.stringify(kept);
      for (const id of new Set([...Object.keys(kept), ...Object.keys(entries)])) entries[id] = newer(entries[id], kept[id]);
      if (JSON.stringify(entries) !== before) keep();
      tell();
      if (!write || JSON.stringify(entries) === onDisk) return;
      if (!top.includes("progress")) await ask("progress", { type: "directory" });
      await ask("progress/answers.json", { type: "file", format: "text", content: JSON.stringify(entries, null, 1) + "\n" });
    };
    const sync = write => { if (server) queue = queue.then(() => merge(write)).catch(() => {}); };
    addEventListener("storage", event => { if (event.key === KEY && event.newValue) { entries = JSON.parse(event.newValue); tell(); } });
    setTimeout(() => sync(false));
    const store = {
      files: [],
      // which of these exercises have passed, as the folder says
      passed: async ids => {
        await queue;
        const found = [];
        for (const id of ids.filter(id => store.files.includes(`${id}.json`))) {
          try { if (JSON.parse((await ask(`progress/${id}.json?type=file&format=text`)).content).passed) found.push(id); } catch { /* damaged */ }
        }
        return found;
      },
      get: id => entries[id],
      set: (id, value) => { entries[id] = { value, at: Date.now() }; keep(); tell(id); sync(true); },
    };
    return store;
  })();
  const onChange = react => {
    const listen = () => card.isConnected || !card.dataset.shown ? react() : window.removeEventListener("lab-progress", listen);
    window.addEventListener("lab-progress", listen);
    react();
    setTimeout(() => { card.dataset.shown = "1"; });
  };

  const number = value => Math.abs(value) >= 1000 || Number.isInteger(value) ? value.toLocaleString("en-US", { maximumFractionDigits: 0 }) : `${+value.toPrecision(4)}`;
  const named = value => data.options ? (data.options.find(([key]) => key === value)?.[1] ?? value) : `${number(value)}${data.unit ? " " + data.unit : ""}`;

  /** The choices of a question; calls `chosen` with a key or a number. */
  const choices = (parent, chosen) => {
    const name = `lab-${Math.random().toString(36).slice(2)}`, box = make("fieldset", {}, parent);
    make("legend", { html: `<b>${words.label}</b> · ${data.text}` }, box);
    if (!data.options) {
      const row = make("label", { class: "lab-number", text: `${words.number} ` }, box);
      const input = make("input", { type: "number", step: "any" }, row), button = make("button", { type: "button", text: words.commit });
      row.after(button);
      const commit = () => { if (input.value !== "") chosen(+input.value); };
      button.addEventListener("click", commit);
      input.addEventListener("keydown", event => { if (event.key === "Enter") commit(); });
      return value => { if (value !== undefined && document.activeElement !== input) input.value = value; };
    }
    const inputs = data.options.map(([key, text]) => {
      const label = make("label", {}, box), input = make("input", { type: "radio", name, value: key }, label);
      make("span", { html: text }, label);
      input.addEventListener("change", () => chosen(key));
      return input;
    });
    return value => inputs.forEach(input => { input.checked = input.value === value; });
  };
  card.addEventListener("keydown", event => event.stopPropagation());      // or the notebook takes the keys

  const question = () => {
    card.replaceChildren();
    const update = choices(card, value => store.set(data.id, value)), reply = make("p", { role: "status" }, card);
    onChange(() => {
      const value = store.get(data.id)?.value;
      update(value);
      if (value === undefined || value === null) { reply.textContent = ""; return; }
      const why = data.options?.find(([key]) => key === value)?.[2];
      const right = value === data.answer;
      reply.innerHTML = why === undefined ? words.noted : `<b role="img" aria-label="${right ? words.right : words.wrong}">${right ? "✓" : "✗"}</b> ${why}`;
      card.dataset.verdict = why === undefined ? "" : right ? "right" : "wrong";
    });
  };

  const verdict = guess => {
    if (data.options) return guess === data.measured ? words.same : words.other;
    if (guess === data.measured) return words.exact;
    if (data.measured === 0) return words.none;
    const ratio = guess / data.measured, off = 100 * Math.abs(ratio - 1);
    if (off < 20) return words[ratio > 1 ? "high" : "low"].replace("%", `${off < 1 ? off.toPrecision(1) : Math.round(off)} %`);
    return words.times.replace("%", ratio.toPrecision(3));
  };

  // Everything that the cell printed stays covered until there is a guess, or the learner asks to be shown
  const area = card.closest(".jp-OutputArea, .cell_output");      // of a notebook, of the site
  const cover = () => {
    const isLast = card.dataset.kind === "reveal";
    card.replaceChildren();
    const prompt = make("div", {}, card), result = make("div", { role: "status" }, card);
    make("p", { text: data.above ? words.above : words.covered }, prompt);
    let update = () => {};
    if (!data.above) {
      update = choices(prompt, value => store.set(data.id, value));
      make("button", { type: "button", text: words.show }, prompt).addEventListener("click", () => store.set(data.id, null));
    }
    onChange(() => {
      const entry = store.get(data.id), first = area?.querySelector(".lab-card[data-kind=cover]");
      const wasCovered = area?.classList.contains("lab-covered");
      area?.classList.toggle("lab-covered", !entry);
      // a picture drawn while it was hidden has its library's own width; it fits itself when the window changes
      if (wasCovered && entry) requestAnimationFrame(() => window.dispatchEvent(new Event("resize")));
      update(entry?.value);
      prompt.hidden = !!entry || (isLast ? first && first !== card : !area);
      if (!isLast || !entry) { result.replaceChildren(); card.hidden = prompt.hidden; return; }
      card.hidden = false;
      const guess = entry.value, rows = guess === null ? [[words.guess, words.unguessed]] : [[words.guess, named(guess)]];
      rows.push([words.measured, named(data.measured)]);
      result.innerHTML = "";
      const table = make("table", {}, result);
      for (const [head, text] of rows) { const row = make("tr", {}, table); make("th", { scope: "row", text: head }, row); make("td", { html: text }, row); }
      if (guess !== null) make("p", { html: `<b>${verdict(guess)}</b>` }, result);
      if (data.why) make("p", { html: data.why }, result);
      card.dataset.verdict = guess !== null && guess === data.measured ? "right" : "";
    });
  };

  /** One recommendation from the placement questions: the first lesson whose question was not answered rightly. */
  const placement = () => {
    const said = card.querySelector("[role=status]") ?? make("p", { role: "status" }, card);
    onChange(() => {
      const given = data.questions.map(({ id }) => store.get(id)?.value), open = given.filter(value => value === undefined).length;
      if (open) { said.innerHTML = words.open.replace("%", open); return; }
      const missed = data.questions.find(({ answer }, i) => given[i] !== answer);
      said.innerHTML = missed ? missed.go : words.all;
    });
  };

  /** The map: how many questions of each lesson are answered, and which exercises of its lab have passed. */
  const map = () => {
    const boxes = Object.fromEntries([...card.querySelectorAll("[data-lesson]")].map(box => [box.dataset.lesson, box]));
    const passed = new Set(data.passed);
    const draw = () => Object.entries(data.lessons).forEach(([name, { questions, exercises }]) => {
      const box = boxes[name], asked = questions.filter(id => store.get(id) !== undefined).length, done = exercises.filter(id => passed.has(id)).length;
      const parts = [[asked, questions.length, words.questions], [done, exercises.length, words.exercises]].filter(([, of]) => of);
      const all = parts.every(([n, of]) => n === of);
      box.querySelector(".lab-done").textContent = (all ? "✓ " : "") + parts.map(([n, of, what]) => what.replace("%", `${n}/${of}`)).join(words.and);
      box.querySelector(".lab-bar > span").style.width = `${100 * (asked + done) / parts.reduce((sum, [, of]) => sum + of, 0)}%`;
      box.classList.toggle("lab-all", all);
    });
    const field = card.querySelector(".lab-map"), svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("aria-hidden", "true");
    field.prepend(svg);
    const arrows = () => {
      const at = field.getBoundingClientRect();
      svg.replaceChildren();
      for (const [name, { needs }] of Object.entries(data.lessons)) for (const need of needs) {
        const from = boxes[need].getBoundingClientRect(), to = boxes[name].getBoundingClientRect(), path = document.createElementNS(svg.namespaceURI, "path");
        const x = from.right - at.left, y = (from.top + from.bottom) / 2 - at.top, end = to.left - at.left - 5, down = (to.top + to.bottom) / 2 - at.top;
        path.setAttribute("d", `M${x} ${y}C${(x + end) / 2} ${y} ${(x + end) / 2} ${down} ${end} ${down}l-6 -4m6 4l-6 4`);
        svg.append(path);
      }
    };
    new ResizeObserver(arrows).observe(field);
    onChange(draw);
    if (store.passed) store.passed(Object.values(data.lessons).flatMap(({ exercises }) => exercises)).then(ids => { ids.forEach(id => passed.add(id)); draw(); });
  };

  ({ question, cover, reveal: cover, placement, map })[card.dataset.kind]();
})(document.currentScript);
