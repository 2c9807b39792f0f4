package scenario

import "testing"

func TestBounds(t *testing.T) {
	for text, want := range map[string]Bound{
		">= 0.8": {Is: ">=", Value: 0.8}, " <0 ": {Is: "<", Value: 0}, "> -1.5": {Is: ">", Value: -1.5}, "<= 1e3": {Is: "<=", Value: 1000},
		"< 0.2 * no-jitter": {Is: "<", Value: 0.2, Than: "no-jitter"}, ">base": {Is: ">", Value: 1, Than: "base"}, "<=2*a": {Is: "<=", Value: 2, Than: "a"},
	} {
		got, wrong := parseBound(text)
		if wrong != "" || got != want {
			t.Errorf("%q: %+v %s", text, got, wrong)
		}
		if again, wrong := parseBound(got.String()); wrong != "" || again != got {
			t.Errorf("%q: written as %q and read back as %+v", text, got, again)
		}
	}
	if !(Bound{Is: "<", Value: 0.5, Than: "a"}).Keeps(1, 3) || (Bound{Is: "<", Value: 0.5, Than: "a"}).Keeps(1.5, 3) {
		t.Error("1.5 is not half of 3")
	}
}

// A variant inherits the base's bounds, except bounds relative to that variant.
func TestVariantsTakeOverBounds(t *testing.T) {
	all, err := Parse("f.yaml", []byte(head+`expect: {numbers: {grants: '>= 3', split-vote-rate: '< 0.2 * a'}}
variants:
  a: {set: {lock.ttl: 5s}}
  b: {set: {lock.ttl: 5s}}
  c: {set: {lock.ttl: 5s}, expect: {numbers: {grants: '> base'}}}
`), known)
	if err != nil {
		t.Fatal(err)
	}
	grants, split := Bound{Is: ">=", Value: 3}, Bound{Is: "<", Value: 0.2, Than: "a"}
	for i, want := range []map[string]Bound{
		{"grants": grants, "split-vote-rate": split}, {"grants": grants}, {"grants": grants, "split-vote-rate": split},
		{"grants": {Is: ">", Value: 1, Than: "base"}},
	} {
		same(t, all[i].ID(), all[i].Numbers, want)
	}
}
