// The filter of the history, and links to its rows.
(function () {
  'use strict';
  const table = document.getElementById('events');
  const form = document.getElementById('filter');
  if (!table || !form) return;
  const text = document.getElementById('f-text');
  const process = document.getElementById('f-process');
  const type = document.getElementById('f-type');
  const named = document.getElementById('f-named');
  const count = document.getElementById('f-count');
  const rows = Array.from(table.tBodies[0].rows, function (r) {
    const gap = r.className === 'gap';
    return {
      row: r, gap: gap, named: r.classList.contains('k'), words: '',
      process: gap ? '' : r.cells[2].textContent, type: gap ? '' : r.cells[3].textContent.trim(),
    };
  });
  const events = rows.filter(function (r) { return !r.gap; }).length;

  // A row matches if it contains every word.
  function filter() {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = !words.length && !process.value && !type.value && !named.checked;
    let shown = 0;
    for (const r of rows) {
      if (words.length && !r.words) r.words = r.row.textContent.toLowerCase();
      const yes = all || !r.gap &&
        (!process.value || r.process.trim() === process.value) && (!type.value || r.type === type.value) &&
        (!named.checked || r.named) && words.every(function (w) { return r.words.includes(w); });
      if (r.row.hidden === yes) r.row.hidden = !yes;
      if (yes && !r.gap) shown++;
    }
    count.textContent = shown === events ? events + ' events' : shown + ' of ' + events + ' events';
  }

  // Follows a link to a row that the filter hides or that the page does not have.
  function follow() {
    const m = /^#e(\d+)$/.exec(location.hash);
    if (!m) return;
    const row = document.getElementById('e' + m[1]);
    if (!row) {
      count.textContent = 'event ' + m[1] + ' is not listed here; see line ' + m[1] + ' of the history';
      return;
    }
    if (row.hidden) {
      form.reset();
      filter();
      row.scrollIntoView({ block: 'center' });
    }
  }

  let waiting = 0;
  text.addEventListener('input', function () {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 80);
  });
  for (const e of [process, type, named]) e.addEventListener('change', filter);
  form.addEventListener('submit', function (e) { e.preventDefault(); });
  window.addEventListener('hashchange', follow);
  form.reset();
  form.hidden = false;
  filter();
  follow();
})();
