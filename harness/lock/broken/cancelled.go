package broken

import (
	"context"

	"lockpick/redlock"
)

var undoneByCaller = mistake{Mistake{"undone-by-the-callers-context",
	"undoes a failed attempt by the caller's context, so that one that was cancelled leaves its keys to expire",
	"a context goes through all calls; to drop it is what the linter complains of"},
	func(l *broken) {
		l.undo = func(ctx context.Context, h *handle) []redlock.Answer {
			return l.ask(ctx, l.all, func(ctx context.Context, node int) (int64, error) {
				return l.delOwn(ctx, node, h.key, h.value)
			})
		}
	}}
