package history

import "testing"

// A deadline ends at the next loss that the client is notified of.
func TestActualDeadlinesEndAtLosses(t *testing.T) {
	at := func(t int64, typ Type, op string, until int64) Event {
		return Event{T: t, Process: "c1", Session: "c1/1", Type: typ, Op: op, ValidUntil: until}
	}
	otherSession := at(20, OK, OpAcquire, 90)
	otherSession.Session = "c1/2"
	events := []Event{
		at(10, OK, OpAcquire, 0), at(12, OK, OpExtend, 0), otherSession, at(30, OK, OpExtend, 80), at(35, Info, OpExtend, 85),
		at(40, Info, OpLost, 0), at(40, OK, OpExtend, 95), at(60, Info, OpLost, 0), at(61, OK, OpExtend, 99),
	}
	want := []int64{40, 0, 90, 40, 85, 0, 60, 0, 99}
	for i, e := range WithActualDeadlines(events) {
		if e.ValidUntil != want[i] {
			t.Errorf("event %d is valid until %d, want %d", i, e.ValidUntil, want[i])
		}
	}
	if events[0].ValidUntil != 0 || events[3].ValidUntil != 80 {
		t.Error("the input events were changed")
	}
	if noLosses := events[:5]; &WithActualDeadlines(noLosses)[0] != &noLosses[0] {
		t.Error("the events were copied although nothing was lost")
	}
}
