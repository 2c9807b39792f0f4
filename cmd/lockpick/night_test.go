//go:build nightly

package main

// night lets the longer checks draw as many seeds as a night has time for.
const night = true
