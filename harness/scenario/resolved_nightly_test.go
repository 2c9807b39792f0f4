//go:build nightly

package scenario

import "testing"

// TestCheckManyRandomPlans is like TestCheckCatalog, but with many random plans.
func TestCheckManyRandomPlans(t *testing.T) { checkCatalog(t, 100, 0.1, 0.2) }
