package broken

import "time"

var returnsLate = mistake{Mistake{"returns-late",
	"hands out what it got however long that took, with a deadline that may have passed",
	"the caller looks at the deadline before it works; to look twice is a waste"},
	func(l *broken) { l.inTime = func(_, _ time.Time) bool { return true } }}
