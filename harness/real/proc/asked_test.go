package proc

import (
	"net"
	"testing"
)

// The kernel may give the same port to another process that connects to a different server.
func TestAskedFromIsPerServer(t *testing.T) {
	from := make(chan string, 1)
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Close()
	go func() {
		c, err := listen.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		from <- c.RemoteAddr().String()
		_, _ = c.Read(make([]byte, 100))
		_, _ = c.Write([]byte("+PONG\r\n"))
	}()
	server := listen.Addr().String()
	if _, err := Ask(t.Context(), server, "PING"); err != nil {
		t.Fatal(err)
	}
	at := <-from
	if !AskedFrom(server, at) {
		t.Errorf("HasRecentlyAsked(%s, %s) is false after Ask", server, at)
	}
	if other := "127.0.0.1:1"; AskedFrom(other, at) {
		t.Errorf("HasRecentlyAsked(%s, %s) is true, but Ask used server %s", other, at, server)
	}
}
