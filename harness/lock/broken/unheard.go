package broken

import "time"

var extensionUnheard = mistake{Mistake{"extension-unheard",
	"moves its deadline with each extension, whatever the nodes answer",
	"what we hold we can extend; and if a node is away, the next extension will reach it"},
	func(l *broken) {
		l.renewal = 0
		l.current = func(*handle, time.Time) bool { return true }
		l.renewed = func(*handle, time.Time, time.Time) bool { return true }
	}}
