//go:build nightly

package scenario

import "testing"

// The same of many plans that dice draw.
func TestCheckOfManyDrawnPlans(t *testing.T) { checkOfTheCatalogue(t, 100, 0.1, 0.2) }
