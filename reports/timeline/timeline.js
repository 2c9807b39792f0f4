// Draws the visible part of the timeline as SVG. All instants and rows come from the page's data.
// This script converts them to pixels and handles the wheel, pointer and keys. Text from the data is
// always inserted as text, never as markup.
(async () => {
  'use strict';
  const root = document.getElementById('tl');
  if (!root) return;
  const section = root.closest('section') || root;
  const started = performance.now();
  const $ = (selector) => root.querySelector(selector);
  let data = JSON.parse($('.tl-data').textContent);
  if (typeof data === 'string') { // long runs are compressed
    const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
    data = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).json();
  }
  const { kinds, rows, lanes, texts, views } = data;
  const [ROW, KIND, FROM, LONG, LABEL, DETAIL, SESSION, EVENTS] = [0, 1, 2, 3, 4, 5, 6, 7];
  const svg = $('.tl-svg'), box = $('.tl-view'), map = $('.tl-map'), tip = $('.tl-tip'), chosen = $('.tl-chosen');
  const TOP = 20, END = Math.max(data.end, 1), LEAST = 20; // LEAST: microseconds at the closest zoom
  const still = matchMedia('(prefers-reduced-motion: reduce)');
  const alarming = new Set(['overlap', 'damage', 'refused']);
  const marks = new Set(['accepted', 'refused', 'damage', 'fault-at', 'lost', 'death']);

  const byRow = rows.map(() => []);
  for (const item of data.items) byRow[item[ROW]].push(item);
  const longest = byRow.map((items) => items.reduce((most, i) => Math.max(most, i[LONG]), 0));

  let from = data.open[0], to = data.open[1]; // the visible span
  let width = 0, gutter = 0;
  let session = 0, lit = new Set(); // the selection: the index of a session's text, and its events
  let focused = null, printing = false, frame = 0;
  let view = -1, urlIncident = 0; // the selected incident, and its number if the URL contains one

  const x = (t) => gutter + (t - from) / (to - from) * (width - gutter - 6);
  const time = (px) => from + (px - gutter) / (width - gutter - 6) * (to - from);
  const eventsOf = (item) => item.slice(EVENTS);
  const clamp = (v, low, high) => Math.min(Math.max(v, low), high);
  function add(parent, name, attributes, text) {
    const node = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    parent.appendChild(node);
    return node;
  }
  function seconds(t, digits = 3) { return (t / 1e6).toFixed(digits) + ' s'; }
  function length(t) { return t >= 1e6 ? seconds(t) : t >= 1000 ? +(t / 1000).toPrecision(3) + ' ms' : t + ' µs'; }

  // Hatches repeat the meaning of the colors.
  function patterns() {
    const defs = add(svg, 'defs', {});
    for (const [name, size, turn] of [['stall', 7, 45], ['alarm', 5, 135], ['down', 4, 45], ['faint', 4, 90]]) {
      const p = add(defs, 'pattern', { id: 'tl-hatch-' + name, width: size, height: size, patternUnits: 'userSpaceOnUse', patternTransform: `rotate(${turn})` });
      add(p, 'rect', { width: size, height: size, class: 'tl-ground-' + name });
      add(p, 'rect', { width: size / 2.6, height: size, class: 'tl-hatch-' + name });
    }
  }

  // first finds the first item of a row that may end after t.
  function first(row, t) {
    const items = byRow[row];
    let low = 0, high = items.length;
    while (low < high) {
      const mid = (low + high) >> 1;
      if (items[mid][FROM] < t - longest[row]) low = mid + 1; else high = mid;
    }
    return low;
  }

  function draw() {
    frame = 0;
    width = printing ? 1000 : Math.max(box.clientWidth, 280);
    gutter = width < 600 ? 56 : 92;
    const height = TOP + data.height + 8;
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    svg.setAttribute('width', printing ? '100%' : width);
    if (printing) svg.removeAttribute('height'); else svg.setAttribute('height', height);
    patterns();
    add(add(svg.firstChild, 'clipPath', { id: 'tl-clip' }), 'rect', { x: gutter - 1, y: 0, width: width - gutter - 4, height });
    const ground = add(svg, 'g', {}), body = add(svg, 'g', { 'clip-path': 'url(#tl-clip)' });
    drawGround(ground, body, height);
    rows.forEach((r, n) => { if (r.cover) drawRow(body, n); });
    for (const line of data.lines) drawLine(body, line);
    rows.forEach((r, n) => { if (!r.cover) drawRow(body, n); });
    drawMap();
    const digits = to - from < 2e4 ? 4 : 3;
    $('.tl-range').textContent = `${seconds(from, digits)} – ${seconds(to, digits)}, of ${seconds(END)}`;
    if (!root.dataset.drawn) root.dataset.drawn = Math.ceil(performance.now() - started);
  }

  // drawGround draws the background: lanes with their names, the time axis, and the incidents.
  function drawGround(g, body, height) {
    for (const lane of lanes) {
      add(g, 'rect', { x: gutter, y: TOP + lane.y, width: width - gutter - 6, height: lane.h, class: 'tl-lane' });
      const most = Math.floor((gutter - 6) / 6.6);
      const name = lane.name.length > most ? lane.name.slice(0, most - 1) + '…' : lane.name;
      const t = add(g, 'text', { x: gutter - 6, y: TOP + lane.y + Math.min(lane.h / 2 + 4, 16), class: 'tl-name tl-' + lane.role }, name);
      add(t, 'title', {}, lane.name);
    }
    const step = nice((to - from) / Math.max(2, (width - gutter) / 90));
    const digits = clamp(Math.ceil(6 - Math.log10(step)), 0, 6);
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      add(body, 'line', { x1: x(t), x2: x(t), y1: TOP - 4, y2: height, class: 'tl-tick' });
      if (x(t) < width - 24) add(g, 'text', { x: x(t), y: 11, class: 'tl-time' }, seconds(t, digits));
    }
    views.forEach((v, n) => {
      const left = clamp(x(v.from), -9, width), right = clamp(x(v.to), left + 1, width + 9), here = n === (view < 0 ? data.first : view);
      add(body, 'rect', { x: left, y: TOP - 4, width: right - left, height: here ? height : 3, class: here ? 'tl-band' : 'tl-map-alarm' });
    });
    for (const [a, b] of [[0, data.whole[0]], [data.whole[1], END]]) {
      if (b > a) add(body, 'rect', { x: clamp(x(a), -9, width + 9), y: TOP - 4, width: clamp(x(b), -9, width + 9) - clamp(x(a), -9, width + 9), height: 4, class: 'tl-folded' });
    }
  }
  function nice(least) {
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= least) || 1;
  }

  // drawLine draws the number of holders as a step line. It exceeds 1 only if the lock is broken.
  function drawLine(g, line) {
    const r = rows[line.row], base = TOP + r.y + r.h - 3, level = (r.h - 8) / 2;
    const y = (n) => base - Math.min(n, 2) * level;
    const points = line.points;
    let low = 0, high = points.length;
    while (low < high) { const mid = (low + high) >> 1; if (points[mid][0] <= from) low = mid + 1; else high = mid; }
    let i = Math.max(0, low - 1);
    let path = '', fill = '', n = 0, at = gutter, column = -1, most = 0;
    const go = (px, count) => {
      path += path ? `H${px.toFixed(1)}V${y(count)}` : `M${px.toFixed(1)} ${y(count)}`;
      if (n > 0) fill += `M${at.toFixed(1)} ${base}V${y(n)}H${px.toFixed(1)}V${base}Z`;
      n = count; at = px;
    };
    for (; i < points.length && points[i][0] <= to; i++) {
      const px = Math.max(gutter, x(points[i][0])), col = Math.floor(px * 2);
      most = col === column ? Math.max(most, points[i][1]) : points[i][1];
      const last = i + 1 >= points.length || Math.floor(Math.max(gutter, x(points[i + 1][0])) * 2) !== col;
      if (col !== column && most !== n || most > n || last) go(px, last ? points[i][1] : most);
      column = col;
    }
    go(Math.min(width - 6, x(END)), n);
    add(g, 'path', { d: fill, class: 'tl-held' });
    add(g, 'line', { x1: gutter, x2: width, y1: y(1) - 1, y2: y(1) - 1, class: 'tl-limit' });
    add(g, 'path', { d: path, class: 'tl-line' });
  }

  // drawRow draws the visible items of a row. If several similar items fall on the same pixel, it
  // draws the first; zooming in shows the others. The letters of items that are too close together
  // are drawn side by side after the last one.
  function drawRow(g, n) {
    const items = byRow[n], r = rows[n], taken = {};
    let carry = '';
    for (let i = first(n, from); i < items.length && items[i][FROM] <= to; i++) {
      const item = items[i];
      if (item[FROM] + item[LONG] < from) continue;
      const kind = kinds[item[KIND]], left = x(item[FROM]), right = x(item[FROM] + item[LONG]);
      const room = (i + 1 < items.length ? x(items[i + 1][FROM]) : width) - left, tiny = right - left < 9 && kind.glyph;
      const before = tiny ? carry : '', open = room >= 10 + before.length * 7;
      carry = tiny && !open && !marks.has(kind.class) ? (carry + kind.glyph).slice(-3) : '';
      if (right - left < 3 && left < taken[kind.class] && !(session && item[SESSION] === session)) continue;
      taken[kind.class] = Math.max(right, left + 3);
      shape(g, item, kind, left, right, TOP + r.y, r.h, room, r.cover, before);
    }
  }
  function shape(g, item, kind, left, right, y, h, room, cover, before) {
    const a = Math.max(left, gutter - 2), b = Math.min(right, width);
    const group = add(g, 'g', { class: 'tl-i tl-k-' + kind.class + (session ? item[SESSION] === session || eventsOf(item).some((e) => lit.has(e)) ? ' tl-lit' : ' tl-dim' : '') });
    if (item === focused) group.classList.add('tl-focus');
    group.setAttribute('data-e', eventsOf(item).join(' '));
    group.item = item;
    const label = texts[item[LABEL]] || '', fits = (text, space) => text.length * 6.1 + 6 <= space;
    if (marks.has(kind.class)) {
      add(group, 'rect', { x: left - 7, y, width: 14, height: h, class: 'tl-hit' });
      add(group, 'text', { x: kind.class === 'lost' ? left + 6 : left, y: y + h / 2 + 5, class: 'tl-glyph' }, kind.glyph);
      if (kind.class === 'damage') add(group, 'circle', { cx: left, cy: y + h / 2, r: 9, class: 'tl-ring' });
      if (label && fits(label, Math.min(room, width - left) - 12)) add(group, 'text', { x: left + 11, y: y + h / 2 + 4, class: 'tl-label' }, label);
      return;
    }
    const w = Math.max(b - a, 2);
    if (kind.class.startsWith('check')) { // a check takes no time
      add(group, 'rect', { x: left - 4, y, width: 8, height: h, class: 'tl-hit' });
      add(group, 'line', { x1: left, x2: left, y1: y, y2: y + h, class: 'tl-look' });
      if (room >= 10 + before.length * 7) add(group, 'text', { x: left + 3, y: y + h / 2 + 4, class: 'tl-label' }, !before && fits('check', room) ? 'check' : before + kind.glyph);
      return;
    }
    add(group, 'rect', { x: a, y: y + (cover ? 0 : 1), width: w, height: h - (cover ? 0 : 2), class: 'tl-bar-rect' });
    if (h < 10) return;
    const sign = { fail: ' ✗', info: ' ?' }[kind.class.split('-')[1]] || '';
    const words = label + (kind.class.startsWith('fault') ? '' : sign), outside = kind.class === 'fault' && room > w ? room : w;
    if (cover && fits(words, w)) add(group, 'text', { x: a + w / 2, y: y + 13, class: 'tl-label tl-middle' }, words);
    else if (words && !cover && fits(words, outside)) add(group, 'text', { x: a + 4, y: y + h / 2 + 4, class: 'tl-label' }, words);
    else if (label && kind.class === 'fault' && outside > 32) add(group, 'text', { x: a + 4, y: y + h / 2 + 4, class: 'tl-label' }, words.slice(0, (outside - 12) / 6.1) + '…');
    else if (kind.glyph && w >= 9) add(group, 'text', { x: a + w / 2, y: y + h / 2 + 4, class: 'tl-letter' }, kind.glyph);
    else if (kind.glyph && room >= 10 + before.length * 7 && w < 9) add(group, 'text', { x: a + w + 1, y: y + h / 2 + 4, class: 'tl-beside' }, before + kind.glyph);
  }

  // drawMap draws an overview of the whole run and marks the visible part.
  function drawMap() {
    const at = (t) => gutter + t / END * (width - gutter - 6);
    map.replaceChildren();
    for (const [name, value] of [['viewBox', `0 0 ${width} 24`], ['width', width], ['height', 24]]) map.setAttribute(name, value);
    add(map, 'rect', { x: gutter, y: 2, width: width - gutter - 6, height: 12, class: 'tl-lane' });
    let taken = {};
    for (const item of data.items) {
      const kind = kinds[item[KIND]].class, fault = kind.startsWith('fault');
      if (!fault && !alarming.has(kind)) continue;
      const left = at(item[FROM]), w = Math.max(1.5, at(item[FROM] + item[LONG]) - left);
      if (left + w <= taken[kind]) continue;
      taken[kind] = left + w;
      add(map, 'rect', { x: left, y: fault ? 9 : 3, width: w, height: 5, class: fault ? 'tl-map-fault' : 'tl-map-alarm' });
    }
    taken = -9;
    views.forEach((v, n) => {
      const left = at((v.from + v.to) / 2), here = n === view;
      if (left - taken < 3 && !here) return;
      taken = left;
      add(map, 'path', { d: `M${left} ${here ? 16 : 15}l-${here ? 5 : 3} ${here ? 8 : 6}h${here ? 10 : 6}z`, class: here ? 'tl-mark-here' : 'tl-mark' });
    });
    add(map, 'rect', { x: at(from), y: 1, width: Math.max(3, at(to) - at(from)), height: 14, class: 'tl-window' });
  }
  function redraw() { if (!frame) frame = requestAnimationFrame(draw); }

  // look moves to a span and writes it into the URL, so that it can be shared.
  function look(a, b, silent, incident = 0) {
    urlIncident = incident;
    const span = clamp(b - a, Math.min(LEAST, END), END);
    a = clamp(a + (b - a - span) / 2, 0, END - span);
    from = a; to = a + span;
    redraw();
    hide();
    if (!silent) remember();
  }
  let remembering = 0;
  function remember() { // browsers limit how often the URL may change
    clearTimeout(remembering);
    remembering = setTimeout(() => {
      const digits = clamp(Math.ceil(8 - Math.log10(to - from)), 1, 6);
      history.replaceState(null, '', `#t=${(from / 1e6).toFixed(digits)}-${(to / 1e6).toFixed(digits)}${urlIncident ? '&v=' + urlIncident : ''}`);
    }, 150);
  }
  let moving = 0;
  function glide(a, b, incident = 0) {
    cancelAnimationFrame(moving);
    if (still.matches) return look(a, b, false, incident);
    const f0 = from, t0 = to, begun = performance.now();
    const go = (now) => {
      const part = clamp((now - begun) / 180, 0, 1), ease = part * (2 - part);
      look(f0 + (a - f0) * ease, t0 + (b - t0) * ease, part < 1, incident);
      if (part < 1) moving = requestAnimationFrame(go);
    };
    moving = requestAnimationFrame(go);
  }
  const zoom = (factor, t = (from + to) / 2) => look(t - (t - from) * factor, t + (to - t) * factor);
  const pan = (part) => glide(from + (to - from) * part, to + (to - from) * part);
  // incident moves by a number of incidents. The first call selects the incident the page opens with.
  function incident(by) {
    if (!views.length) return;
    visit(view < 0 ? data.first : (view + by + views.length) % views.length);
    const v = views[view], margin = Math.max((v.to - v.from) / 2, 5000);
    glide(v.from - margin, v.to + margin, view + 1);
    const r = box.getBoundingClientRect();
    if (r.top < 0 || r.top > innerHeight / 2) section.scrollIntoView();
  }
  function visit(n) {
    view = n;
    const v = views[n];
    say(`incident ${n + 1} of ${views.length}: ${v.property}, ${seconds(v.from)} to ${seconds(v.to)} (${length(v.to - v.from)}): ${v.because}`, v.events);
    const list = $('.tl-views');
    list.querySelectorAll('li').forEach((li, k) => {
      li.classList.toggle('tl-here', k === n);
      if (k === n) list.scrollTop = li.offsetTop - list.offsetTop - list.clientHeight / 2;
    });
    redraw();
  }
  function words(item) {
    const lane = lanes[rows[item[ROW]].lane], kind = kinds[item[KIND]], label = texts[item[LABEL]], detail = texts[item[DETAIL]];
    const span = item[LONG] ? `${seconds(item[FROM])} to ${seconds(item[FROM] + item[LONG])} (${length(item[LONG])})` : `at ${seconds(item[FROM])}`;
    return [`${lane.name}: ${kind.words}${label && lane.role !== 'client' ? ': ' + label : ''}`, span, detail,
      texts[item[SESSION]] && 'session ' + texts[item[SESSION]]].filter(Boolean);
  }
  function show(item, px, py) {
    tip.replaceChildren();
    for (const line of words(item)) tip.appendChild(document.createElement('div')).textContent = line;
    tip.hidden = false;
    const host = root.getBoundingClientRect(), own = tip.getBoundingClientRect();
    tip.style.left = clamp(px - host.left + 14, 0, Math.max(0, host.width - own.width)) + 'px';
    tip.style.top = (py - host.top + 18) + 'px';
  }
  function hide() { tip.hidden = true; }
  // say describes the selection and links to its events.
  function say(text, events) {
    chosen.textContent = text + ' ';
    for (const n of events.slice(0, 40)) {
      const a = chosen.appendChild(document.createElement('a'));
      a.href = '#e' + n;
      a.textContent = 'e' + n;
      chosen.append(' ');
    }
  }

  // choose highlights an operation and its session, here and in the page's other images.
  function choose(item, push) {
    session = item ? item[SESSION] || -1 : 0;
    lit = new Set(item ? eventsOf(item) : []);
    if (item && item[SESSION]) for (const i of data.items) if (i[SESSION] === session) eventsOf(i).forEach((n) => lit.add(n));
    if (item) say(words(item).join(' · '), eventsOf(item)); else chosen.textContent = '';
    if (item && push) { clearTimeout(remembering); history.pushState(null, '', '#e' + item[EVENTS]); }
    mark();
    redraw();
  }
  function mark() {
    document.querySelectorAll('.tl-lit').forEach((node) => { if (!svg.contains(node)) node.classList.remove('tl-lit'); });
    if (!lit.size) return;
    document.querySelectorAll('[data-e]').forEach((node) => {
      if (!root.contains(node) && node.dataset.e.split(' ').some((n) => lit.has(+n))) node.classList.add('tl-lit');
    });
    for (const n of lit) { const row = document.getElementById('e' + n); if (row) row.classList.add('tl-lit'); }
  }
  function find(n) {
    const hits = data.items.filter((i) => i.indexOf(n, EVENTS) >= 0);
    return hits.find((i) => i[SESSION] && lanes[rows[i[ROW]].lane].role === 'client') || hits[0];
  }
  function reveal(item) {
    const a = item[FROM], b = a + item[LONG];
    if (a >= from && b <= to && b - a > (to - from) / 200) return;
    const margin = Math.max((b - a) * 2, (to - from) / 20, 1000);
    look(a - margin, b + margin, true);
  }
  function follow() {
    const range = /^#t=([\d.]+)-([\d.]+)(?:&v=(\d+))?$/.exec(location.hash), event = /^#e(\d+)$/.exec(location.hash);
    if (range && +range[2] > +range[1]) {
      look(range[1] * 1e6, range[2] * 1e6, true, +range[3] || 0);
      section.scrollIntoView();
    }
    if (event) point(find(+event[1])); else if (session) choose(null);
    if (range && views[range[3] - 1]) visit(range[3] - 1);
  }
  function point(item) { if (item) { choose(item, false); reveal(item); } }

  const itemAt = (node) => { const g = node.closest && node.closest('.tl-i'); return g && g.item; };
  const buttons = { in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.4), right: () => pan(0.4), all: () => glide(0, END), next: () => incident(1), prev: () => incident(-1) };
  for (const name in buttons) $('.tl-' + name).addEventListener('click', buttons[name]);
  if (!views.length) for (const b of ['.tl-next', '.tl-prev']) $(b).disabled = true;

  const keys = {
    '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1.6), ArrowLeft: () => pan(-0.25), ArrowRight: () => pan(0.25),
    Home: () => glide(0, END), j: () => go(1), k: () => go(-1),
    Enter: () => focused && choose(focused, true), Escape: () => { focused = null; hide(); choose(null); },
  };
  box.addEventListener('keydown', (e) => {
    if (!keys[e.key] || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    keys[e.key]();
  });
  addEventListener('keydown', (e) => {
    const by = { n: 1, p: -1 }[e.key];
    if (!by || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
    incident(by);
  });
  // go moves the focus to the next or previous visible item, in order of time.
  function go(by) {
    const nodes = [...svg.querySelectorAll('.tl-i')].sort((p, q) => p.item[FROM] - q.item[FROM]);
    const at = nodes.findIndex((node) => node.item === focused), node = nodes[at < 0 ? 0 : clamp(at + by, 0, nodes.length - 1)];
    if (!node) return;
    focused = node.item;
    svg.querySelectorAll('.tl-focus').forEach((old) => old.classList.remove('tl-focus'));
    node.classList.add('tl-focus');
    const r = node.getBoundingClientRect();
    show(focused, r.left, r.bottom - 10);
  }

  // A page that is being scrolled keeps scrolling when the pointer reaches the timeline.
  let scrolled = 0;
  addEventListener('scroll', () => { scrolled = performance.now(); hide(); }, { passive: true });
  box.addEventListener('wheel', (e) => {
    const whole = to - from >= END;
    if (!e.ctrlKey && (performance.now() - scrolled < 250 || whole && e.deltaY > 0 && !e.shiftKey)) return;
    e.preventDefault();
    const by = e.deltaY || e.deltaX;
    if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) return look(from + (to - from) * by / 1000, to + (to - from) * by / 1000);
    zoom(Math.exp(clamp(by, -300, 300) / 400), time(e.clientX - box.getBoundingClientRect().left));
  }, { passive: false });

  const fingers = new Map();
  let dragged = 0, down = null;
  box.addEventListener('pointerdown', (e) => { if (e.button) return; fingers.set(e.pointerId, e.clientX); dragged = 0; down = itemAt(e.target); });
  box.addEventListener('pointermove', (e) => {
    if (!fingers.has(e.pointerId)) {
      const item = itemAt(e.target);
      return item ? show(item, e.clientX, e.clientY) : hide();
    }
    const left = box.getBoundingClientRect().left, old = [...fingers.values()];
    fingers.set(e.pointerId, e.clientX);
    const now = [...fingers.values()];
    dragged += Math.abs(e.clientX - old[[...fingers.keys()].indexOf(e.pointerId)]);
    if (dragged < 4) return;
    if (!box.hasPointerCapture(e.pointerId)) box.setPointerCapture(e.pointerId);
    const per = (to - from) / (width - gutter - 6);
    if (now.length === 1) return look(from + (old[0] - now[0]) * per, to + (old[0] - now[0]) * per);
    const middle = time((old[0] + old[1]) / 2 - left);
    zoom(clamp((Math.abs(old[0] - old[1]) + 1) / (Math.abs(now[0] - now[1]) + 1), 0.5, 2), middle);
  });
  for (const end of ['pointerup', 'pointercancel']) box.addEventListener(end, (e) => {
    if (!fingers.delete(e.pointerId) || end !== 'pointerup' || dragged >= 4) return;
    choose(down, true);
    if (down && e.pointerType !== 'mouse') show(down, e.clientX, e.clientY);
  });
  box.addEventListener('pointerleave', hide);
  map.addEventListener('click', (e) => {
    const px = e.clientX - map.getBoundingClientRect().left, t = (px - gutter) / (width - gutter - 6) * END, half = (to - from) / 2;
    const off = (v) => Math.abs((v.from + v.to) / 2 - t) / END * (width - gutter - 6);
    const near = views.reduce((best, v, n) => (best < 0 || off(v) < off(views[best]) ? n : best), -1);
    if (near >= 0 && off(views[near]) < 5) { view = near; return incident(0); }
    glide(t - half, t + half);
  });

  document.addEventListener('click', (e) => { // in the page's other images
    const node = e.target.closest && e.target.closest('[data-e]');
    if (!node || root.contains(node)) return;
    point(node.dataset.e.split(' ').map((n) => find(+n)).find(Boolean));
  });
  addEventListener('hashchange', follow);
  addEventListener('popstate', follow);
  new ResizeObserver(() => { if (Math.max(box.clientWidth, 280) !== width && !printing) redraw(); }).observe(box);
  const before = [];
  addEventListener('beforeprint', () => { before.push(from, to); [from, to, printing] = [0, END, true]; draw(); });
  addEventListener('afterprint', () => { [from, to, printing] = [...before.splice(0, 2), false]; draw(); });

  follow();
  draw();
  root.querySelectorAll('.tl-key').forEach((key) => { // the legend is drawn by the same code
    const kind = kinds.find((k) => k.class === key.dataset.class), own = [gutter, width];
    [gutter, width] = [0, 400];
    shape(key, [], kind, marks.has(kind.class) || kind.class.startsWith('check') ? 14 : 1, 29, 0, 16, kind.class.startsWith('check') ? 30 : 0, false, '');
    key.querySelectorAll('g').forEach((g) => g.setAttribute('class', 'tl-i tl-k-' + kind.class));
    [gutter, width] = own;
  });
})();
