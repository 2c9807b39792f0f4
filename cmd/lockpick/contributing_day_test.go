//go:build long && !nightly && !windows

package main

// contributedTests are those that hold the house, its tables and its pictures together.
var contributedTests = []string{"-run", "^Test(ImportTable|SizesAndDocs|Golden|Names|New|SchemaIsOne|FaultsAreTold|ScenarioFormatIsTrue)$",
	"./cmd/lockpick", "./harness/lock/kinds", "./harness/scenario", "./reports/figures"}
