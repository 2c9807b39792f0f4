// The filters of a table of runs, its folded variants, and the pages of long tables. The URL contains the
// selection, so that it can be shared. Without this script everything is shown.
(function () {
  'use strict';
  var form = document.getElementById('filters'), count = form.querySelector('output');
  var fields = Array.from(form.elements).filter(function (f) { return f.name; });
  var rows = Array.from(document.querySelectorAll('tr[data-outcome]'));
  var unfold = document.getElementById('unfold'), buttons = Array.from(document.querySelectorAll('button.fold'));

  function fits(row, want) {
    var d = row.dataset, name = d.scenario.toLowerCase(), cells = Array.from(row.querySelectorAll('td[data-property]'));
    var of = cells.find(function (c) { return c.dataset.property === want.property; });
    var outcomes = !want.property ? [d.outcome].concat(cells.map(function (c) { return c.dataset.got; })) : of ? [of.dataset.got, of.dataset.as] : [];
    return (!want.outcome || outcomes.includes(want.outcome)) && (!want.backend || d.backend === want.backend) &&
      (!want.property || of && (of.dataset.got !== 'not-exercised' || want.outcome === of.dataset.got)) &&
      (want.scenario || '').toLowerCase().split(/\s+/).every(function (w) { return name.includes(w); });
  }
  var paged = Array.from(document.querySelectorAll('table[data-page-size]')).map(function (t) {
    var nav = document.createElement('nav');
    nav.className = 'pager';
    nav.setAttribute('aria-label', 'Pages of ' + t.dataset.pages);
    t.after(nav);
    return { table: t, nav: nav, name: t.dataset.pages, size: +t.dataset.pageSize, page: 1, rows: rows.filter(function (r) { return t.contains(r); }) };
  });
  // The selection as the hash of the URL, with one table on another page.
  function hash(want, other, page) {
    var params = new URLSearchParams(want);
    paged.forEach(function (p) {
      var n = p === other ? page : p.page;
      if (n > 1) params.set(p.name, n);
    });
    return params.toString();
  }
  function paginate(p, want) {
    var matches = p.rows.filter(function (r) { return !r.hidden; }), last = Math.max(1, Math.ceil(matches.length / p.size));
    p.page = Math.min(Math.max(p.page, 1), last);
    var first = (p.page - 1) * p.size;
    matches.forEach(function (r, i) { r.hidden = i < first || i >= first + p.size; });
    function link(text, rel, page) {
      var a = document.createElement('a');
      a.textContent = text;
      if (page >= 1 && page <= last) { a.href = '#' + (hash(want, p, page) || p.name + '=1'); a.rel = rel; }
      return a;
    }
    p.nav.hidden = last < 2;
    p.nav.replaceChildren(link('Newer', 'prev', p.page - 1), (first + 1) + '–' + Math.min(first + p.size, matches.length) + ' of ' + matches.length, link('Older', 'next', p.page + 1));
  }
  function filter() {
    var want = {}, shown = 0;
    fields.forEach(function (f) { if (f.value) want[f.name] = f.value; });
    var any = Object.keys(want).length > 0;
    document.body.classList.toggle('filtered', any);
    rows.forEach(function (r) {
      r.hidden = any && !fits(r, want);
      if (!r.hidden) shown++;
    });
    count.textContent = (any ? shown + ' of ' : '') + rows.length + (rows.length === 1 ? ' row' : ' rows');
    paged.forEach(function (p) { paginate(p, want); });
    return want;
  }
  function remember() {
    paged.forEach(function (p) { p.page = 1; });
    var selection = hash(filter());
    history.replaceState(null, '', selection ? '#' + selection : location.pathname + location.search);
  }
  function follow() {
    if (location.hash && !location.hash.includes('=')) { // a section, which may be folded
      var section = document.getElementById(location.hash.slice(1));
      if (section && section.tagName === 'DETAILS') section.open = true;
      return;
    }
    var params = new URLSearchParams(location.hash.slice(1)), target = location.hash ? form : null;
    fields.forEach(function (f) { f.value = params.get(f.name) || ''; if (f.selectedIndex < 0) f.value = ''; });
    paged.forEach(function (p) {
      var page = +params.get(p.name) || 1;
      if (page !== p.page) target = p.table;
      p.page = page;
    });
    filter();
    if (target && target.closest('details')) target.closest('details').open = true;
    if (target) target.scrollIntoView();
  }
  function fold(button, folded) {
    button.closest('tbody').classList.toggle('folded', folded);
    button.setAttribute('aria-expanded', !folded);
  }
  function closed() { return buttons.some(function (b) { return b.getAttribute('aria-expanded') === 'false'; }); }
  function label() { if (unfold) unfold.textContent = closed() ? 'show all variants' : 'fold variants'; }

  buttons.forEach(function (b) {
    fold(b, true);
    b.hidden = false;
    b.addEventListener('click', function () { fold(b, b.getAttribute('aria-expanded') === 'true'); label(); });
  });
  if (unfold) {
    unfold.hidden = !buttons.length;
    unfold.addEventListener('click', function () { var f = !closed(); buttons.forEach(function (b) { fold(b, f); }); label(); });
  }
  label();
  document.querySelectorAll('[data-filter]').forEach(function (e) { // the counters
    var a = document.createElement('a');
    a.href = '#' + new URLSearchParams({ outcome: e.dataset.filter });
    a.append.apply(a, Array.from(e.childNodes));
    e.append(a);
  });
  form.hidden = false;
  form.addEventListener('input', remember);
  form.addEventListener('reset', function () { setTimeout(remember); });
  form.addEventListener('submit', function (e) { e.preventDefault(); });
  addEventListener('hashchange', follow);
  filter();
  follow();
})();
