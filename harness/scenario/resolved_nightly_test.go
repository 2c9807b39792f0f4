//go:build nightly

package scenario

import "testing"

// TestCheckManyRandomPlans is like TestCheckCatalog, but with many random plans.
func TestCheckOfManyDrawnPlans(t *testing.T) { checkOfTheCatalog(t, 100, 0.1, 0.2) }
