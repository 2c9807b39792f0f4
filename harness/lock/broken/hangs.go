package broken

import (
	"context"
	"sync"

	"lockpick/redlock"
)

var waitsForAll = mistake{Mistake{"waits-for-all",
	"waits for the answer of each node, however long that takes and whether the caller still waits or not",
	"TCP delivers it or breaks, so each request has an answer"},
	func(l *broken) {
		for _, c := range l.Clients {
			c.Options().ReadTimeout = 0 // none
		}
		l.ask = func(ctx context.Context, nodes []int, request func(ctx context.Context, node int) (int64, error)) []redlock.Answer {
			ctx = context.WithoutCancel(ctx)
			answers := make([]redlock.Answer, len(nodes))
			var all sync.WaitGroup
			for i, node := range nodes {
				all.Go(func() {
					value, err := request(ctx, node)
					answers[i] = redlock.Answer{Node: node, Value: value, Err: err}
				})
			}
			all.Wait()
			return answers
		}
	}}
