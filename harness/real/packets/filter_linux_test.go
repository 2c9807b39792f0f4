package packets

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/nemesis"
)

// namespaceEnv is an environment variable that marks a test process as running in its own network
// namespace.
const namespaceEnv = "LOCKPICK_TEST_NETNS"

// skipReason is why no namespace could be created, or "".
var skipReason string

// TestMain runs all tests in their own network namespace, where they can't disturb other processes.
func TestMain(m *testing.M) {
	if os.Getenv(namespaceEnv) != "" {
		if err := enableLoopback(); err != nil {
			skipReason = err.Error()
		}
		os.Exit(m.Run())
	}
	c := exec.Command("/proc/self/exe", os.Args[1:]...)
	c.Env = append(os.Environ(), namespaceEnv+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	err := c.Run()
	var exitErr *exec.ExitError
	switch {
	case errors.As(err, &exitErr):
		os.Exit(max(exitErr.ExitCode(), 1))
	case err != nil:
		skipReason = "no network namespace can be created: " + err.Error()
		os.Exit(m.Run())
	}
}

// enableLoopback brings up the namespace's only interface.
func enableLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

var host = netip.MustParseAddr("127.0.0.1")

func openFilter(t *testing.T) *Filter {
	t.Helper()
	if skipReason != "" {
		t.Skip(skipReason)
	}
	f, err := Open()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPROTONOSUPPORT) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// connection is a connection to a node from a port chosen by the test.
type connection struct {
	t          *testing.T
	peer, node *net.TCPConn
}

func listen(t *testing.T) *net.TCPListener {
	t.Helper()
	ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: host.AsSlice()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func connect(ln *net.TCPListener, port int, timeout time.Duration) (*net.TCPConn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: host.AsSlice(), Port: port}, Timeout: timeout}
	c, err := d.Dial("tcp4", ln.Addr().String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// nextPorts holds the next unused port inside the rule's range (true) and outside it (false). Each
// port is used once, because it stays unavailable for a while after use.
var nextPorts = map[bool]int{true: 20000, false: 20100}

// testRule returns a rule for ports 20000 to 20099.
func testRule(way string) Rule { return Rule{Peer: host, First: 20000, Last: 20099, Way: way} }

func nextPort(inRange bool) int {
	nextPorts[inRange]++
	return nextPorts[inRange] - 1
}

func newConnection(t *testing.T, inRange bool) connection {
	t.Helper()
	port := nextPort(inRange)
	ln := listen(t)
	peer, err := connect(ln, port, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	node, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close(); node.Close() })
	return connection{t, peer, node}
}

// quietTime is how long a test waits before it concludes that no data arrives. It is far longer
// than a transfer takes (0.1 ms) and long enough for two retransmissions.
const quietTime = 700 * time.Millisecond

// canSend reports whether text sent at one end is received at the other end before the timeout.
func (w connection) canSend(from, to *net.TCPConn, text string, timeout time.Duration) bool {
	w.t.Helper()
	if _, err := from.Write([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
	return w.canReceive(to, text, timeout)
}

func (w connection) canReceive(to *net.TCPConn, text string, timeout time.Duration) bool {
	w.t.Helper()
	to.SetReadDeadline(time.Now().Add(timeout))
	b := make([]byte, len(text))
	n, err := to.Read(b)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.t.Fatal(err)
	}
	return string(b[:n]) == text
}

// retransmissions returns the number of segments that TCP has retransmitted on a connection.
func retransmissions(t *testing.T, c *net.TCPConn) uint32 {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info *unix.TCPInfo
	if e := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return info.Total_retrans
}

// TCP retransmits data lost in one direction, so that it arrives late, once packets pass again. The
// other direction is not affected, and no connection breaks.
func TestLostDataArrivesLate(t *testing.T) {
	for way, ends := range map[string]func(w connection) (from, to *net.TCPConn){
		nemesis.Request: func(w connection) (from, to *net.TCPConn) { return w.peer, w.node },
		nemesis.Reply:   func(w connection) (from, to *net.TCPConn) { return w.node, w.peer },
	} {
		t.Run(way, func(t *testing.T) {
			f := openFilter(t)
			defer f.Close()
			rule := testRule(way)
			conn, otherConn := newConnection(t, true), newConnection(t, false)
			if err := f.Drop(rule); err != nil {
				t.Fatal(err)
			}
			from, to := ends(conn)
			if conn.canSend(from, to, "lost", quietTime) {
				t.Fatalf("data arrived while %v is dropped", rule)
			}
			if retransmissions(t, from) == 0 {
				t.Error("TCP has retransmitted nothing, so it has not detected the loss")
			}
			lost, err := f.Lost(rule)
			if err != nil || lost < 2 {
				t.Errorf("%d packets matched the rule (%v), want one and its retransmissions", lost, err)
			}
			if from, to := ends(otherConn); !otherConn.canSend(from, to, "passes", time.Second) {
				t.Error("a connection from another port is cut too")
			}
			total, err := f.Pass(rule)
			if err != nil || total < lost {
				t.Errorf("%d dropped packets in total, but %d earlier (%v)", total, lost, err)
			}
			if !conn.canReceive(to, "lost", 10*time.Second) {
				t.Error("data did not arrive after packets passed again")
			}
			if _, err := f.Lost(rule); err == nil || !strings.Contains(err.Error(), "not dropped") {
				t.Errorf("the rule still exists: %v", err)
			}
		})
	}
}

// Data in the other direction arrives although its acknowledgments are lost.
func TestDropInOneDirection(t *testing.T) {
	f := openFilter(t)
	defer f.Close()
	w := newConnection(t, true)
	if err := f.Drop(testRule(nemesis.Reply)); err != nil {
		t.Fatal(err)
	}
	if !w.canSend(w.peer, w.node, "request", time.Second) {
		t.Error("the request did not arrive, but only replies are dropped")
	}
	if w.canSend(w.node, w.peer, "reply", quietTime) {
		t.Error("the reply arrived")
	}
}

// No connection can be established, because each direction carries at least one packet of the
// handshake.
func TestConnectFailsWhileDropping(t *testing.T) {
	for _, way := range []string{nemesis.Request, nemesis.Reply} {
		t.Run(way, func(t *testing.T) {
			f := openFilter(t)
			defer f.Close()
			ln := listen(t)
			rule := testRule(way)
			if err := f.Drop(rule); err != nil {
				t.Fatal(err)
			}
			c, err := connect(ln, nextPort(true), quietTime)
			var netErr net.Error
			if !errors.As(err, &netErr) || !netErr.Timeout() {
				t.Fatalf("connected: %v, %v", c, err)
			}
			lost, err := f.Lost(rule)
			if err != nil || lost == 0 {
				t.Errorf("%d packets were lost, want some (%v)", lost, err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if c, err = connect(ln, nextPort(true), 5*time.Second); err != nil {
				t.Fatalf("no connection after the table was removed: %v", err)
			}
			c.Close()
		})
	}
}

// Open replaces the table of a filter that was not closed.
func TestOpenReplacesLeftoverTable(t *testing.T) {
	leftover := openFilter(t)
	rule := testRule(nemesis.Request)
	if err := leftover.Drop(rule); err != nil {
		t.Fatal(err)
	}
	if err := leftover.Drop(rule); err == nil || !strings.Contains(err.Error(), "already dropped") {
		t.Errorf("second Drop: %v", err)
	}
	f := openFilter(t)
	defer f.Close()
	if w := newConnection(t, true); !w.canSend(w.peer, w.node, "passes", time.Second) {
		t.Error("packets are still dropped")
	}
	if _, err := f.Pass(rule); err == nil || !strings.Contains(err.Error(), "not dropped") {
		t.Errorf("Pass of packets that are not dropped: %v", err)
	}
}

func TestDropRejectsInvalidRules(t *testing.T) {
	f := openFilter(t)
	defer f.Close()
	for want, r := range map[string]Rule{
		"is not an IPv4 address":         {Peer: netip.IPv6Loopback(), First: 1, Last: 2, Way: nemesis.Request},
		"5 to 4 is not a range of ports": {Peer: host, First: 5, Last: 4, Way: nemesis.Request},
		`"" is neither request nor`:      {Peer: host, First: 1, Last: 2},
	} {
		if err := f.Drop(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", r, err, want)
		}
	}
}
