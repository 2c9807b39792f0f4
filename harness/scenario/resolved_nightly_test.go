//go:build nightly

package scenario

import "testing"

// TestCheckOfManyDrawnPlans repeats TestCheckOfTheCatalog with many random plans.
func TestCheckOfManyDrawnPlans(t *testing.T) { checkOfTheCatalog(t, 100, 0.1, 0.2) }
