//go:build nightly

package scenario

import "testing"

// TestCheckOfManyDrawnPlans is TestCheckOfTheCatalogue with many random plans.
func TestCheckOfManyDrawnPlans(t *testing.T) { checkOfTheCatalogue(t, 100, 0.1, 0.2) }
