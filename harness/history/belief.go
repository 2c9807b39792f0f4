package history

// Belief is a span of true time in which a session's client believed, by its own
// clock, that it held a lock. The checker finds them; those who write or draw
// histories are told.
type Belief struct {
	Session, Client, Key string
	// From and To are nanoseconds of true time. Each may be wrong by Params.StampError;
	// what is judged is only what is left when it is taken off at both ends.
	From, To int64
	Opens    int64 // number of the return that began it
	Closes   int64 // number of the event that fixed its end; 0: the record's end
	End      Ending
}

// Ending says what ended a belief.
type Ending string

const (
	Released Ending = "released" // it called release
	Expired  Ending = "expired"  // its deadline
	NotHeld  Ending = "not-held" // an extension said that it does not hold
	Died     Ending = "died"     // its client was killed
	Still    Ending = ""         // the record ended
)
