//go:build long

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// visibleRows lists the visible rows in a suite's table.
const rowsSeen = `[...document.querySelectorAll('tr[data-outcome]')].filter((r) => r.getClientRects().length).map((r) => r.dataset.scenario.trim()).join()`

// testSuiteFilters filters the runs in a suite with the keyboard.
func testSuiteFilters(t *testing.T, browser context.Context, suite string) {
	b := newTab(t, browser)
	b.window(1280, 900, "light")
	b.open(suite, "")
	all := fmt.Sprint(b.value(rowsSeen))
	if !strings.HasPrefix(all, "wrong,never-comes,lost-packets") || strings.Contains(all, "baseline/") {
		t.Errorf("wrong first rows, or the table is not collapsed: %s", all)
	}
	press := func(selector, keys string) {
		t.Helper()
		b.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent(keys))
	}
	press(`tr[data-scenario="baseline"] .fold`, "\r")
	b.expectValue(`(`+rowsSeen+`).split(',').filter((n) => n.startsWith('baseline/')).length`, 4)
	b.expectValue(`document.querySelector('tr[data-scenario="baseline"] .fold').ariaExpanded`, true)
	press(`[name=scenario]`, "clock slew")
	b.expectValue(`location.hash`, "#scenario=clock+slew")
	b.expectValue(rowsSeen, "clock-jump/slewed")
	press(`#filters [type=reset]`, "\r")
	b.waitUntil(`location.hash === ''`)
	press(`[name=outcome]`, "unex")
	b.expectValue(`location.hash`, "#outcome=unexpected")
	b.expectValue(rowsSeen, "wrong")
	b.screenshot("suite-filtered", false)
	b.open(suite, "#outcome=violated&property=resource-safety")
	b.expectValue(`[...document.querySelectorAll('tr[data-outcome]')].every((r) => r.hidden !== !!r.querySelector('[data-property="resource-safety"][data-got=violated]'))`, true)
	b.expectValue(`document.querySelector('[name=property]').value`, "resource-safety")
	b.value(`location.hash = '#outcome=skipped'`)
	b.waitUntil(`(` + rowsSeen + `).startsWith('lost-packets')`)
	b.open(suite, "#nothing=of-it&outcome=such")
	b.expectValue(rowsSeen, all)

	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open(suite, "")
	b.expectValue(`document.querySelectorAll('tr[data-outcome]').length === (`+rowsSeen+`).split(',').length && document.getElementById('filters').hidden`, true)
}

// testSeeds selects seeds in a sweep with the keyboard, and follows a seed's link to its report.
func testSeeds(t *testing.T, browser context.Context, sweep string) {
	b := newTab(t, browser)
	b.window(1280, 900, "light")
	b.open(sweep, "")
	b.expectValue(`[...new Set([...document.querySelectorAll('.seeds')].map((s) => [...s.querySelectorAll('text')].map((e) => e.textContent).slice(1).join()))].join(' ')`, "seed,+0,+10,1")
	for _, href := range b.value(`[...document.querySelectorAll('.grid a')].map((a) => decodeURI(new URL(a.href.baseVal, location).pathname))`).([]any) {
		if _, err := os.Stat(href.(string)); err != nil {
			t.Error(err)
		}
	}
	b.do(chromedp.Focus(chromedp.CSS(`.seeds`)))
	for range 8 {
		b.do(chromedp.KeyEvent(kb.ArrowRight))
	}
	b.expectValue(`document.querySelector('.seeds code').textContent`, "lockpick run random-faults/ --seed 8")
	b.screenshot("seeds", false)
	b.do(chromedp.KeyEvent("\t"))
	b.expectValue(`document.activeElement.getAttribute('aria-label')`, "seed 8: violated, as expected or informational, report")
	b.do(chromedp.Focus(chromedp.CSS(`.seeds`)), chromedp.KeyEvent("\r"))
	b.waitUntil(`location.pathname.endsWith('-sim-8/report.html')`)
}
