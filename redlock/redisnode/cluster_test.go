package redisnode_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock"
	"lockpick/redlock/redisnode/redistest"
)

// With both drivers, nodes that belong to a Redis Cluster or are replicas cause errors.
func TestRejectsClusterNodesAndReplicas(t *testing.T) {
	cluster := redistest.Start(t, 1, "--cluster-enabled", "yes", "--cluster-config-file", filepath.Join(t.TempDir(), "nodes"))[0]
	replica := redistest.Start(t, 1, "--replicaof", "127.0.0.1", "1")[0]
	wantRefused := func(addr, answer, advice string) {
		t.Helper()
		for _, kind := range []string{"go-redis", "wire"} {
			n, closer := openDriver(kind, addr)
			defer closer.Close()
			locks, err := redlock.New(redlock.Config{Nodes: []redlock.Node{n}, TTL: time.Minute, Timeout: time.Second, Fence: true})
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			_, err = locks.TryAcquire(t.Context(), "k")
			if err == nil || !strings.Contains(err.Error(), answer) || !strings.Contains(err.Error(), advice) {
				t.Errorf("%s on %s: %v", kind, answer, err)
			}
		}
	}
	wantRefused(replica, "READONLY", "this node is a replica")
	wantRefused(cluster, "CLUSTERDOWN", "Redis Cluster")
	admin := redis.NewClient(&redis.Options{Addr: cluster})
	defer admin.Close()
	if err := admin.Do(t.Context(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383).Err(); err != nil {
		t.Skip("skipped: this redis-server has no CLUSTER ADDSLOTSRANGE: ", err)
	}
	for !strings.Contains(admin.ClusterInfo(t.Context()).Val(), "cluster_state:ok") {
		time.Sleep(10 * time.Millisecond) // until the cluster is up
	}
	wantRefused(cluster, "CROSSSLOT", "Redis Cluster")
}
