// Package redistest starts real Redis servers for tests.
//
// It does not support persistence, faults or clusters; the harness's backends do.
package redistest

import (
	"context"
	"io"
	"net"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock/redisnode"
)

// Start starts n empty servers, which run until the test ends, and returns their addresses. args
// are additional arguments to redis-server. If redis-server is not on PATH, the test is skipped.
func Start(t testing.TB, n int, args ...string) []string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("skipped: redis-server is not on PATH; install it (apt-get install redis-server)")
	}
	addrs := make([]string, n)
	for i := range addrs {
		addrs[i] = start(t, path, args)
	}
	return addrs
}

// start starts one server. Another process may take the free port before the server does, so start
// checks that the process that answers is the server it started.
func start(t testing.TB, path string, args []string) string {
	t.Helper()
	for range 5 {
		port := freePort(t)
		cmd := exec.Command(path, append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--databases", "1",
			"--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)...)
		if err := cmd.Start(); err != nil {
			t.Fatalf("start redis-server: %v", err)
		}
		exited := make(chan struct{})
		go func() { cmd.Wait(); close(exited) }()
		stop := func() { cmd.Process.Signal(syscall.SIGKILL); <-exited }
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if waitReady(addr, cmd.Process.Pid, exited) {
			t.Cleanup(stop)
			return addr
		}
		stop()
	}
	t.Fatal("start redis-server: five attempts failed")
	return ""
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("find a free port: %v", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// waitReady waits until the server with process ID pid answers. It reports whether it did.
func waitReady(addr string, pid int, exited <-chan struct{}) bool {
	deadline := time.After(10 * time.Second)
	for {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return isProcess(addr, pid)
		}
		select {
		case <-exited:
			return false
		case <-deadline:
			return false
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func isProcess(addr string, pid int) bool {
	client := redis.NewClient(redisnode.Options(addr))
	defer client.Close()
	info, err := client.InfoMap(context.Background(), "server").Result()
	return err == nil && info["Server"]["process_id"] == strconv.Itoa(pid)
}

// Open calls create to create a client, such as a lock, and closes the client when the test ends.
func Open[E any, C io.Closer](t testing.TB, create func(E) (C, error), env E) C {
	t.Helper()
	c, err := create(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// DialUnresponsive connects to a server that reads all requests but never answers.
func DialUnresponsive(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go io.Copy(io.Discard, server)
	return client, nil
}
