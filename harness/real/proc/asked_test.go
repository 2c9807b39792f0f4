package proc

import (
	"net"
	"testing"
)

// The kernel may give the same port to another process that connects to a different server.
func TestHasRecentlyAskedIsPerServer(t *testing.T) {
	from := make(chan string, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		c, err := listener.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		from <- c.RemoteAddr().String()
		_, _ = c.Read(make([]byte, 100))
		_, _ = c.Write([]byte("+PONG\r\n"))
	}()
	server := listener.Addr().String()
	if _, err := Ask(t.Context(), server, "PING"); err != nil {
		t.Fatal(err)
	}
	client := <-from
	if !HasRecentlyAsked(server, client) {
		t.Errorf("HasRecentlyAsked(%s, %s) is false after Ask", server, client)
	}
	if other := "127.0.0.1:1"; HasRecentlyAsked(other, client) {
		t.Errorf("HasRecentlyAsked(%s, %s) is true, but Ask used server %s", other, client, server)
	}
}
