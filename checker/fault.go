package checker

import "lockpick/harness/history/facts"

// Kinds of fault that say more than that something was disturbed.
const (
	killed     = facts.Kill
	paused     = facts.Pause
	cutOff     = "cut"        // a link carries nothing
	withheld   = "hold"       // a link keeps a single message
	shutDown   = "shutdown"   // a node ends in good order
	powerLost  = "power-loss" // a node stops, and forgets what it had not synced
	failedOver = "failover"   // a replica takes a node's place
	clockWrong = "clock-"     // how those begin that turn a clock
)

// stalls is where the machine stood still, in the order of time.
func (r *record) stalls() []interval {
	var all []interval
	for _, f := range r.Stalls() {
		all = append(all, interval{f.Begin.T, f.End.T})
	}
	return all
}
