// Package suites writes what people read of many runs: the safety report of a suite,
// the index of a store, and the store served on loopback.
//
// A Suite is one call of lockpick's for several scenarios: Add takes the outcomes as
// they come and sums them up by Scenario, a Cell for each property, so that a million
// seeds take no more room than one. Write puts suite.html, suite.md and
// outcome.json into a directory of store/suites; outcome.json alone is enough to draw
// the others again. Index rewrites store/index.html from the heads of what lies there,
// and Server shows a store to one machine's browser.
//
//	store/index.html
//	store/suites/TIME/{suite.html,suite.md,outcome.json,junit.xml}
//	store/SCENARIO+VARIANT/TIME-BACKEND-SEED/{outcome.json,report.html,…}
//
// Deliberately missing: judging, which is suite's; what one run's report shows, which
// the directories of the runs hold.
package suites
