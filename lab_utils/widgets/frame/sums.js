// Draws a panel of sums: looks its amounts up, adds them, and builds the scene that sums_scene.py builds in Python, item for
// item. Numbers are written as units.py writes them.

/** x with so many decimals; as in Python, what lies exactly between two goes to the even digit. */
function fixed(x, decimals) {
  const words = x.toFixed(decimals), digit = +words.at(-1);
  const isTie = /^50*$/.test(x.toFixed(decimals + 50).slice(-50));
  return isTie && digit % 2 ? words.slice(0, -1) + (digit - 1) : words;
}

const NO_BREAK = "\u00a0";
const UNITS = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];

function digits(value) {
  const exponent = +value.toExponential(2).split("e")[1];
  return value === 0 ? "0" : fixed(value, Math.max(0, 2 - exponent)).replace(/^\d+/, whole => whole.replace(/\B(?=(\d{3})+$)/g, ","));
}

function nbytes(value) {
  const [scale, unit] = UNITS.find(([scale]) => +value.toExponential(2) >= scale) ?? UNITS.at(-1);
  return `${value ? digits(value / scale) : 0}${NO_BREAK}${unit}`;
}

const sum = numbers => numbers.reduce((a, b) => a + b, 0);
const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => values[name]);

/** Scene items as scene.py makes them: one decimal, nothing that is undefined. */
function item(tag, key, attributes) {
  const made = { tag, key };
  for (const [name, value] of Object.entries(attributes)) if (value !== undefined) made[name] = typeof value === "number" ? +fixed(value, 1) : value;
  return made;
}
const rectItem = (key, x, y, width, height, fill, more) => item("rect", key, { x, y, width, height, fill, ...more });
const lineItem = (key, x1, y1, x2, y2, stroke, width, more) => item("line", key, { x1, y1, x2, y2, stroke, "stroke-width": width, ...more });
const pathItem = (key, d, stroke, fill, width) => item("path", key, { d, fill, stroke, "stroke-width": width });
const textItem = (key, x, y, text, { fill = "ink", size = 13, anchor, bold, ...more } = {}) =>
  item("text", key, { x, y, text, fill, "font-size": size, "text-anchor": anchor, "font-weight": bold ? 600 : undefined, ...more });

const WIDTH = 760, HEIGHT = 392, LEFT = 118, LENGTH = 500, TOTAL = 628, TOP = 112, ROW = 40, BAR = 26, AXIS = TOP + 3 * ROW + 2;
const KEY = AXIS + 46, KEY_ROW = 20, KEY_COLUMN = 380, ZOOM = 8, FAR_LESS = 1000;

/** Reads and draws one panel. `position(controls)` says where the state of these controls stands in a table. */
function makeSums({ sums: spec }, table, position) {
  const { phrases, terms, bars: barNames, moments } = spec.words;
  const say = (phrase, values = {}) => fill(phrases[phrase], values);
  const look = ({ controls, at, values }) => values[at[position(controls)]];
  const row = i => look(table.amounts[i]);
  const added = (products, bars) => {
    const total = Array(bars).fill(0);
    for (const product of products) {
      const rows = product.map(row);
      for (let bar = 0; bar < bars; bar++) total[bar] += rows.reduce((all, row) => all * row[row.length > 1 ? bar : 0], 1);
    }
    return total;
  };

  const longest = held => {
    const each = moments.map((_, moment) => held.map((bytes, i) => [null, moment].includes(spec.terms[i].moment) ? bytes : 0));
    const totals = each.map(sum), moment = totals.indexOf(Math.max(...totals));
    return [moment, each[moment]];
  };

  const read = named => {
    const refused = table.refusals.map(look).find(lines => lines), names = row(spec.bars);
    const filled = spec.fill ? position([spec.fill]) + 1 : spec.terms.length;
    const held = spec.terms.map((term, i) => i < filled ? added(term.bytes, names.length) : Array(names.length).fill(0));
    const bars = names.map((name, bar) => [name, ...longest(held.map(bytes => bytes[bar]))]).filter(([name]) => name >= 0);
    const totals = bars.map(([, , bytes]) => sum(bytes));
    const numbers = Object.fromEntries(Object.entries(spec.numbers).map(([name, products]) => [name, added(products, 1)[0].toLocaleString("en-US")]));
    let subject = say("subject", { ...named, ...numbers });
    if (filled < terms.length) subject = say("so_far", { subject, filled, all: terms.length });
    return { refused, bars, limit: row(spec.limit)[0], fullest: totals.indexOf(Math.max(...totals)), subject, filled,
             measured: spec.recordControls.length ? table.records[position(spec.recordControls)] : undefined };
  };

  // by how much the fullest bar is too long, or why the state cannot be; null where it fits
  const shortfall = ({ refused, bars, fullest, limit }) => {
    if (refused) return refused.join(phrases.join);
    const held = bars[fullest][2], total = sum(held), most = held.indexOf(Math.max(...held));
    if (total <= limit) return null;
    return say("far", { total: nbytes(total), limit: round(limit, limit),
                        excess: nbytes(total - limit), term: terms[most][0][0],
                        amount: nbytes(held[most]) });
  };

  const draw = (reading, before) => {
    const { refused, bars, limit, fullest, measured, subject, filled } = reading;
    if (refused) {
      return { items: [textItem("impossible", 0, 30, say("impossible"), { fill: "fire", size: 22, bold: true }),
                       ...refused.map((line, i) => textItem(`why${i}`, 0, 66 + 22 * i, line, { size: 14 }))],
               alt: say("alt_impossible", { subject, why: refused.join(phrases.join) }) };
    }
    const held = bars[fullest][2], total = sum(held), past = before && !before.refused ? before.bars[before.fullest][2] : undefined;
    const end = axisEnd(total, limit), x = amount => LEFT + amount / end * LENGTH;
    const apart = past ? held.map((bytes, i) => Math.abs(bytes - past[i])) : [0], most = apart.indexOf(Math.max(...apart));
    const changed = past && nbytes(held[most]) !== nbytes(past[most]) ? most : -1;
    const times = (a, b) => {
      if (!a) return `+${NO_BREAK}${nbytes(b)}`;
      return b * FAR_LESS < a ? `−${NO_BREAK}${nbytes(a - b)}` : `${digits(b / a)}${NO_BREAK}×`;
    };
    const change = changed < 0 ? {} : { term: terms[changed][0][0], before: nbytes(past[changed]), after: nbytes(held[changed]),
                                        times: times(past[changed], held[changed]) };
    const values = { limit: round(limit, limit), room: nbytes(Math.abs(limit - total)), times: times(limit, total) }, fits = total <= limit;
    const figures = [
      [say("total"), nbytes(total), barNames[bars[fullest][0]] + moments[bars[fullest][1]]],
      [say("verdict"), say(fits ? "fits" : "over", values), say(fits ? "spare" : "excess", values)],
      [say("changed"), changed < 0 ? "–" : change.times, changed < 0 ? say(past ? "same" : "unmoved") : say("change", change)],
    ];
    const items = [];

    figures.forEach(([name, value, detail], i) => {
      const at = [0, 232, 490][i];
      items.push(textItem(`figure-name${i}`, at, 18, name, { fill: "soft" }),
                 textItem(`figure${i}`, at, 46, value, { fill: i === 1 && !fits ? "fire" : "ink", size: i === 1 ? 22 : 26, bold: true }),
                 textItem(`figure-detail${i}`, at, 66, detail, { fill: "soft", size: 12 }));
    });

    if (bars.length > 1) items.push(rectItem("chosen", 0, TOP + fullest * ROW - 5, WIDTH, ROW - 4, "void", { rx: 4, stroke: "soft" }));
    bars.forEach(([name, , bytes], bar) => {
      const y = TOP + bar * ROW, edge = x(limit);
      items.push(textItem(`bar${bar}`, 8, y + 18, barNames[name], { bold: bar === fullest }),
                 textItem(`total${bar}`, TOTAL, y + 18, nbytes(sum(bytes)), { bold: bar === fullest }));
      let sofar = 0;
      spec.terms.forEach((term, i) => {
        const start = x(sofar), stop = x(sofar += bytes[i]);
        if (stop - start < 0.05) return;
        const gap = stop - start > 3 ? 1 : 0, grew = i === changed && bar === fullest ? { stroke: "fire", "stroke-width": 2 } : {};
        const tip = say("key", { term: terms[i][0][0], amount: nbytes(bytes[i]) });
        items.push(rectItem(`${bar}-${term.name}`, start, y, stop - start - gap, BAR, term.fill, { title: tip, ...grew }));
        const crossed = start < edge && edge < stop;
        const [low, high] = crossed && stop - edge > edge - start ? [edge, stop] : [start, crossed ? edge : stop];
        const label = terms[i].find(([, width]) => high - low > 7.3 * width + 5);
        if (label) items.push(textItem(`${bar}-${term.name}-name`, (low + high - gap) / 2, y + 17.5, label[0],
                                       { fill: `on-${term.fill}`, size: 12, anchor: "middle", "pointer-events": "none" }));
      });
      sofar = 0;
      if (measured) spec.terms.forEach((term, i) => {
        sofar += measured[bar][i] ?? 0;
        if (measured[bar][i]) items.push(pathItem(`${bar}-tick-${term.name}`, `M${fixed(x(sofar) - 4, 1)} ${y + BAR + 6}h8l-4 -6z`, undefined, "ink", 1));
      });
    });

    items.push(lineItem("bytes-line", LEFT, AXIS, LEFT + LENGTH, AXIS, "rule", 1));
    roundTicks(end).forEach(([amount, words], i) => {
      const at = LEFT + amount / end * LENGTH;
      items.push(lineItem(`bytes-tick${i}`, at, AXIS, at, AXIS + 4, "rule", 1),
                 textItem(`bytes-number${i}`, at, AXIS + 17, words, { fill: "soft", size: 12, anchor: "middle" }));
    });
    if (limit <= end) {
      items.push(lineItem("limit", x(limit), TOP - 12, x(limit), AXIS, "fire", 2, { "stroke-dasharray": "5 3" }),
                 textItem("limit-name", x(limit), TOP - 16, round(limit, limit), { fill: "fire", size: 12, anchor: "middle", bold: true }));
    } else {
      items.push(textItem("limit-name", LEFT + LENGTH, TOP - 16, say("beyond", values), { fill: "fire", size: 12, anchor: "end", bold: true }));
    }

    const rows = Math.floor((spec.terms.length + 1) / 2);
    spec.terms.forEach((term, i) => {
      const at = KEY_COLUMN * Math.floor(i / rows), y = KEY + KEY_ROW * (i % rows);
      const words = i === changed ? say("key_changed", change) : say("key", { term: terms[i][0][0], amount: i < filled ? nbytes(held[i]) : "…" });
      items.push(rectItem(`key-${term.name}`, at, y - 11, 13, 13, term.fill),
                 textItem(`key-name-${term.name}`, at + 20, y, words, { size: 12, bold: i === changed }));
    });
    const agrees = !!measured && measured.every((bytes, bar) => bytes.every((amount, i) => amount === null || amount === bars[bar][2][i]));
    items.push(textItem("note", 0, HEIGHT - 8, say(measured ? (agrees ? "agree" : "differ") : "note"), { fill: "soft", size: 12 }));

    const parts = held.map((amount, i) => amount && say("item", { term: terms[i][0][0], amount: nbytes(amount) })).filter(words => words);
    const alt = say("alt", { subject, bar: figures[0][2], total: figures[0][1], verdict: figures[1][1], detail: figures[1][2],
                             terms: parts.join(phrases.and), change: changed < 0 ? "" : say("alt_change", change),
                             measured: agrees ? phrases.alt_measured : "" });
    return { items, alt };
  };
  return { read, shortfall, draw };
}

function axisEnd(total, limit) {
  const most = Math.max(total, 1), whole = Math.floor(most * 21 / 20) + 1;
  if (most * ZOOM < limit) return whole;
  return [Math.floor(limit * 5 / 4), Math.floor(limit * 5 / 2), limit * 5].find(end => end >= most) ?? whole;
}

/** A round amount, in the unit that fits `like`. */
function round(amount, like) {
  const [unit, name] = UNITS.find(([unit]) => like >= unit);
  return `${amount / unit}${NO_BREAK}${name}`;
}

function roundTicks(end) {
  let step;
  for (let power = 1; !step; power *= 10) step = [1, 2, 5].map(m => m * power).find(step => end < 6 * step);
  const ticks = [];
  for (let at = 0; at <= end; at += step) ticks.push([at, round(at, end)]);
  return ticks;
}
