//go:build linux

package proc_test

import (
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"lockpick/harness/real/proc"
)

// Even if a replica connects through a link from another host, its master and the sentinels must
// see the replica's own address.
func TestReplicaAnnouncesOwnAddress(t *testing.T) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
	g, err := proc.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	start := func(name string) *proc.Redis {
		r, err := g.StartRedis(t.Context(), name, bin, "none")
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	master, replica := start("n1"), start("n1-replica")
	// In protected mode, the master would refuse connections from the other host.
	if v, err := proc.Ask(t.Context(), master.Addr(), "CONFIG", "SET", "protected-mode", "no"); err != nil || v.Str != "OK" {
		t.Fatal(v, err)
	}
	if err := replica.Follow(t.Context(), forward(t, "127.0.0.2", master.Addr())); err != nil {
		t.Fatal(err)
	}
	info, err := proc.Ask(t.Context(), master.Addr(), "INFO", "replication")
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(replica.Addr())
	if want := "slave0:ip=" + host + ",port=" + port + ","; !strings.Contains(info.Str, want) {
		t.Errorf("the master reports\n%s\nwant %s", info.Str, want)
	}
}

// forward relays connections from another host to an address.
func forward(t *testing.T, from, to string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			out, err := d.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() { io.Copy(out, in); out.Close() }()
			go func() { io.Copy(in, out); in.Close() }()
		}
	}()
	return l.Addr().String()
}
