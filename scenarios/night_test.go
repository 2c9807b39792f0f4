//go:build nightly

package scenarios_test

// night lets the longer checks draw as many seeds as a night has time for.
const night = true
