// The filters of a table of runs, and its folded variants. The URL contains the selection, so that
// it can be shared. Without this script everything is shown.
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
  function filter() {
    var want = {}, shown = 0;
    fields.forEach(function (f) { if (f.value) want[f.name] = f.value; });
    var any = Object.keys(want).length > 0;
    document.body.classList.toggle('filtered', any);
    rows.forEach(function (r) {
      r.hidden = any && !fits(r, want);
      if (!r.hidden) shown++;
    });
    count.textContent = any ? shown + ' of ' + rows.length + ' rows' : rows.length + ' rows';
    return want;
  }
  function remember() {
    var hash = new URLSearchParams(filter()).toString();
    history.replaceState(null, '', hash ? '#' + hash : location.pathname + location.search);
  }
  function follow() { // the hash of a section has no =
    if (location.hash && !location.hash.includes('=')) return;
    var params = new URLSearchParams(location.hash.slice(1));
    fields.forEach(function (f) { f.value = params.get(f.name) || ''; if (f.selectedIndex < 0) f.value = ''; });
    filter();
    if (location.hash) form.scrollIntoView();
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
  form.hidden = false;
  form.addEventListener('input', remember);
  form.addEventListener('reset', function () { setTimeout(remember); });
  form.addEventListener('submit', function (e) { e.preventDefault(); });
  addEventListener('hashchange', follow);
  filter();
  follow();
})();
