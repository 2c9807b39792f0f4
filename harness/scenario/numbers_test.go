package scenario

import "testing"

func TestParseBound(t *testing.T) {
	for text, want := range map[string]Bound{
		">= 0.8": {Operator: ">=", Value: 0.8}, " <0 ": {Operator: "<", Value: 0}, "> -1.5": {Operator: ">", Value: -1.5}, "<= 1e3": {Operator: "<=", Value: 1000},
		"< 0.2 * no-jitter": {Operator: "<", Value: 0.2, Variant: "no-jitter"}, ">base": {Operator: ">", Value: 1, Variant: "base"}, "<=2*a": {Operator: "<=", Value: 2, Variant: "a"},
	} {
		got, wrong := parseBound(text)
		if wrong != "" || got != want {
			t.Errorf("%q: got %+v, error %q", text, got, wrong)
		}
		if back, wrong := parseBound(got.String()); wrong != "" || back != got {
			t.Errorf("%q: written as %q and read back as %+v", text, got, back)
		}
	}
	if !(Bound{Operator: "<", Value: 0.5, Variant: "a"}).Allows(1, 3) || (Bound{Operator: "<", Value: 0.5, Variant: "a"}).Allows(1.5, 3) {
		t.Error("want 1 < 0.5 × 3, but not 1.5 < 0.5 × 3")
	}
}

// A variant inherits the base's bounds, except those relative to that variant.
func TestVariantsInheritBounds(t *testing.T) {
	all, err := Parse("f.yaml", []byte(requiredKeys+`expect: {numbers: {grants: '>= 3', split-vote-rate: '< 0.2 * a'}}
variants:
  a: {set: {lock.ttl: 5s}}
  b: {set: {lock.ttl: 5s}}
  c: {set: {lock.ttl: 5s}, expect: {numbers: {grants: '> base'}}}
`), testNames)
	if err != nil {
		t.Fatal(err)
	}
	grants, split := Bound{Operator: ">=", Value: 3}, Bound{Operator: "<", Value: 0.2, Variant: "a"}
	for i, want := range []map[string]Bound{
		{"grants": grants, "split-vote-rate": split}, {"grants": grants}, {"grants": grants, "split-vote-rate": split},
		{"grants": {Operator: ">", Value: 1, Variant: "base"}},
	} {
		checkSame(t, all[i].ID(), all[i].Numbers, want)
	}
}
