package redisnode_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock"
	"lockpick/redlock/redisnode"
)

// This lock hands out fencing tokens and uses five independent masters.
func ExampleNew() {
	var nodes []redlock.Node
	for _, addr := range []string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379"} {
		client := redis.NewClient(redisnode.Options(addr))
		defer client.Close()
		nodes = append(nodes, redisnode.New(client))
	}
	locks, err := redlock.New(redlock.Config{Nodes: nodes, TTL: 10 * time.Second, Fence: true})
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close() // runs before the clients are closed
	lease, err := locks.Acquire(context.Background(), "invoices")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	fmt.Println("work until", lease.Until(), "and send this token with each write:", lease.Fence())
}
