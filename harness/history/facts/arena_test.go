package facts

import "testing"

// TestArena keeps more than its chunks first have room for, at addresses that stay.
func TestArena(t *testing.T) {
	var a arena[int]
	first := a.add(0)
	const n = 2_000_000
	for i := 1; i < n; i++ {
		a.add(i)
	}
	if a.len() != n {
		t.Fatalf("%d values, want %d", a.len(), n)
	}
	for i := range n {
		if *a.at(i) != i {
			t.Fatalf("value %d is %d", i, *a.at(i))
		}
	}
	want := 0
	for p := range a.all() {
		if *p != want || want == 0 && p != first {
			t.Fatalf("got %d at %p, want %d (the first at %p)", *p, p, want, first)
		}
		want++
	}
	if want != n {
		t.Errorf("%d values, want %d", want, n)
	}
}
