package verdict

import "testing"

// A property without incidents holds only if the search had occasions, left nothing undecided and
// reports what it examined.
func TestFindingResult(t *testing.T) {
	first := Incident{Describe: func() Result { return Result{Because: "first"} }}
	second := Incident{Describe: func() Result { return Result{Because: "second"} }}
	both := []Incident{first, second}
	for name, row := range map[string]struct {
		finding Finding
		want    Result
	}{
		"nothing":              {Finding{}, Result{Outcome: Undecided, Because: "the search does not report what it examined"}},
		"only occasions":       {Finding{Occasions: 2}, Result{Outcome: Undecided, Because: "the search does not report what it examined", Occasions: 2}},
		"no occasion":          {Finding{Because: "it looked"}, Result{Outcome: NotExercised, Because: "it looked"}},
		"occasions":            {Finding{Because: "it looked", Occasions: 2}, Result{Outcome: Holds, Because: "it looked", Occasions: 2}},
		"undecided":            {Finding{Because: "it looked", Occasions: 2, Undecided: "perhaps"}, Result{Outcome: Undecided, Because: "perhaps", Occasions: 2}},
		"undecided, none seen": {Finding{Because: "it looked", Undecided: "perhaps"}, Result{Outcome: Undecided, Because: "perhaps"}},
		"incidents":            {Finding{Incidents: both, Undecided: "perhaps"}, Result{Outcome: Violated, Because: "first", Occasions: 2, Incidents: 2}},
		"the worst incident":   {Finding{Incidents: both, DescribeWorst: second.Describe, Occasions: 9}, Result{Outcome: Violated, Because: "second", Occasions: 9, Incidents: 2}},
	} {
		got := row.finding.Result()
		if got.Outcome != row.want.Outcome || got.Because != row.want.Because || got.Occasions != row.want.Occasions || got.Incidents != row.want.Incidents {
			t.Errorf("%s: got %+v, want %+v", name, got, row.want)
		}
	}
}

func TestCanonicalCause(t *testing.T) {
	for cause, want := range map[string]string{"told-late": "notified-late", "notified-late": "notified-late", "overlap": "overlap", "": ""} {
		if got := CanonicalCause(cause); got != want {
			t.Errorf("CanonicalCause(%q) = %q, want %q", cause, got, want)
		}
	}
}

// Nothing but a whole cause is replaced: the same letters in a file name or in a sentence stay.
func TestCanonicalJSON(t *testing.T) {
	const text = `{"cause":"told-late","losses":[{"cause": "told-late"}],"expected":"violated: told-late at n1",
		"other":"violated: told-late","file":"corpus/told-late-1.yaml","because":"it was told-late","name":"told-late"}`
	const want = `{"cause":"notified-late","losses":[{"cause": "notified-late"}],"expected":"violated: notified-late at n1",
		"other":"violated: notified-late","file":"corpus/told-late-1.yaml","because":"it was told-late","name":"told-late"}`
	if got := string(CanonicalJSON([]byte(text))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
