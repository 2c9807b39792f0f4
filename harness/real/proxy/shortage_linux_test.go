package proxy

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/history"
)

// A link that can't connect because too many files are open looks cut although no fault was
// planned. It keeps working, but Close returns an error.
func TestTooFewOpenFiles(t *testing.T) {
	for what, freeFiles := range map[string]uint64{"to accept": 0, "to dial": 1} {
		node, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m := NewMesh(1, func() time.Duration { return 0 }, func(history.Event) {})
		l, err := m.Open("c1", "n1", node.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		restore := limitFiles(t, freeFiles)
		addr, err := net.ResolveTCPAddr("tcp4", l.Addr())
		if err == nil {
			err = unix.Connect(client, &unix.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())})
		}
		shortage := func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.shortage
		}
		for end := time.Now().Add(5 * time.Second); shortage() == nil && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		restore()
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(client)
		other, err := net.Dial("tcp4", l.Addr())
		if err == nil {
			_, err = node.Accept()
		}
		if err != nil {
			t.Errorf("%s: dial after the limit was raised: %v", what, err)
		}
		other.Close()
		if err := m.Close(); !errors.Is(err, syscall.EMFILE) || !strings.Contains(err.Error(), "link c1-n1: connect") {
			t.Errorf("%s: Close returned %v", what, err)
		}
		node.Close()
	}
}

// limitFiles lets this process open only a few more files until restore is called.
func limitFiles(t *testing.T, count uint64) (restore func()) {
	t.Helper()
	var oldLimit syscall.Rlimit
	firstFree, err := unix.Dup(0)
	if err == nil {
		err = errors.Join(unix.Close(firstFree), syscall.Getrlimit(syscall.RLIMIT_NOFILE, &oldLimit))
	}
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(firstFree) + count, Max: oldLimit.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &oldLimit); err != nil {
			t.Fatal(err)
		}
	}
}
